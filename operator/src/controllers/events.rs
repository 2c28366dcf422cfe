//! Events: one for each transition, none for a pass; and few in a fault that lasts.

use std::{collections::HashMap, sync::Mutex};

use crds::EtcdCluster;
use jiff::{SignedDuration, Timestamp};
use kube::{
    Resource,
    runtime::events::{Event, EventType},
};

use super::{World, api::write, memory::Memory};
use crate::plan::{status, step::Step};

/// The same kind of event, about the same member, is told once in this time.
const SAME: SignedDuration = SignedDuration::from_mins(3);
/// So many different ones may be told in a row: what a large cluster needs to form and to grow ...
const ROW: usize = 40;
/// ... and then one in this time.
const LATER: SignedDuration = SignedDuration::from_secs(30);

/// Which events of one cluster were told lately. A fault that comes and goes must not fill the API server with them: the
/// status tells the present state all the same.
#[derive(Debug, Default)]
pub(super) struct Told {
    last: HashMap<String, Timestamp>,
    /// When the row of those that were told is used up to nothing again.
    level: Option<Timestamp>,
}

impl Told {
    /// May it be told? If so, it counts as told.
    pub(super) fn may(&mut self, key: String, now: Timestamp) -> bool {
        self.last.retain(|_, told| now.duration_since(*told) < SAME);
        let level = self.level.filter(|level| *level > now).unwrap_or(now);
        let full = level.duration_since(now) >= LATER * i32::try_from(ROW).unwrap_or(i32::MAX);
        if full || self.last.contains_key(&key) {
            return false;
        }
        self.last.insert(key, now);
        self.level = Some(level + LATER);
        true
    }
}

fn may(world: &World, memory: &Mutex<Memory>, reason: &str, about: &str) -> bool {
    let now = world.now();
    super::memory::with(memory, |memory| {
        memory.told_events.may(format!("{reason} {about}"), now)
    })
}

/// Of conditions that changed.
pub(super) fn of_conditions(world: &World, cluster: &EtcdCluster, memory: &Mutex<Memory>, told: &[status::Event]) {
    for event in told {
        if may(world, memory, &event.reason, "") {
            publish(world, cluster, event.warning, &event.reason, &event.note, "Observe");
        }
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
pub(super) fn of_steps(world: &World, cluster: &EtcdCluster, memory: &Mutex<Memory>, done: &[Step]) {
    for step in done {
        let (reason, note) = match step {
            Step::RecordSeed { seed } => ("SeedChosen", format!("{} starts the cluster", seed.member)),
            Step::NewIncarnation { incarnation, .. } => (
                "StartedOver",
                format!("the first member was lost before it served; incarnation {incarnation}"),
            ),
            Step::RecordClusterId { id } => ("ClusterFormed", format!("etcd cluster {id}")),
            Step::OpenHistory {
                incarnation,
                seed,
                cluster_id,
                ..
            } => (
                "HistoryOpened",
                format!(
                    "the quorum is lost: incarnation {incarnation}, etcd cluster {cluster_id}, is made of the data of {}",
                    seed.member
                ),
            ),
            Step::CreateRecovery { recovery } => (
                "RecoveryStarted",
                format!("the quorum is lost and nothing speaks against a recovery: {recovery}"),
            ),
            Step::AddLearner { member, .. } => ("LearnerAdded", format!("{member} was added as a learner")),
            Step::Promote { member, id, .. } => ("MemberPromoted", format!("{member} ({id}) votes")),
            Step::Remove { member, id, .. } => ("MemberRemoved", format!("{member} ({id}) was removed")),
            Step::DisarmCorrupt { .. } => (
                "AlarmDisarmed",
                "all members hold the same data: CORRUPT is disarmed".to_owned(),
            ),
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
            | Step::GrowVolume { .. }
            | Step::CompareHashes { .. }
            | Step::DeletePod { .. }
            | Step::SetPodImage { .. }
            | Step::LabelPod { .. }
            | Step::ShowPod { .. }
            | Step::RecordRecovery { .. }
            | Step::ApplyHeadlessService
            | Step::ApplyClientService
            | Step::ApplyBudget { .. }
            | Step::DeleteBudget
            | Step::Bind { .. }
            | Step::Direct { .. }
            | Step::Nudge { .. } => continue,
        };
        if may(world, memory, reason, step.member().unwrap_or_default()) {
            publish(world, cluster, false, reason, &note, step.kind());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_fault_is_told_at_most_twice_a_minute_and_a_large_cluster_may_form() {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut told = Told::default();
        for step in 0..ROW {
            assert!(told.may(format!("LearnerAdded {step}"), now));
        }
        assert!(!told.may("LearnerAdded more".into(), now));
        // It flaps ten times a second for an hour, with a member replaced each time.
        let mut told = Told::default();
        let mut events = Vec::new();
        for tenth in 0..36_000 {
            now = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(tenth * 100);
            for key in [
                "QuorumLost ",
                "QuorumHealthy ",
                "MemberRemoved a",
                "LearnerAdded a",
                "MemberPromoted a",
            ] {
                events.extend(told.may(key.into(), now).then_some(now));
            }
        }
        let last = events
            .iter()
            .filter(|at| now.duration_since(**at) <= SignedDuration::from_mins(30))
            .count();
        assert!(last <= 60, "{last} in the last half hour");
        assert!(events.len() <= ROW + 120, "{} in an hour", events.len());
        assert!(
            told.may("Another ".into(), now + SignedDuration::from_mins(1)),
            "it is told again later"
        );
    }
}
