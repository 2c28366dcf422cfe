//! Members on their way out.

use super::{
    facts::{Claim, Medium},
    node_loss,
    step::{Plan, Step, WaitReason},
    unanswered,
    view::{MemberView, View},
};

/// The whole cluster ends: let every member go, ask etcd nothing, make nothing (scenarios M16, U17).
pub(super) fn release_all(view: &View, plan: &mut Plan) {
    for member in &view.members {
        if member.fact.deleting && member.fact.finalizer {
            plan.step(Step::ReleaseMember {
                member: member.fact.name.clone(),
                uid: member.fact.uid.clone(),
            });
        }
    }
    plan.wait(WaitReason::Ending, None, "the cluster is being deleted");
}

/// A living member without our finalizer (its operator was away) would take its claim with it before etcd has forgotten
/// it.
pub(super) fn hold(view: &View, plan: &mut Plan) {
    for member in view.staying().filter(|member| !member.fact.finalizer) {
        plan.step(Step::EnsureFinalizer {
            member: member.fact.name.clone(),
            uid: member.fact.uid.clone(),
        });
    }
}

/// Members being deleted which etcd does not list (any more), by a list read with quorum or because no cluster was
/// ever formed.
pub(super) fn release_forgotten(view: &View, plan: &mut Plan) {
    let formed = view.facts.cluster.record.cluster_id.is_some();
    for member in view
        .members
        .iter()
        .filter(|member| member.fact.deleting && member.fact.finalizer)
    {
        let forgotten =
            view.facts.list.known().is_some() && member.listed.is_none() && !unanswered::may_add(view, member);
        if (!formed || forgotten) && !node_loss::holds(member, plan) {
            plan.step(Step::ReleaseMember {
                member: member.fact.name.clone(),
                uid: member.fact.uid.clone(),
            });
        }
    }
}

/// Every voter's object was deleted by hand, past the guard. Only the end of the cluster or of its namespace lets disks
/// go: each claim is kept before its member is released, and nothing is made in their place (M12). True: it is so, and
/// nothing else is to be done.
pub(super) fn retain_all(view: &View, plan: &mut Plan) -> bool {
    if view.facts.cluster.record.cluster_id.is_none() {
        return false;
    }
    let mut voters = view.members.iter().filter(|member| member.is_voter()).peekable();
    if voters.peek().is_none() {
        if view.facts.list.known().is_none() && view.all_lost() {
            plan.wait(WaitReason::MembersLost, None, lost(view));
        }
        return false;
    }
    // What is in memory cannot be kept: where there may be some, others are filled from it before anything goes.
    let fills_others =
        |member: &MemberView| view.facts.cluster.spec.medium == Medium::Memory && may_have_memory(member);
    if voters.any(|member| !member.fact.deleting || fills_others(member)) {
        return false;
    }
    for member in view
        .members
        .iter()
        .filter(|member| member.fact.deleting && member.fact.finalizer)
    {
        let name = &member.fact.name;
        let mut steps = Vec::new();
        if view.facts.cluster.spec.medium == Medium::Disk && member.fact.claim == Claim::Ours {
            steps.push(Step::RetainClaim { member: name.clone() });
        }
        steps.push(Step::ReleaseMember {
            member: name.clone(),
            uid: member.fact.uid.clone(),
        });
        plan.chain(steps);
    }
    plan.wait(WaitReason::MembersLost, None, lost(view));
    true
}

/// Its Pod is there, and no agent says that nothing is in it.
fn may_have_memory(member: &MemberView) -> bool {
    member.fact.pod.ours().is_some() && member.has_data() != Some(false)
}

/// For a person: what is left, and what can be done.
#[must_use]
pub(super) fn lost(view: &View) -> String {
    let kept = &view.facts.retained;
    if kept.is_empty() {
        "no voter has its data any more; nothing is rebuilt silently: recover from a snapshot with an EtcdRecovery"
            .into()
    } else {
        format!(
            "the objects of all voters are gone; nothing is rebuilt silently: recover with an EtcdRecovery from a volume \
             that was kept ({}) or from a snapshot",
            kept.join(", ")
        )
    }
}
