//! `replicas: 0`: no Pods, everything else kept; and back.

use super::{
    deletion,
    step::{Plan, Step},
    view::View,
};

/// A formed cluster keeps its members, their claims and their IDs; of one that was never formed nothing is worth
/// keeping, for nothing was ever served.
pub(super) fn pause(view: &View, plan: &mut Plan) {
    let formed = view.facts.cluster.record.cluster_id.is_some();
    for member in view.members.iter().filter(|member| !member.fact.deleting) {
        let name = member.fact.name.clone();
        if formed && !member.fact.dormant {
            plan.step(Step::SetDormant {
                member: name,
                dormant: true,
            });
        } else if !formed {
            plan.step(Step::DeleteMember {
                member: name,
                uid: member.fact.uid.clone(),
            });
        }
    }
    deletion::release_forgotten(view, plan);
}

/// All together, so that they find a quorum among themselves: those that are on their way out, too, as long as etcd
/// counts on them.
pub(super) fn resume(view: &View, plan: &mut Plan) {
    for member in view.members.iter().filter(|member| member.fact.dormant) {
        plan.step(Step::SetDormant {
            member: member.fact.name.clone(),
            dormant: false,
        });
    }
}
