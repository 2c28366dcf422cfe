//! A formed cluster: repair before promotion, promotion before growth, growth before shrinking; one consensus step.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    alarms, deletion, divergence,
    facts::Fact,
    growth, join, node_loss, quorum, repair, shrink,
    step::{Plan, Step, WaitReason},
    unanswered,
    view::View,
};

/// A refused call is not made again before this ...
const AFTER_REFUSAL: SignedDuration = SignedDuration::from_millis(200);
/// ... and before this, when it is refused for longer than etcd refuses healthy changes (5 s).
const AFTER_MANY: SignedDuration = SignedDuration::from_secs(2);
/// So long.
const REFUSES_OFTEN: SignedDuration = SignedDuration::from_secs(10);

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
    if let Some(strangers) = quorum::strangers(view) {
        plan.wait(WaitReason::Stranger, None, strangers);
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
    let mut wanted = change(view, via);
    if let Some(open) = unanswered::open(view) {
        unanswered::restrain(open, &mut wanted);
    }
    let busy = wanted.has_consensus_step();
    let admits = wanted.steps().any(|step| matches!(step, Step::AddLearner { .. }));
    let refused_for_long = refused(view, &mut wanted);
    plan.absorb(wanted);
    divergence::say(view, plan);
    alarms::say(view, plan);
    // When nothing else is under way.
    if !busy {
        divergence::compare(view, plan);
        alarms::answer(view, via, plan);
    }
    // What a joiner is told must be what it finds: not while the list is about to change.
    if !busy || (refused_for_long && !admits) {
        join::send_joins(view, list, plan);
    }
}

/// The one change of membership that is due, or what it waits for.
fn change(view: &View, via: &str) -> Plan {
    let mut wanted = Plan::default();
    let lone = view.voters() == 1;
    let _one_is_enough = repair::remove_broken(view, &mut wanted)
        || node_loss::replace(view, &mut wanted)
        // With a lone voter all that are ready join before any is promoted: after the first promotion etcd refuses
        // an add until all voters have been connected for 5 s.
        || (lone && growth::add(view, via, &mut wanted))
        || growth::promote(view, via, &mut wanted)
        || (!lone && growth::add(view, via, &mut wanted))
        || shrink::surplus(view, &mut wanted);
    wanted
}

/// A refused call waits a moment before it is made again; that it is refused is said as long as it is. True: it has
/// been refused for a while.
fn refused(view: &View, wanted: &mut Plan) -> bool {
    let now = view.facts.now;
    let lately = view
        .facts
        .refusal
        .as_ref()
        .filter(|refusal| now.duration_since(refusal.at) < REFUSES_OFTEN);
    let Some(refusal) = lately.filter(|_| wanted.has_consensus_step()) else {
        return false;
    };
    wanted.wait(
        WaitReason::Refused,
        None,
        format!("etcd refuses a change of membership for now: {}", refusal.message),
    );
    let lasts = now.duration_since(refusal.since);
    let pause = if lasts < REFUSES_OFTEN {
        AFTER_REFUSAL
    } else {
        AFTER_MANY
    };
    let left = pause.saturating_sub(now.duration_since(refusal.at));
    if left > SignedDuration::ZERO {
        wanted.chains.retain(|chain| !chain.iter().any(Step::is_consensus));
        wanted.look_again(left.unsigned_abs());
    }
    lasts >= REFUSES_OFTEN
}
