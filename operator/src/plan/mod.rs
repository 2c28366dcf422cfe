//! Pure: facts in, one plan out. No clock, no client, nothing asynchronous.
//!
//! [`plan`] decides everything; whoever carries a plan out makes no choice. The order of its phases is the order of
//! importance: what ends goes first, then what must be recorded before it is acted on, then Kubernetes objects, then
//! etcd's membership (repair, promote, add, remove: at most one such step in a plan).
//!
//! Every phase derives what it does from the facts alone, never from what an earlier plan meant to do: a crash between
//! any two steps leaves facts from which the next plan goes on.

mod choices;
mod deletion;
pub mod facts;
mod formation;
mod growth;
mod join;
pub mod member_status;
mod membership;
mod objects;
mod orders;
mod pause;
mod pods;
pub mod quorum;
mod repair;
pub mod report;
mod shrink;
pub mod status;
pub mod step;
mod target;
pub mod view;

use std::time::Duration;

use facts::Facts;
use step::{Plan, WaitReason};
use view::View;

/// How long a fact that justifies a membership step may be old.
pub const FRESH: Duration = Duration::from_secs(2);

/// Decides what to do now.
#[must_use]
pub fn plan(facts: &Facts) -> Plan {
    let mut plan = Plan::default();
    let view = View::new(facts);
    if facts.cluster.ending {
        deletion::release_all(&view, &mut plan);
        return plan;
    }
    if facts.cluster.hands_off {
        plan.wait(
            WaitReason::HandsOff,
            None,
            "the operator keeps its hands off: remove the annotation to go on",
        );
        return plan;
    }
    if !target::latch(&view, &mut plan) {
        return plan;
    }
    target::wake_at_deadline(&view, &mut plan);
    if members_without_agent(&view, &mut plan) {
        return plan;
    }
    if view.target() > 0 || facts.cluster.record.cluster_id.is_some() {
        objects::services(&view, &mut plan);
    }
    pods::all(&view, &mut plan);
    if view.target() == 0 {
        pause::pause(&view, &mut plan);
        objects::budget(&view, &mut plan);
        return plan;
    }
    pause::resume(&view, &mut plan);
    if facts.cluster.record.cluster_id.is_none() {
        formation::form(&view, &mut plan);
    } else {
        membership::steer(&view, &mut plan);
    }
    objects::voter_labels(&view, &mut plan);
    objects::budget(&view, &mut plan);
    plan
}

/// Pods of the Go operator have no agent: they are left as they are until adoption is there.
fn members_without_agent(view: &View, plan: &mut Plan) -> bool {
    let mut missing = view
        .members
        .iter()
        .filter(|member| member.fact.pod.ours().is_some_and(|pod| !pod.has_agent))
        .map(|member| member.fact.name.as_str());
    let Some(first) = missing.next() else { return false };
    plan.wait(
        WaitReason::HandsOff,
        Some(first),
        "its Pod has no agent, so nothing of this cluster is touched",
    );
    true
}
