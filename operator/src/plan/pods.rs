//! What is under each member: the agent's Secret, the claim and the Pod.

use std::time::Duration;

use super::{
    facts::{Claim, Medium, Member, Pod, PodFact},
    step::{Plan, Step, WaitReason},
    view::{MemberView, View},
};

/// All members at once: none waits for another.
pub(super) fn all(view: &View, plan: &mut Plan) {
    for member in &view.members {
        let mut steps = Vec::new();
        one(view, member, plan, &mut steps);
        plan.chain(steps);
    }
}

fn one(view: &View, standing: &MemberView, plan: &mut Plan, steps: &mut Vec<Step>) {
    let member = standing.fact;
    let name = &member.name;
    if member.deleting && !(may_vote(view, standing) && keeps_data(view, member)) {
        return;
    }
    if member.dormant || view.is_paused() {
        if let Some(pod) = member.pod.ours().filter(|pod| !pod.deleting && member.dormant) {
            steps.push(Step::DeletePod {
                member: name.clone(),
                uid: pod.uid.clone(),
            });
        }
        return;
    }
    if !member.identity_ready {
        steps.push(Step::EnsureAgentIdentity { member: name.clone() });
    }
    if view.facts.cluster.spec.medium == Medium::Disk && !claim(member, plan, steps) {
        return;
    }
    match &member.pod {
        PodFact::Absent => {
            let voter = view.facts.cluster.spec.medium == Medium::Disk && standing.is_voter();
            steps.push(Step::CreatePod {
                member: name.clone(),
                voter,
            });
        }
        PodFact::Foreign { owner } => plan.wait(
            WaitReason::NameTaken,
            Some(name),
            format!("Pod {name} belongs to {owner}, not to this member: delete it"),
        ),
        PodFact::Ours(pod) => ours(view, member, pod, plan, steps),
    }
}

/// etcd may count on it: it is listed, or may be.
fn may_vote(view: &View, member: &MemberView) -> bool {
    if view.facts.list.known().is_some() {
        return member.listed.is_some();
    }
    let formed = view.facts.cluster.record.cluster_id.is_some();
    formed && (member.is_voter() || member.fact.record.binding.is_some())
}

/// A Pod for it would find the data.
fn keeps_data(view: &View, member: &Member) -> bool {
    view.facts.cluster.spec.medium == Medium::Disk && member.claim == Claim::Ours
}

/// False: no Pod may be made on it.
fn claim(member: &Member, plan: &mut Plan, steps: &mut Vec<Step>) -> bool {
    let name = &member.name;
    match &member.claim {
        Claim::Absent => {
            // While a Pod still uses a claim of that name, the new one could not be used anyway.
            if member.pod.ours().is_none() {
                steps.push(Step::CreateClaim { member: name.clone() });
            }
            true
        }
        Claim::Ours => true,
        Claim::Ending => {
            plan.wait(
                WaitReason::VolumePending,
                Some(name),
                format!("PersistentVolumeClaim data-{name} is still being deleted; it is not used again"),
            );
            false
        }
        Claim::Foreign { owner } => {
            plan.wait(
                WaitReason::NameTaken,
                Some(name),
                format!("PersistentVolumeClaim data-{name} belongs to {owner}, not to this member: it is never mounted; rename or delete it"),
            );
            false
        }
    }
}

fn ours(view: &View, member: &Member, pod: &Pod, plan: &mut Plan, steps: &mut Vec<Step>) {
    let name = &member.name;
    if pod.deleting {
        plan.wait(
            WaitReason::Ending,
            Some(name),
            format!("Pod {name} is being deleted; a new one follows"),
        );
        return;
    }
    if pod.ended {
        steps.push(Step::DeletePod {
            member: name.clone(),
            uid: pod.uid.clone(),
        });
        return;
    }
    correct_version(view, member, pod, steps);
    if let Some(trouble) = &pod.trouble {
        plan.wait(
            trouble_reason(&trouble.reason),
            Some(name),
            format!("Pod {name}: {}: {}", trouble.reason, trouble.message),
        );
    } else if member.link.live().is_none() && member.place.node.lost_since().is_none() {
        match (&pod.ip, &member.link) {
            (Some(ip), super::facts::Link::Down { since, .. })
                if view.facts.now.duration_since(*since) >= AGENT_PATIENCE =>
            {
                plan.wait(
                    WaitReason::AgentUnreachable,
                    Some(name),
                    format!("the agent of Pod {name} cannot be reached at {ip} port 2383: allow the operator to reach that port"),
                );
            }
            (Some(_), super::facts::Link::Down { .. }) => {
                plan.wait(
                    WaitReason::PodStarting,
                    Some(name),
                    format!("the agent of Pod {name} has not answered yet"),
                );
                plan.look_again(Duration::from_secs(1));
            }
            (Some(_) | None, _) => {
                plan.wait(WaitReason::PodStarting, Some(name), format!("Pod {name} is starting"));
            }
        }
    }
}

/// A link that has been down for so long is worth a condition (U16: within 10 s).
pub(super) const AGENT_PATIENCE: jiff::SignedDuration = jiff::SignedDuration::from_secs(6);

/// A version corrected before the member's etcd ever started: nothing is lost by changing it in place (M21).
fn correct_version(view: &View, member: &Member, pod: &Pod, steps: &mut Vec<Step>) {
    let Some(version) = view.facts.cluster.record.version else {
        return;
    };
    let unused = member.record.binding.is_none();
    let unformed = view.facts.cluster.record.cluster_id.is_none();
    if !(unused || unformed) {
        return;
    }
    if member.version != Some(version) {
        steps.push(Step::SetVersion {
            member: member.name.clone(),
            version,
        });
    }
    if pod.etcd_version != Some(version) {
        steps.push(Step::SetPodImage {
            member: member.name.clone(),
            uid: pod.uid.clone(),
            version,
        });
    }
}

fn trouble_reason(reason: &str) -> WaitReason {
    match reason {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" | "ImageInspectError" => {
            WaitReason::ImagePull
        }
        "Unschedulable" | "SchedulerError" | "SchedulingGated" => WaitReason::Unschedulable,
        _ => WaitReason::PodTrouble,
    }
}
