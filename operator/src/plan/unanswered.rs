//! A membership call that got no answer: etcd may carry it out as long as its own request timeout lasts after the caller
//! has given up, so a list without its effect proves nothing yet (invariant 1).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{
    facts::{MemberList, Unanswered},
    step::{Plan, Step, WaitReason},
    view::{MemberView, View},
};

/// After this, what was not done will not be done: etcd gives a proposal up after 7 s.
const SETTLED: SignedDuration = SignedDuration::from_secs(8);

/// For so long etcd may still carry it out.
#[must_use]
pub fn settles_in(unanswered: &Unanswered, now: Timestamp) -> Duration {
    let age = now.duration_since(unanswered.at);
    Duration::try_from(SETTLED.saturating_sub(age)).unwrap_or(Duration::ZERO)
}

/// The call whose outcome is still open.
pub(super) fn open<'f>(view: &View<'f>) -> Option<&'f Unanswered> {
    let unanswered = view.facts.unanswered.as_ref()?;
    let list = view.facts.list.known()?;
    let age = view.facts.now.duration_since(unanswered.at);
    (age < SETTLED && !shows(view, list, &unanswered.step)).then_some(unanswered)
}

/// Does the list show the effect?
fn shows(view: &View, list: &MemberList, step: &Step) -> bool {
    let entry = |id| list.members.iter().find(|listed| listed.id == id);
    match step {
        Step::AddLearner { peer_url, .. } => list.members.iter().any(|listed| listed.peer_urls.contains(peer_url)),
        Step::Promote { id, .. } => entry(*id).is_none_or(|listed| !listed.learner),
        Step::Remove { id, .. } => entry(*id).is_none(),
        Step::MoveLeader { id, .. } => view.leader().is_some_and(|leader| leader.listed_id() == Some(*id)),
        _ => true,
    }
}

/// A call to admit this very member may still be carried out.
pub(super) fn may_add(view: &View, member: &MemberView) -> bool {
    open(view).is_some_and(
        |open| matches!(&open.step, Step::AddLearner { peer_url, .. } if *peer_url == member.fact.peer_url),
    )
}

/// Only the same call may be made again before the outcome is known; and nothing is deleted on the strength of a list
/// that may be about to change.
pub(super) fn restrain(open: &Unanswered, wanted: &mut Plan) {
    wanted.chains.retain(|chain| {
        chain.iter().all(|step| {
            !matches!(step, Step::DeleteMember { .. }) && (!step.is_consensus() || step.is_same_change(&open.step))
        })
    });
    wanted.wait(
        WaitReason::MemberList,
        open.step.member().filter(|member| !member.is_empty()),
        format!(
            "{} got no answer, and whether etcd carries it out is not known yet: no other change before that",
            open.step.kind()
        ),
    );
    wanted.look_again(Duration::from_millis(500));
}
