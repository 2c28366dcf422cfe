//! What is reported: conditions, counts and one line for each member. Only what people and alerts read: records that
//! decisions rest on (token, seed, bindings) are written by steps, before they are acted on, and never here.

use crds::{
    MemberRole,
    conditions::{self, Change, ConditionStatus, ConditionType, NewCondition, Reason},
    etcdcluster::{EtcdClusterStatus, MemberState, MemberSummary, QuorumSummary},
    etcdmember::DataDirectoryState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    alarms, deletion, divergence, node_loss,
    quorum::{self, Quorum},
    recovery,
    report::{DirectoryState, ProcessState},
    rollout,
    step::{Plan, Step, WaitReason},
    summary::{first_wait, summary},
    view::{MemberView, Standing, View},
};

/// Something to tell as an event: it happened just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// It is bad news.
    pub warning: bool,
    /// Its reason.
    pub reason: String,
    /// The whole story.
    pub note: String,
}

/// The cluster's whole status, and what is worth an event in it.
#[must_use]
pub fn cluster(view: &View, plan: &Plan, old: &EtcdClusterStatus) -> (EtcdClusterStatus, Vec<Event>) {
    let facts = view.facts;
    let mut status = old.clone();
    let quorum = quorum::judge(view);
    let done = is_done(view, plan, &quorum);
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    if quorum != Quorum::Undecided {
        status.ready_members = count(view.healthy_voters());
        status.quorum = (quorum != Quorum::NotFormed).then(|| QuorumSummary {
            voters: count(view.voters()),
            healthy: count(view.healthy_voters()),
            needed: count(view.needed()),
        });
    }
    status.broken_members = count(view.members.iter().filter(|member| is_broken(view, member)).count());
    status.observed_generation = facts.cluster.generation;
    status.selector = format!("{}={}", crds::labels::CLUSTER, facts.cluster.name);
    status.members = view.members.iter().map(|member| summary_of(view, member)).collect();
    status.progress_deadline = deadline(view, plan, old, done);
    let mut events = Vec::new();
    for condition in cluster_conditions(view, plan, &quorum, done, old) {
        let event = event_of(&condition);
        if conditions::set(&mut status.conditions, condition, facts.now) == Change::Transition {
            // Two conditions of one reason tell one story.
            events.extend(event.filter(|event: &Event| events.iter().all(|told: &Event| told.reason != event.reason)));
        }
    }
    optional_conditions(view, plan, &quorum, &mut status, &mut events);
    status.summary = summary(view, plan, &quorum, done, &old.summary);
    (status, events)
}

/// Must the new status be written at once? Where a status only follows what members do (a restart, a version, a
/// message), writes can wait for each other: an agent that reports without end must not write to the API server.
#[must_use]
pub fn is_urgent(old: &EtcdClusterStatus, new: &EtcdClusterStatus) -> bool {
    // Without its members' states, and with its words left out.
    let told = |status: &EtcdClusterStatus| {
        let conditions = states(&status.conditions);
        let members: Vec<_> = status
            .members
            .iter()
            .map(|member| (member.name.clone(), member.id.clone()))
            .collect();
        (conditions, members, status.observed_generation, status.quorum)
    };
    new.cluster_id.is_none() || told(old) != told(new)
}

/// Conditions without their words.
pub(super) fn states(conditions: &[Condition]) -> Vec<(String, String, String)> {
    let state = |condition: &Condition| {
        (
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
        )
    };
    conditions.iter().map(state).collect()
}

fn is_broken(view: &View, member: &MemberView) -> bool {
    matches!(
        member.standing,
        Standing::Lost(_) | Standing::Damaged(_) | Standing::Foreign
    ) || divergence::is_in_minority(view, member)
}

/// The wanted state is reached, and nothing is under way.
fn is_done(view: &View, plan: &Plan, quorum: &Quorum) -> bool {
    if view.facts.cluster.record.token.is_none() || !view.facts.cluster.spec.is_observed {
        return false;
    }
    if *quorum == Quorum::AllLost {
        return false;
    }
    if view.is_paused() {
        return view
            .members
            .iter()
            .all(|member| !member.fact.deleting && member.fact.pod.ours().is_none());
    }
    let mut wanted = view.members.iter().filter(|member| !node_loss::is_left_over(member));
    let whole = view.staying().count() == view.target()
        && wanted
            .all(|member| matches!(member.standing, Standing::Voter(_)) && member.healthy() && !member.fact.deleting);
    matches!(quorum, Quorum::Healthy) && whole && plan.steps().all(Step::is_upkeep)
}

/// Does the plan bring the cluster nearer to its target?
fn makes_progress(plan: &Plan) -> bool {
    plan.steps().any(|step| {
        step.is_consensus()
            || matches!(
                step,
                Step::Latch { .. }
                    | Step::RecordSeed { .. }
                    | Step::RecordClusterId { .. }
                    | Step::OpenHistory { .. }
                    | Step::CreateMembers { .. }
                    | Step::CreatePod { .. }
                    | Step::SetPodImage { .. }
            )
    })
}

fn deadline(view: &View, plan: &Plan, old: &EtcdClusterStatus, done: bool) -> Option<Time> {
    if done {
        return None;
    }
    let fresh = || Some(Time(view.facts.now + view.facts.cluster.spec.progress_deadline));
    match &old.progress_deadline {
        Some(_) if makes_progress(plan) => fresh(),
        Some(old) => Some(old.clone()),
        None => fresh(),
    }
}

fn cluster_conditions(
    view: &View,
    plan: &Plan,
    quorum: &Quorum,
    done: bool,
    old: &EtcdClusterStatus,
) -> Vec<NewCondition> {
    let generation = view.facts.cluster.generation;
    let condition = |type_, status: ConditionStatus, reason, message: String| NewCondition {
        type_,
        status,
        reason,
        message,
        observed_generation: Some(generation),
    };
    let mut all = Vec::new();
    let (available, degraded) = health(view, plan, quorum, old);
    if let Some((status, reason, message)) = available {
        all.push(condition(ConditionType::Available, status, reason, message));
    }
    let (status, reason, message) = progress(view, plan, done, old);
    all.push(condition(ConditionType::Progressing, status, reason, message));
    if let Some((status, reason, message)) = degraded {
        all.push(condition(ConditionType::Degraded, status, reason, message));
    }
    all
}

/// It was paused, and no quorum has been seen since.
fn was_paused(old: &EtcdClusterStatus) -> bool {
    conditions::find(&old.conditions, ConditionType::Available)
        .is_some_and(|condition| condition.reason == Reason::Paused.as_str())
}

type Said = (ConditionStatus, Reason, String);

/// `Available` and `Degraded`; `None` leaves what was said last.
fn health(view: &View, plan: &Plan, quorum: &Quorum, old: &EtcdClusterStatus) -> (Option<Said>, Option<Said>) {
    use ConditionStatus::{False, True};
    let (healthy, voters, needed) = (view.healthy_voters(), view.voters(), view.needed());
    let counts = format!("{healthy} of {voters} voters healthy, {needed} needed");
    if view.is_paused() && view.facts.cluster.record.token.is_some() && *quorum != Quorum::AllLost {
        let message = "replicas is 0: set it above 0 to start".to_owned();
        return (
            Some((False, Reason::Paused, message.clone())),
            Some((False, Reason::Paused, message)),
        );
    }
    match quorum {
        Quorum::NotFormed => {
            let message =
                first_wait(plan).map_or_else(|| "the cluster is being formed".to_owned(), |wait| wait.message.clone());
            (Some((False, Reason::WaitingForSeed, message)), None)
        }
        Quorum::Healthy => {
            let broken = view.members.iter().find(|member| is_broken(view, member));
            let broken = broken.map(|member| format!("{} is broken", member.fact.name));
            let differ = || divergence::condition(view).map(|(_, message)| message);
            let trouble = broken.or_else(differ).or_else(|| quorum::strangers(view));
            (
                Some((True, Reason::QuorumHealthy, counts.clone())),
                Some(match trouble {
                    Some(message) => (True, Reason::MembersUnhealthy, message),
                    None => (False, Reason::QuorumHealthy, counts),
                }),
            )
        }
        Quorum::Serving { missing } => {
            let message = format!("{counts}: {}", missing.join("; "));
            (
                Some((True, Reason::QuorumAvailable, message.clone())),
                Some((True, Reason::MembersUnhealthy, message)),
            )
        }
        Quorum::Lost { .. } | Quorum::Unreachable if was_paused(old) => {
            let message = "the members are starting again".to_owned();
            (
                Some((False, Reason::Paused, message.clone())),
                Some((False, Reason::Paused, message)),
            )
        }
        Quorum::Lost { missing } => {
            let message = format!(
                "{counts}: {}. Nothing is changed without a quorum: bring these members back, or recover from a survivor",
                missing.join("; ")
            );
            (
                Some((False, Reason::QuorumLost, message.clone())),
                Some((True, Reason::QuorumLost, message)),
            )
        }
        Quorum::AllLost => {
            let message = deletion::lost(view);
            (
                Some((False, Reason::AllMembersLost, message.clone())),
                Some((True, Reason::AllMembersLost, message)),
            )
        }
        Quorum::Unreachable => {
            let message = format!("no member is heard ({counts}): see the members for what keeps them");
            (
                Some((False, Reason::ClusterUnreachable, message.clone())),
                Some((True, Reason::MembersUnhealthy, message)),
            )
        }
        Quorum::Undecided => (None, None),
    }
}

fn progress(view: &View, plan: &Plan, done: bool, old: &EtcdClusterStatus) -> Said {
    use ConditionStatus::{False, True};
    let record = &view.facts.cluster.record;
    if record.token.is_some() && view.is_paused() && done {
        return (False, Reason::Paused, "replicas is 0".into());
    }
    if done {
        return (
            False,
            Reason::Reconciled,
            format!("{} members as wanted", view.target()),
        );
    }
    let waits = first_wait(plan).map_or_else(|| "under way".to_owned(), |wait| wait.message.clone());
    let formed = record.cluster_id.is_some();
    let late = old
        .progress_deadline
        .as_ref()
        .is_some_and(|deadline| deadline.0 <= view.facts.now);
    // Where nothing is touched, nothing is late.
    let late = late && view.members.iter().all(|member| !member.agentless);
    if late && !makes_progress(plan) {
        let reason = if formed {
            Reason::DeadlineExceeded
        } else {
            Reason::BootstrapFailed
        };
        return (
            False,
            reason,
            format!(
                "no progress for {} s, still trying: {waits}",
                view.facts.cluster.spec.progress_deadline.as_secs()
            ),
        );
    }
    let before =
        conditions::find(&old.conditions, ConditionType::Progressing).map(|condition| condition.reason.as_str());
    let missed = [
        Reason::DeadlineExceeded,
        Reason::BootstrapFailed,
        Reason::RetryAfterDeadline,
    ]
    .iter()
    .any(|reason| before == Some(reason.as_str()));
    let reason = match (record.token.is_some(), formed) {
        _ if missed => Reason::RetryAfterDeadline,
        (false, _) => Reason::InitialSnapshot,
        (true, false) => Reason::WaitingForSeed,
        (true, true) => Reason::SpecChanged,
    };
    (True, reason, waits)
}

/// Conditions that are there only when they apply.
fn optional_conditions(
    view: &View,
    plan: &Plan,
    quorum: &Quorum,
    status: &mut EtcdClusterStatus,
    events: &mut Vec<Event>,
) {
    let facts = view.facts;
    // What was said last stands while nothing is known.
    if *quorum != Quorum::Undecided {
        recovery_pending(view, quorum, status, events);
    }
    let of_reason = |reason: WaitReason| plan.waits.iter().find(|wait| wait.reason == reason);
    let foreign: Vec<&str> = view
        .members
        .iter()
        .filter(|member| matches!(member.standing, Standing::Foreign))
        .map(|member| member.fact.name.as_str())
        .collect();
    let agentless: Vec<&str> = view
        .members
        .iter()
        .filter(|member| member.agentless)
        .map(|member| member.fact.name.as_str())
        .collect();
    let too_old = rollout::too_old(view);
    let wanted = [
        (
            ConditionType::NotImplemented,
            Reason::NotImplemented,
            (!facts.cluster.spec.unsupported.is_empty())
                .then(|| format!("not acted on yet: {}", facts.cluster.spec.unsupported.join(", "))),
        ),
        (
            ConditionType::AgentUnreachable,
            Reason::LinkBlocked,
            of_reason(WaitReason::AgentUnreachable).map(|wait| wait.message.clone()),
        ),
        (
            ConditionType::RolloutHalted,
            Reason::AgentImageFails,
            of_reason(WaitReason::RolloutHalted).map(|wait| wait.message.clone()),
        ),
        (
            ConditionType::AgentTooOld,
            Reason::VersionTooOld,
            (!too_old.is_empty()).then(|| {
                format!(
                    "the agents of {} are older than this operator serves{}: bring its own agent image to them",
                    too_old.join(", "),
                    facts
                        .rollout
                        .version
                        .map(|own| format!(" ({})", rollout::oldest_served(own)))
                        .unwrap_or_default()
                )
            }),
        ),
        (
            ConditionType::ForeignData,
            Reason::DirectoryForeign,
            (!foreign.is_empty()).then(|| {
                format!(
                    "held, nothing is touched: the directory of {} is not this cluster's",
                    foreign.join(", ")
                )
            }),
        ),
        (
            ConditionType::AgentsMissing,
            Reason::PodWithoutAgent,
            (!agentless.is_empty()).then(|| {
                of_reason(WaitReason::HandsOff).map_or_else(
                    || format!("made without an agent: {}", agentless.join(", ")),
                    |wait| wait.message.clone(),
                )
            }),
        ),
        (
            ConditionType::Reconcile,
            Reason::ReconcilePaused,
            facts
                .cluster
                .hands_off
                .then(|| "the operator keeps its hands off because of the annotation".to_owned()),
        ),
    ];
    let raised = alarms::conditions(view, &status.conditions);
    for (type_, reason, message) in wanted.into_iter().chain(raised) {
        let Some(message) = message else {
            conditions::remove(&mut status.conditions, type_);
            continue;
        };
        // "Reconcile" is what is switched off; the others name what is so.
        let is_so = type_ != ConditionType::Reconcile;
        let condition = NewCondition {
            type_,
            status: is_so.into(),
            reason,
            message,
            observed_generation: Some(facts.cluster.generation),
        };
        let event = event_of(&condition);
        if conditions::set(&mut status.conditions, condition, facts.now) == Change::Transition {
            events.extend(event);
        }
    }
}

fn recovery_pending(view: &View, quorum: &Quorum, status: &mut EtcdClusterStatus, events: &mut Vec<Event>) {
    let lost = matches!(quorum, Quorum::Lost { .. } | Quorum::AllLost | Quorum::Unreachable);
    if !lost || view.is_paused() || was_paused(status) {
        conditions::remove(&mut status.conditions, ConditionType::RecoveryPending);
        return;
    }
    let (reason, message) = recovery::report::pending(view);
    let condition = NewCondition {
        type_: ConditionType::RecoveryPending,
        status: ConditionStatus::True,
        reason,
        message,
        observed_generation: Some(view.facts.cluster.generation),
    };
    let event = event_of(&condition);
    if conditions::set(&mut status.conditions, condition, view.facts.now) == Change::Transition {
        events.extend(event);
    }
}

fn event_of(condition: &NewCondition) -> Option<Event> {
    let good_when = match condition.type_ {
        ConditionType::Available => ConditionStatus::True,
        ConditionType::Degraded
        | ConditionType::NotImplemented
        | ConditionType::AgentUnreachable
        | ConditionType::RolloutHalted
        | ConditionType::AgentTooOld
        | ConditionType::RecoveryPending
        | ConditionType::ForeignData
        | ConditionType::AgentsMissing
        | ConditionType::DataDiverged
        | ConditionType::DiskFull
        | ConditionType::QuotaPressure
        | ConditionType::VolumeExpansionBlocked => ConditionStatus::False,
        // Told by the steps themselves, unless time ran out.
        ConditionType::Progressing
            if matches!(condition.reason, Reason::DeadlineExceeded | Reason::BootstrapFailed) =>
        {
            ConditionStatus::True
        }
        _ => return None,
    };
    // A cluster that is being formed is no bad news.
    let warning = condition.status != good_when && !matches!(condition.reason, Reason::WaitingForSeed | Reason::Paused);
    Some(Event {
        warning,
        reason: condition.reason.as_str().to_owned(),
        note: condition.message.clone(),
    })
}

fn summary_of(view: &View, member: &MemberView) -> MemberSummary {
    let report = member.fact.link.live();
    let etcd = report.and_then(|report| report.etcd.as_ref());
    MemberSummary {
        name: member.fact.name.clone(),
        id: id_of(member),
        role: role(view, member),
        state: state(view, member),
        version: etcd
            .map(|etcd| etcd.version.clone())
            .filter(|version| !version.is_empty()),
        node: member.fact.pod.ours().and_then(|pod| pod.node.clone()),
        db_size: etcd.map(|etcd| coarse(etcd.db_size)),
        data_directory: report.map(|report| directory(report.directory.state)),
        agent: report.map(|report| report.agent_version.clone()),
    }
}

/// Its ID: of etcd's list, else the one it is bound to.
#[must_use]
pub(super) fn id_of(member: &MemberView) -> Option<String> {
    let bound = member.fact.record.binding.as_ref().map(|binding| binding.id);
    member.listed.map(|listed| listed.id).or(bound).map(|id| id.to_string())
}

/// Its role: by etcd's list, and the leader by the members' own word.
pub(super) fn role(view: &View, member: &MemberView) -> MemberRole {
    let leads = view.leader().is_some_and(|leader| leader.fact.name == member.fact.name);
    match member.listed {
        Some(listed) if listed.learner => MemberRole::Learner,
        Some(_) if leads => MemberRole::Leader,
        Some(_) => MemberRole::Follower,
        None if member.is_voter() => MemberRole::Follower,
        None => MemberRole::None,
    }
}

fn state(view: &View, member: &MemberView) -> MemberState {
    if member.fact.dormant || (view.is_paused() && member.fact.pod.ours().is_none()) {
        return MemberState::Dormant;
    }
    if member.fact.link.live().is_some_and(|report| report.directory.fenced) {
        return MemberState::Fenced;
    }
    let Some(report) = member.fact.link.live() else {
        let running = member.fact.pod.ours().is_some_and(|pod| pod.ready);
        return if running {
            MemberState::Unknown
        } else {
            MemberState::Pending
        };
    };
    match report.process.state {
        ProcessState::Unspecified => MemberState::Unknown,
        ProcessState::Absent => MemberState::Pending,
        ProcessState::Held => MemberState::Held,
        ProcessState::Starting => MemberState::Starting,
        ProcessState::Running => MemberState::Running,
        ProcessState::Stopped => MemberState::Stopped,
    }
}

pub(super) fn directory(state: DirectoryState) -> DataDirectoryState {
    match state {
        DirectoryState::Unspecified => DataDirectoryState::Unknown,
        DirectoryState::Unborn => DataDirectoryState::Unborn,
        DirectoryState::Intact => DataDirectoryState::Intact,
        DirectoryState::TornTail => DataDirectoryState::TornTail,
        DirectoryState::Damaged => DataDirectoryState::Damaged,
        DirectoryState::Foreign => DataDirectoryState::Foreign,
        DirectoryState::InUse => DataDirectoryState::InUse,
        DirectoryState::Unreadable => DataDirectoryState::Unreadable,
    }
}

/// A size in steps of powers of two from 16 MiB on, so that a growing database is not written at every report.
pub(super) fn coarse(bytes: i64) -> i64 {
    const LEAST: u64 = 16 * 1024 * 1024;
    let bytes = u64::try_from(bytes).unwrap_or(0).max(LEAST);
    i64::try_from(bytes.next_power_of_two()).unwrap_or(i64::MAX)
}
