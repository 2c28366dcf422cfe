//! What this process remembers of a cluster between passes. Everything in it can be lost: it only saves repetition.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use crate::plan::facts::{Nudged, Refusal, Sent, Unanswered};

/// Memory of one cluster.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Secrets with agents' certificates that were found good: by member UID, with the CAs they were issued under and
    /// when to look again.
    pub identities: HashMap<String, (String, Timestamp)>,
    /// The last order sent to each member, by UID.
    pub sent: HashMap<String, Sent>,
    /// Members that a link is kept for.
    pub linked: BTreeSet<String>,
    /// Names that somebody else has (`Kind/name`), and when that was found out.
    pub taken: HashMap<String, Timestamp>,
    /// The raft writes made for a joiner.
    pub nudged: Option<Nudged>,
    /// Since when no voter has proven a quorum.
    pub unproven_since: Option<Timestamp>,
    /// The last membership call, when etcd refused it.
    pub refusal: Option<Refusal>,
    /// The last membership call that got no answer.
    pub unanswered: Option<Unanswered>,
    /// What failed in the last pass, and not only for a moment.
    pub failed: Vec<String>,
    /// When a status was last written.
    pub told: Option<Timestamp>,
    /// Passes in a row that failed.
    pub failures: u32,
    /// Passes in a row that did something.
    pub busy: u32,
    /// The last error that was logged: the same is not logged again and again.
    pub said: Option<String>,
}

/// The first wait after a failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST: Duration = Duration::from_secs(30);

/// A taken name is tried again after this.
const TAKEN: SignedDuration = SignedDuration::from_secs(10);

impl Memory {
    /// Is the name known to be somebody else's?
    #[must_use]
    pub(super) fn is_taken(&self, kind: &str, name: &str, now: Timestamp) -> bool {
        self.taken
            .get(&format!("{kind}/{name}"))
            .is_some_and(|found| now.duration_since(*found) < TAKEN)
    }

    /// A pass failed: how long to wait, twice as long each time.
    pub(super) fn back_off(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// A pass went well.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.said = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_up_to_a_limit_and_starts_anew() {
        let mut memory = Memory::default();
        assert_eq!(memory.back_off(), Duration::from_millis(100));
        assert_eq!(memory.back_off(), Duration::from_millis(200));
        for _ in 0..20 {
            memory.back_off();
        }
        assert_eq!(memory.back_off(), LONGEST);
        memory.succeeded();
        assert_eq!(memory.back_off(), FIRST);
    }
}
