//! What a log on disk holds: for the choice of the one to go on with when the quorum is lost.

use std::path::Path;

use datadir::{Facts, Member, Options, Use};

/// The end of a log, and what is known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Term of the last entry.
    pub term: u64,
    /// Its index.
    pub index: u64,
    /// The highest index known to be committed.
    pub commit: u64,
    /// Newest revision of the database; 0 when it was not read.
    pub revision: u64,
    /// The member is a learner, by the membership that is recorded there.
    pub is_learner: bool,
}

impl Log {
    /// By what was found in the directory; `None` when that does not say.
    #[must_use]
    pub fn of(facts: &Facts) -> Option<Self> {
        let (last, own) = (facts.last?, facts.identity?.member_id);
        let is_own_learner = |member: &Member| member.id == own && member.learner;
        let membership = facts.membership.as_ref();
        Some(Self {
            term: last.term,
            index: last.index,
            commit: facts.commit.unwrap_or_default(),
            revision: facts.revision.unwrap_or_default(),
            is_learner: membership.is_some_and(|known| known.members.iter().any(is_own_learner)),
        })
    }

    /// Reads the one of an etcd that runs. `None` when it cannot be read: that says nothing about what is in it.
    #[must_use]
    pub fn of_running(data_dir: &Path) -> Option<Self> {
        let used = Use::Known { running: true };
        Self::of(&datadir::inspect(data_dir, &Options { used }).ok()?.facts)
    }
}
