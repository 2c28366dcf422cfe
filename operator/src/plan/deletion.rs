//! Members on their way out.

use super::{
    step::{Plan, Step, WaitReason},
    unanswered,
    view::View,
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
        if !formed || forgotten {
            plan.step(Step::ReleaseMember {
                member: member.fact.name.clone(),
                uid: member.fact.uid.clone(),
            });
        }
    }
}
