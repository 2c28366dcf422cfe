//! `recovery.quorumLoss: Automatic`: the operator writes the decision down itself, where nothing speaks against it. It is
//! consent to lose what only lost disks held, and no consent to give up members that may come back (D30).

use std::time::Duration;

use super::super::{
    quorum::{self, Quorum},
    step::{Plan, Step, WaitReason},
    view::View,
};
use super::{
    candidates,
    proofs::{self, Proof},
};

pub(super) fn decide(view: &View, plan: &mut Plan) {
    let Some(settle) = view.facts.cluster.spec.recovers_after else {
        return;
    };
    if view.is_paused() || !is_lost(view) {
        return;
    }
    let waits_for = waits_for(view);
    if !waits_for.is_empty() {
        plan.wait(
            WaitReason::Recovery,
            None,
            format!("the quorum is not recovered automatically: {}", waits_for.join("; ")),
        );
        return;
    }
    let lost = view
        .facts
        .unproven_since
        .map(|since| view.facts.now.duration_since(since).unsigned_abs());
    match lost {
        Some(lost) if lost >= settle => plan.step(Step::CreateRecovery { recovery: name(view) }),
        Some(_) | None => {
            let left = settle.saturating_sub(lost.unwrap_or(Duration::ZERO));
            plan.wait(
                WaitReason::Recovery,
                None,
                format!(
                    "the quorum is recovered automatically in {} s, unless it comes back",
                    settle.as_secs()
                ),
            );
            plan.look_again(left);
        }
    }
}

fn is_lost(view: &View) -> bool {
    match quorum::judge(view) {
        Quorum::Lost { .. } | Quorum::AllLost => true,
        Quorum::NotFormed | Quorum::Healthy | Quorum::Serving { .. } | Quorum::Unreachable | Quorum::Undecided => false,
    }
}

/// One for each history, so that it is never written twice.
fn name(view: &View) -> String {
    let cluster = &view.facts.cluster;
    format!("{}-{}", cluster.name, cluster.record.incarnation.max(1) + 1)
}

/// Why a person has to decide.
pub(super) fn waits_for(view: &View) -> Vec<String> {
    let mut all: Vec<String> = view
        .members
        .iter()
        .filter(|member| proofs::of(member, None) == Proof::Silent)
        .map(|member| {
            format!(
                "{} is not heard and not provably gone: make its agent reachable, or write an EtcdRecovery that \
                 names it in assumeGone",
                member.fact.name
            )
        })
        .collect();
    // Those that still have their data may yet find a quorum among themselves.
    let whole = candidates::all(view)
        .iter()
        .filter(|candidate| {
            candidate
                .why_not
                .as_ref()
                .is_none_or(|why| matches!(why, candidates::WhyNot::Now(_)))
        })
        .filter(|candidate| {
            let member = view.member(&candidate.member);
            member.is_some_and(|member| proofs::of(member, None) != Proof::Gone)
        })
        .count();
    if whole >= view.needed() {
        all.push(format!(
            "{whole} of {} voters still have their data, enough for a quorum: bring them together",
            view.voters()
        ));
    }
    if whole == 0 {
        all.push("no member has data to go on with".to_owned());
    }
    all
}
