//! Services, the `PodDisruptionBudget` and the voters' label: as they should be on every pass, whatever else goes on.

use super::{
    facts::ServiceState,
    step::{Plan, Step, WaitReason},
    view::{View, quorum},
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
    let voters = view.voters();
    let wanted = (voters > 0).then(|| i32::try_from(quorum(voters.max(view.target()))).unwrap_or(i32::MAX));
    match (wanted, view.facts.budget) {
        (Some(wanted), current) if current != Some(wanted) => plan.step(Step::ApplyBudget { min_available: wanted }),
        (None, Some(_)) => plan.step(Step::DeleteBudget),
        (Some(_) | None, _) => {}
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
