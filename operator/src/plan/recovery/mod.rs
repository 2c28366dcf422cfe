//! A lost quorum: a new history of the cluster is made of what one member has left (operator.md, "Quorum lost").
//!
//! | module | what it is |
//! |---|---|
//! | [`candidates`] | whose log is how long, and why one cannot be chosen |
//! | [`stage`] | how far a recovery is, by the facts alone |
//! | [`proofs`] | who is fenced, who is provably gone, who is neither |
//! | [`open`] | the new history: recorded, then ordered |
//! | [`guard`] | what is left of older histories is kept from serving |
//! | [`automatic`] | the decision that the policy makes |
//! | [`report`] | what the status says |

mod automatic;
pub mod candidates;
mod guard;
mod open;
mod proofs;
pub mod report;
pub mod stage;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::time::Duration;

use self::stage::Stage;
use super::{
    step::{Plan, WaitReason},
    view::View,
};

/// Nothing tells that a person has done what is waited for.
const AGAIN: Duration = Duration::from_secs(2);

/// Carries out the recovery that is under way, if one is. True: nothing else of etcd's membership is touched meanwhile.
pub(super) fn carry_out(view: &View, plan: &mut Plan) -> bool {
    guard::keep(view, plan);
    let Some((recovery, stage)) = stage::of(view) else {
        automatic::decide(view, plan);
        return false;
    };
    if let Some(message) = stage.message() {
        plan.wait(
            WaitReason::Recovery,
            None,
            format!("recovery {}: {message}", recovery.name),
        );
        plan.look_again(AGAIN);
    }
    match stage {
        Stage::Refused(_) | Stage::Waiting(_) | Stage::Rejoining(_) | Stage::Complete(_) => false,
        Stage::Fencing(_) => {
            guard::fence_all(view, &recovery.name, plan);
            true
        }
        Stage::Ready(member) => {
            open::open(view, recovery, &member, plan);
            true
        }
        Stage::NeedsSpace(_) | Stage::Rebuilding(_) => {
            open::rebuild(view, plan);
            true
        }
    }
}
