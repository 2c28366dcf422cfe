//! What the status says: of a recovery, and of a quorum that is lost and waits for one.

use crds::{
    EtcdRecoveryStatus,
    conditions::{self, Change, ConditionStatus, ConditionType, NewCondition, Reason},
    etcdrecovery::{RecoveryCandidate, RecoveryPhase},
};
use jiff::SignedDuration;

use super::super::{
    facts::{Link, Recovery},
    report::DirectoryState,
    status::Event,
    view::{MemberView, View},
};
use super::{
    automatic,
    candidates::{self, Candidate, WhyNot},
    stage::{self, Stage},
};

/// The whole status of a recovery, and what is worth an event in it.
#[must_use]
pub fn of_recovery(
    view: &View,
    recovery: &Recovery,
    generation: i64,
    old: &EtcdRecoveryStatus,
) -> (EtcdRecoveryStatus, Option<Event>) {
    let mut status = old.clone();
    if recovery.ended {
        return (status, None);
    }
    let (phase, ready, reason, message) = match stage::of(view) {
        Some((active, stage)) if active.uid == recovery.uid => words(stage),
        Some((active, _)) => (
            RecoveryPhase::Pending,
            ConditionStatus::False,
            Reason::RecoveryRunning,
            format!("waits for the end of {}", active.name),
        ),
        None => (
            RecoveryPhase::Pending,
            ConditionStatus::False,
            Reason::RecoveryRunning,
            "it was not looked at yet".to_owned(),
        ),
    };
    // What there was to choose from stays as it was at the choice.
    if recovery
        .incarnation
        .is_none_or(|own| own > view.facts.cluster.record.incarnation)
    {
        status.candidates = candidates::all(view).iter().map(candidate).collect();
    }
    let mode = view
        .facts
        .cluster
        .record
        .seed
        .as_ref()
        .and_then(|seed| view.member(&seed.member)?.fact.link.live()?.recovery.clone())
        .filter(|own| Some(own.incarnation) == recovery.incarnation && !own.mode.is_empty())
        .map(|own| own.mode);
    status.mode = mode.or(status.mode);
    status.phase = Some(phase);
    status.observed_generation = generation;
    let condition = NewCondition {
        type_: ConditionType::Ready,
        status: ready,
        reason,
        message: message.clone(),
        observed_generation: Some(generation),
    };
    let changed = conditions::set(&mut status.conditions, condition, view.facts.now) == Change::Transition;
    let event = (old.phase != Some(phase) || changed).then(|| Event {
        warning: phase == RecoveryPhase::Failed || phase == RecoveryPhase::NeedsSpace,
        reason: format!("Recovery{}", phase_word(phase)),
        note: format!("{}: {message}", recovery.name),
    });
    (status, event.filter(|_| old.phase != Some(phase)))
}

/// The word for a phase, as the API has it.
fn phase_word(phase: RecoveryPhase) -> &'static str {
    match phase {
        RecoveryPhase::Pending => "Pending",
        RecoveryPhase::NeedsSpace => "NeedsSpace",
        RecoveryPhase::Fencing => "Fencing",
        RecoveryPhase::Rebuilding => "Rebuilding",
        RecoveryPhase::Rejoining => "Rejoining",
        RecoveryPhase::Complete => "Complete",
        RecoveryPhase::Failed => "Failed",
    }
}

fn words(stage: Stage) -> (RecoveryPhase, ConditionStatus, Reason, String) {
    use ConditionStatus::{False, True};
    match stage {
        Stage::Refused(why) => (RecoveryPhase::Failed, False, Reason::RecoveryRefused, why),
        Stage::Waiting(why) => (RecoveryPhase::Pending, False, Reason::RecoveryRunning, why),
        Stage::Fencing(why) => (RecoveryPhase::Fencing, False, Reason::WaitingForMembers, why),
        Stage::Ready(member) => (
            RecoveryPhase::Fencing,
            False,
            Reason::RecoveryRunning,
            format!("all others are fenced or gone; {member} is chosen"),
        ),
        Stage::NeedsSpace(why) => (RecoveryPhase::NeedsSpace, False, Reason::NeedsSpace, why),
        Stage::Rebuilding(what) => (RecoveryPhase::Rebuilding, False, Reason::RecoveryRunning, what),
        Stage::Rejoining(what) => (RecoveryPhase::Rejoining, False, Reason::RecoveryRunning, what),
        Stage::Complete(what) => (RecoveryPhase::Complete, True, Reason::RecoveryComplete, what),
    }
}

fn candidate(candidate: &Candidate) -> RecoveryCandidate {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    RecoveryCandidate {
        member: candidate.member.clone(),
        term: candidate.log.map(|log| number(log.last.term)),
        index: candidate.log.map(|log| number(log.last.index)),
        commit: candidate.log.map(|log| number(log.commit)),
        revision: candidate
            .log
            .map(|log| number(log.revision))
            .filter(|revision| *revision > 0),
        why_not: candidate.why_not.as_ref().map(|why| why.words().to_owned()),
    }
}

/// What a recovery is doing, or what a person has to decide; for the condition `RecoveryPending`.
#[must_use]
pub fn pending(view: &View) -> (Reason, String) {
    if let Some((recovery, stage)) = stage::of(view)
        && !matches!(stage, Stage::Refused(_))
    {
        let (phase, _, _, message) = words(stage);
        return (
            Reason::RecoveryRunning,
            format!("{} ({}): {message}", recovery.name, phase_word(phase)),
        );
    }
    let waits_for = match view.facts.cluster.spec.recovers_after {
        Some(_) => automatic::waits_for(view),
        None => vec!["recovery.quorumLoss is Manual".to_owned()],
    };
    let because = if waits_for.is_empty() {
        "the operator recovers it after the settle time".to_owned()
    } else {
        format!("a person decides, by an EtcdRecovery: {}", waits_for.join("; "))
    };
    (
        Reason::WaitingForDecision,
        format!("{because}. Who holds what: {}. {}", holdings(view), loss(view)),
    )
}

/// Who holds what, by the agents' own reading of each disk.
#[must_use]
pub fn holdings(view: &View) -> String {
    let all: Vec<String> = candidates::all(view)
        .iter()
        .filter_map(|candidate| view.member(&candidate.member).map(|member| holding(member, candidate)))
        .collect();
    if all.is_empty() {
        return "no member object is left".to_owned();
    }
    all.join("; ")
}

fn holding(member: &MemberView, candidate: &Candidate) -> String {
    let name = &candidate.member;
    let state = match &member.fact.link {
        Link::Up { report, .. } => report.directory.state,
        Link::Down { .. } | Link::None => return format!("{name} is not heard"),
    };
    let log = match (candidate.log, state) {
        (Some(log), _) => {
            let revision = match log.revision {
                0 => String::new(),
                revision => format!(", revision {revision}"),
            };
            format!(
                "a log to {} (committed {}{revision})",
                candidates::end(&log),
                log.commit
            )
        }
        (None, DirectoryState::InUse) => "data that etcd runs on".to_owned(),
        (None, state) => format!("a directory that is {}", state.as_str()),
    };
    match &candidate.why_not {
        Some(WhyNot::Never(why)) => format!("{name} holds {log}, not to be recovered from: {why}"),
        Some(WhyNot::Now(_)) | None => format!("{name} holds {log}"),
    }
}

/// An upper bound of what a recovery from the best data would lose, from what was last reported; never an exact number,
/// which nobody can know.
#[must_use]
pub fn loss(view: &View) -> String {
    let all = candidates::all(view);
    let Some((best, log)) = candidates::best(&all).and_then(|best| Some((best, best.log?))) else {
        return "What would be lost is not known until a log was read".to_owned();
    };
    let Some(seen) = view.facts.seen else {
        return format!(
            "Of {}, what would be lost is not known: no member has reported since the operator began",
            best.member
        );
    };
    let until = view.facts.unproven_since.unwrap_or(view.facts.now);
    let seconds = until.duration_since(seen.at).max(SignedDuration::ZERO).as_secs() + 1;
    let entries = seen.commit.saturating_sub(log.last.index);
    format!(
        "From {} would be lost at most {entries} entries that were reported and what was acknowledged in the {seconds} s after that",
        best.member
    )
}
