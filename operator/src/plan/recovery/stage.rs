//! How far a recovery is, by the facts alone: after a crash the next pass goes on where the last one was.

use super::super::{
    facts::{Recovery, RecoverySource},
    quorum::{self, Quorum},
    report::RecoveryPhase,
    view::{Standing, View},
};
use super::{
    candidates::{self, Candidate, WhyNot},
    proofs,
};

/// How far it is. Texts are for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is not carried out, and never will be.
    Refused(String),
    /// Nothing is done yet.
    Waiting(String),
    /// Members are being fenced, or neither fenced nor provably gone.
    Fencing(String),
    /// All is proven: the new history can be opened on this member.
    Ready(String),
    /// The volume has too little room.
    NeedsSpace(String),
    /// The new history is being made.
    Rebuilding(String),
    /// It serves; the others join it.
    Rejoining(String),
    /// It is whole.
    Complete(String),
}

impl Stage {
    /// What is waited for; `None` where nothing is.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Waiting(words)
            | Self::Fencing(words)
            | Self::NeedsSpace(words)
            | Self::Rebuilding(words)
            | Self::Rejoining(words) => Some(words),
            Self::Refused(_) | Self::Ready(_) | Self::Complete(_) => None,
        }
    }
}

/// The recovery that is to be carried out, and how far it is: the oldest that is not at its end.
#[must_use]
pub fn of<'a>(view: &View<'a>) -> Option<(&'a Recovery, Stage)> {
    let recovery = view.facts.recoveries.iter().find(|recovery| !recovery.ended)?;
    let present = view.facts.cluster.record.incarnation;
    let stage = match recovery.incarnation {
        Some(own) if own < present => Stage::Refused(format!(
            "another recovery has opened incarnation {present} since; this one was to make {own}"
        )),
        Some(own) if own == present => opened(view, recovery),
        Some(_) | None => before(view, recovery),
    };
    Some((recovery, stage))
}

/// The new history is not recorded yet.
fn before(view: &View, recovery: &Recovery) -> Stage {
    if let RecoverySource::Unsupported(what) = &recovery.source {
        return Stage::Refused(format!("this version of the operator does not recover {what}"));
    }
    if view.is_paused() {
        return Stage::Waiting("the cluster is paused: set replicas above 0".to_owned());
    }
    match quorum::judge(view) {
        Quorum::NotFormed => return Stage::Refused("the cluster was never formed".to_owned()),
        Quorum::Healthy | Quorum::Serving { .. } => {
            return Stage::Refused("the quorum stands: nothing is to be recovered".to_owned());
        }
        Quorum::Undecided => return Stage::Waiting("whether the quorum is lost is not known yet".to_owned()),
        Quorum::Lost { .. } | Quorum::AllLost | Quorum::Unreachable => {}
    }
    let candidates = candidates::all(view);
    if let RecoverySource::Member(name) = &recovery.source {
        match candidates.iter().find(|candidate| candidate.member == *name) {
            None => return Stage::Refused(format!("the cluster has no member {name}")),
            Some(Candidate {
                why_not: Some(WhyNot::Never(why)),
                ..
            }) => return Stage::Refused(format!("{name} cannot be recovered from: {why}")),
            Some(_) => {}
        }
    }
    let missing = proofs::missing(view, recovery);
    if !missing.is_empty() {
        return Stage::Fencing(missing.join("; "));
    }
    // All that are heard are fenced: their logs grow no more.
    let chosen = match &recovery.source {
        RecoverySource::Member(name) => candidates.iter().find(|candidate| candidate.member == *name),
        RecoverySource::Best | RecoverySource::Unsupported(_) => candidates::best(&candidates),
    };
    let Some(chosen) = chosen else {
        return Stage::Refused(format!(
            "no member has data to go on with ({}): restore a snapshot",
            why_none(&candidates)
        ));
    };
    if let Some(why) = &chosen.why_not {
        return Stage::Fencing(format!(
            "{} cannot be recovered from yet: {}",
            chosen.member,
            why.words()
        ));
    }
    let ahead = candidates::ahead(view, &candidates, chosen);
    if !ahead.is_empty() && !recovery.accept_data_loss {
        return Stage::Refused(format!(
            "the log of {} ends at {}, and {}: choose that one, or set acceptDataLoss in a new EtcdRecovery",
            chosen.member,
            chosen.log.as_ref().map(candidates::end).unwrap_or_default(),
            ahead.join("; ")
        ));
    }
    Stage::Ready(chosen.member.clone())
}

fn why_none(candidates: &[Candidate]) -> String {
    let why = |candidate: &Candidate| {
        let why = candidate.why_not.as_ref().map(WhyNot::words).unwrap_or_default();
        format!("{}: {why}", candidate.member)
    };
    candidates.iter().map(why).collect::<Vec<_>>().join("; ")
}

/// The new history is recorded.
fn opened(view: &View, recovery: &Recovery) -> Stage {
    if view.facts.list.known().is_none() {
        return rebuilding(view);
    }
    let held = |name: &str| recovery.assume_gone.iter().any(|gone| gone == name);
    let late: Vec<&str> = view
        .staying()
        .filter(|member| !(matches!(member.standing, Standing::Voter(_)) && member.healthy()))
        .filter(|member| !held(&member.fact.name))
        .map(|member| member.fact.name.as_str())
        .collect();
    let away: Vec<&str> = view
        .staying()
        .filter(|member| held(&member.fact.name) && !matches!(member.standing, Standing::Voter(_)))
        .map(|member| member.fact.name.as_str())
        .collect();
    if !late.is_empty() {
        return Stage::Rejoining(format!("the new history serves; {} joins it again", late.join(", ")));
    }
    if away.is_empty() {
        return Stage::Complete(format!("{} members vote", view.voters()));
    }
    Stage::Complete(format!(
        "{} members vote; {} was taken for gone and is kept out when it comes back",
        view.voters(),
        away.join(", ")
    ))
}

fn rebuilding(view: &View) -> Stage {
    let record = &view.facts.cluster.record;
    let Some(seed) = &record.seed else {
        return Stage::Rebuilding("it is not recorded who begins the new history".to_owned());
    };
    let name = &seed.member;
    let report = view.member(name).and_then(|member| member.fact.link.live());
    let Some(report) = report else {
        return Stage::Rebuilding(format!(
            "{name} makes the new history; its agent is not heard (if it is lost, delete this EtcdRecovery and make another)"
        ));
    };
    let own = report
        .recovery
        .as_ref()
        .filter(|recovery| recovery.incarnation == record.incarnation);
    match own {
        Some(recovery) if recovery.phase == RecoveryPhase::NeedsSpace => Stage::NeedsSpace(format!(
            "the volume of {name} needs {} free, {} are: grow its PersistentVolumeClaim",
            mebibytes(recovery.needed_bytes),
            mebibytes(report.disk.free_bytes)
        )),
        Some(recovery) if recovery.phase == RecoveryPhase::Refused => {
            Stage::Refused(format!("{name} cannot make the new history: {}", recovery.detail))
        }
        Some(recovery) if recovery.phase == RecoveryPhase::Rebuilding && !recovery.detail.is_empty() => {
            Stage::Rebuilding(format!("on {name}, tried again: {}", recovery.detail))
        }
        Some(recovery) if recovery.phase == RecoveryPhase::Done => Stage::Rebuilding(format!(
            "the new history of {name} (revision {}) is starting",
            recovery.revision
        )),
        Some(_) | None => Stage::Rebuilding(format!("{name} makes the new history")),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
