//! Services, the `PodDisruptionBudget` and the voters' label: as they should be on every pass, whatever else goes on.

use crate::resources;

use super::{
    facts::{Budget, ServiceState},
    step::{Plan, Step, WaitReason},
    view::View,
};

pub(super) fn services(view: &View, plan: &mut Plan) {
    let cluster = &view.facts.cluster.name;
    match view.facts.services.headless {
        ServiceState::Current => {}
        ServiceState::Stale => plan.step(Step::ApplyHeadlessService),
        ServiceState::Foreign => taken(plan, cluster),
    }
    match view.facts.services.client {
        ServiceState::Current => {}
        ServiceState::Stale => plan.step(Step::ApplyClientService),
        ServiceState::Foreign => taken(plan, &format!("{cluster}-client")),
    }
}

fn taken(plan: &mut Plan, name: &str) {
    plan.wait(
        WaitReason::NameTaken,
        None,
        format!("Service {name} belongs to somebody else: delete it or rename the cluster"),
    );
}

/// `minAvailable = max(voters, target) / 2 + 1`; none at zero voters.
pub(super) fn budget(view: &View, plan: &mut Plan) {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let (voters, target) = (count(view.voters()), count(view.target()));
    let wanted = resources::min_available(voters, target);
    match (wanted, view.facts.budget) {
        (Some(_), Budget::Foreign) => plan.wait(
            WaitReason::NameTaken,
            None,
            format!(
                "PodDisruptionBudget {} belongs to somebody else: delete it",
                view.facts.cluster.name
            ),
        ),
        (Some(_), Budget::Absent) => plan.step(Step::ApplyBudget { voters, target }),
        (Some(_), Budget::Ours { min_available, current }) if !current || min_available != wanted => {
            plan.step(Step::ApplyBudget { voters, target });
        }
        (None, Budget::Ours { .. }) => plan.step(Step::DeleteBudget),
        (Some(_), Budget::Ours { .. }) | (None, Budget::Absent | Budget::Foreign) => {}
    }
}

/// Voters carry the label, by etcd's list and by their own word: learners are never in the client Service (U10).
pub(super) fn voter_labels(view: &View, plan: &mut Plan) {
    for member in &view.members {
        let Some(pod) = member.fact.pod.ours().filter(|pod| !pod.deleting) else {
            continue;
        };
        let Some(wanted) = votes(view, member) else { continue };
        if wanted != pod.voter_label {
            plan.step(Step::LabelPod {
                member: member.fact.name.clone(),
                uid: pod.uid.clone(),
                voter: wanted,
            });
        }
    }
}

/// Does it vote? `None`: nothing is known, the label stays as it is.
fn votes(view: &View, member: &super::view::MemberView) -> Option<bool> {
    view.facts.list.known()?;
    match member.listed {
        None => Some(false),
        Some(listed) if listed.learner => Some(false),
        Some(listed) => {
            let etcd = member.fact.link.live()?.etcd.as_ref()?;
            Some(etcd.member_id == listed.id && !etcd.learner)
        }
    }
}
