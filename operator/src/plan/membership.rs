//! A formed cluster: repair before promotion, promotion before growth, growth before shrinking; one consensus step.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    deletion,
    facts::Fact,
    growth, join, repair, shrink,
    step::{Plan, WaitReason},
    view::View,
};

/// A refused call is not made again before this.
const AFTER_REFUSAL: SignedDuration = SignedDuration::from_millis(200);

pub(super) fn steer(view: &View, plan: &mut Plan) {
    let list = match &view.facts.list {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => {
            plan.wait(
                WaitReason::MemberList,
                None,
                format!("etcd's member list is not known: {why}"),
            );
            // The links tell when it can be read again; a cluster without links must be asked.
            plan.look_again(Duration::from_secs(2));
            return;
        }
    };
    if list.cluster_id.is_some() && list.cluster_id != view.facts.cluster.record.cluster_id {
        plan.wait(
            WaitReason::DataDirectory,
            None,
            "a member answers for another cluster: nothing is changed",
        );
        return;
    }
    deletion::release_forgotten(view, plan);
    growth::create_members(view, plan);
    repair::quarantine(view, list, plan);
    let Some(via) = view.via() else {
        plan.wait(WaitReason::Quorum, None, "no voter is known to serve");
        plan.look_again(Duration::from_secs(1));
        return;
    };
    join::nudge(view, via, plan);
    let refused = view
        .facts
        .refusal
        .as_ref()
        .filter(|refusal| view.facts.now.duration_since(refusal.at) < AFTER_REFUSAL);
    if let Some(refusal) = refused {
        plan.wait(
            WaitReason::Refused,
            None,
            format!("etcd refused a change of membership for now: {}", refusal.message),
        );
        plan.look_again(Duration::from_millis(200));
        join::send_joins(view, list, plan);
        return;
    }
    let lone = view.voters() == 1;
    let done = repair::remove_broken(view, plan)
        // With a lone voter all that are ready join before any is promoted: after the first promotion etcd refuses
        // an add until all voters have been connected for 5 s.
        || (lone && growth::add(view, via, plan))
        || growth::promote(view, via, plan)
        || (!lone && growth::add(view, via, plan))
        || shrink::surplus(view, plan);
    if !done {
        join::send_joins(view, list, plan);
    }
}
