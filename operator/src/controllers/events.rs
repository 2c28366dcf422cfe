//! Events: one for each transition, none for a pass.

use crds::EtcdCluster;
use kube::{
    Resource,
    runtime::events::{Event, EventType},
};

use super::{World, api::write};
use crate::plan::{status, step::Step};

/// Of conditions that changed.
pub(super) fn of_conditions(world: &World, cluster: &EtcdCluster, told: &[status::Event]) {
    for event in told {
        publish(world, cluster, event.warning, &event.reason, &event.note, "Observe");
    }
}

/// A member's etcd was killed for memory.
pub(super) fn of_kill(world: &World, cluster: &EtcdCluster, member: &str, kills: i32) {
    let note = format!(
        "etcd of {member} was killed because it took more memory than its limit, {kills} times by now: raise the limit"
    );
    publish(world, cluster, true, "EtcdOutOfMemory", &note, "Observe");
}

/// Of steps that were carried out.
pub(super) fn of_steps(world: &World, cluster: &EtcdCluster, done: &[Step]) {
    for step in done {
        let (reason, note) = match step {
            Step::RecordSeed { seed } => ("SeedChosen", format!("{} starts the cluster", seed.member)),
            Step::NewIncarnation { incarnation, .. } => (
                "StartedOver",
                format!("the first member was lost before it served; incarnation {incarnation}"),
            ),
            Step::RecordClusterId { id } => ("ClusterFormed", format!("etcd cluster {id}")),
            Step::AddLearner { member, .. } => ("LearnerAdded", format!("{member} was added as a learner")),
            Step::Promote { member, id, .. } => ("MemberPromoted", format!("{member} ({id}) votes")),
            Step::Remove { member, id, .. } => ("MemberRemoved", format!("{member} ({id}) was removed")),
            Step::MoveLeader { member, .. } => ("LeaderMoved", format!("{member} was asked to lead")),
            Step::RetainClaim { member } => (
                "ClaimRetained",
                format!("the volume of {member} is kept: every voter's object was deleted"),
            ),
            Step::SetAgentImage { member, image, .. } => ("AgentImageChanged", format!("{member} gets agent {image}")),
            Step::CreatePod { .. }
            | Step::Latch { .. }
            | Step::CreateMembers { .. }
            | Step::MarkBootstrap { .. }
            | Step::SetDormant { .. }
            | Step::SetVersion { .. }
            | Step::DeleteMember { .. }
            | Step::EnsureFinalizer { .. }
            | Step::ReleaseMember { .. }
            | Step::EnsureAgentIdentity { .. }
            | Step::CreateClaim { .. }
            | Step::DeletePod { .. }
            | Step::SetPodImage { .. }
            | Step::LabelPod { .. }
            | Step::ApplyHeadlessService
            | Step::ApplyClientService
            | Step::ApplyBudget { .. }
            | Step::DeleteBudget
            | Step::Bind { .. }
            | Step::Direct { .. }
            | Step::Nudge { .. } => continue,
        };
        publish(world, cluster, false, reason, &note, step.kind());
    }
}

fn publish(world: &World, cluster: &EtcdCluster, warning: bool, reason: &str, note: &str, action: &str) {
    let event = Event {
        type_: if warning { EventType::Warning } else { EventType::Normal },
        reason: reason.to_owned(),
        // The API takes 1 KiB.
        note: Some(note.chars().take(500).collect()),
        action: action.to_owned(),
        secondary: None,
    };
    let reference = cluster.object_ref(&());
    let recorder = world.operator.recorder.clone();
    // Nobody waits for an event, and a lost one changes nothing: so with too many under way.
    let Ok(turn) = std::sync::Arc::clone(&world.events).try_acquire_owned() else {
        tracing::debug!(reason, "an event is left out: too many are under way");
        return;
    };
    let lease = std::sync::Arc::clone(&world.operator.lease);
    tokio::spawn(async move {
        let _turn = turn;
        if let Err(error) = write(&lease, "telling an event", recorder.publish(&event, &reference)).await {
            tracing::debug!(%error, "an event was not taken");
        }
    });
}
