//! Whose log is how long, and why one cannot be chosen.
//!
//! The log to go on with is the one that Raft would elect: the one whose last entry has the highest term, then the highest
//! index. It holds every acknowledged write that any of the logs holds. What a log *knows* to be committed says less: the
//! leader that counted the votes may be lost (scenario D14).

use super::super::{
    facts::Link,
    report::{Directory, DirectoryState, Log},
    view::{MemberView, View},
};

/// One member's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The member.
    pub member: String,
    /// Its log, as far as it was read.
    pub log: Option<Log>,
    /// Why it cannot be chosen.
    pub why_not: Option<WhyNot>,
}

/// Why a member's data cannot be gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It may be different in a while.
    Now(String),
    /// Not these data.
    Never(String),
}

impl WhyNot {
    /// The words.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Now(words) | Self::Never(words) => words,
        }
    }
}

/// All members, the one with the best data first.
#[must_use]
pub fn all(view: &View) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = view.members.iter().map(candidate).collect();
    all.sort_by(|a, b| {
        let key = |candidate: &Candidate| {
            let end = candidate.log.map(|log| (log.last, log.commit, log.revision));
            (candidate.why_not.is_none(), end)
        };
        key(b).cmp(&key(a)).then_with(|| a.member.cmp(&b.member))
    });
    all
}

/// The one with the longest log.
#[must_use]
pub fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.first().filter(|candidate| candidate.why_not.is_none())
}

/// Who is known to have held more than this one.
#[must_use]
pub fn ahead(view: &View, candidates: &[Candidate], chosen: &Candidate) -> Vec<String> {
    let Some(own) = chosen.log else { return Vec::new() };
    let on_disk = candidates.iter().filter_map(|other| {
        let log = other
            .log
            .filter(|log| other.member != chosen.member && log.last > own.last)?;
        Some(format!("the log of {} ends at {}", other.member, end(&log)))
    });
    let told = view.members.iter().filter_map(|member| {
        let etcd = member.fact.link.last()?.etcd.as_ref()?;
        let of_this = view
            .facts
            .cluster
            .record
            .cluster_id
            .is_none_or(|id| id == etcd.cluster_id);
        (of_this && etcd.commit > own.last.index)
            .then(|| format!("{} has told of {} committed entries", member.fact.name, etcd.commit))
    });
    on_disk.chain(told).collect()
}

/// The end of a log, for people.
#[must_use]
pub fn end(log: &Log) -> String {
    format!("entry {} of term {}", log.last.index, log.last.term)
}

fn candidate(member: &MemberView) -> Candidate {
    let directory = member.fact.link.last().map(|report| &report.directory);
    let log = directory.and_then(|directory| directory.log);
    Candidate {
        member: member.fact.name.clone(),
        log,
        why_not: why_not(member, log),
    }
}

fn why_not(member: &MemberView, log: Option<Log>) -> Option<WhyNot> {
    let now = |words: &str| Some(WhyNot::Now(words.to_owned()));
    let never = |words: String| Some(WhyNot::Never(words));
    let directory = match &member.fact.link {
        Link::Up { report, .. } => &report.directory,
        Link::Down { .. } | Link::None => return now("its agent is not heard"),
    };
    match directory.state {
        DirectoryState::Unspecified => return now("its directory was not looked at yet"),
        DirectoryState::Unreadable => return now("its directory cannot be read"),
        DirectoryState::Unborn => return never("its directory is empty".to_owned()),
        DirectoryState::Damaged => return never(words("its data are damaged", directory)),
        DirectoryState::Foreign => return never(words("its data are of another history", directory)),
        DirectoryState::Intact | DirectoryState::TornTail | DirectoryState::InUse => {}
    }
    // Whoever never voted may lack what others have acknowledged, and etcd cannot be started alone on such data (D15).
    if log.is_some_and(|log| log.learner) || !member.fact.record.voter {
        return never(
            "it is a learner: it never voted, so writes may be acknowledged that it does not have".to_owned(),
        );
    }
    log.is_none()
        .then(|| WhyNot::Now("its log is read when etcd is stopped".to_owned()))
}

fn words(what: &str, directory: &Directory) -> String {
    if directory.detail.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {}", directory.detail)
    }
}
