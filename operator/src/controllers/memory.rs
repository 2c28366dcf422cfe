//! What this process remembers of a cluster between passes. Everything in it can be lost: it only saves repetition.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeSelector;

use super::{
    backoff::{self, Failing},
    events::Told,
};
use crate::plan::{
    divergence::Hashes,
    facts::{Nudged, Refusal, Seen, Sent, Unanswered},
    volumes,
};

/// Memory of one cluster.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Secrets with agents' certificates that were found good: by member UID, with the CAs they were issued under and
    /// when that was.
    pub identities: HashMap<String, (String, Timestamp)>,
    /// The last order sent to each member, by UID.
    pub sent: HashMap<String, Sent>,
    /// Members that a link is kept for.
    pub linked: BTreeSet<String>,
    /// Names that somebody else has (`Kind/name`), and when that was found out.
    pub taken: HashMap<String, Timestamp>,
    /// Where volumes can be used, by name.
    pub volumes: HashMap<String, Option<NodeSelector>>,
    /// Members whose claims have lost their volumes, by UID, and when that was noticed.
    pub lost_volumes: HashMap<String, Timestamp>,
    /// The raft writes made for a joiner.
    pub nudged: Option<Nudged>,
    /// Since when no voter has proven a quorum.
    pub unproven_since: Option<Timestamp>,
    /// The last membership call, when etcd refused it.
    pub refusal: Option<Refusal>,
    /// The last membership call that got no answer.
    pub unanswered: Option<Unanswered>,
    /// What comparing the members' data has told.
    pub hashes: Hashes,
    /// Kubernetes did not let a claim grow.
    pub growth_refused: Option<volumes::Refused>,
    /// Steps that failed the last time.
    pub failing: Failing,
    /// How many permissions were missing.
    pub lacked: usize,
    /// Events that were told lately.
    pub told_events: Told,
    /// The API server has said that the namespace ends.
    pub namespace_ends: bool,
    /// The commit index that a leader has reported last.
    pub seen: Option<Seen>,
    /// When a status was last written.
    pub told: Option<Timestamp>,
    /// Since when the refusals are refused that were logged last.
    pub refusal_said: Option<Timestamp>,
    /// Reports in a row that failed.
    pub failures: u32,
    /// Passes in a row that did something.
    pub busy: u32,
    /// The last error of a report that was logged: the same is not logged again and again.
    pub said: Option<String>,
}

/// A Secret that was found good is looked at again after this ...
const LOOK_AGAIN: SignedDuration = SignedDuration::from_hours(1);
/// ... and after this while its agent is not heard: the Secret may be what is missing.
const LOOK_AGAIN_UNHEARD: SignedDuration = SignedDuration::from_secs(10);

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

    /// Is the Secret of a member's agent known to be good?
    #[must_use]
    pub(super) fn has_identity(&self, uid: &str, ca: &str, heard: bool, now: Timestamp) -> bool {
        let good_for = if heard { LOOK_AGAIN } else { LOOK_AGAIN_UNHEARD };
        self.identities
            .get(uid)
            .is_some_and(|(issued, seen)| issued == ca && now.duration_since(*seen) < good_for)
    }

    /// A report failed: how long to wait.
    pub(super) fn back_off(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        backoff::wait(self.failures)
    }

    /// A report went well.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.said = None;
    }
}

/// Works with what is remembered of a cluster, also after a panic in another pass over it.
pub(super) fn with<T>(memory: &Mutex<Memory>, act: impl FnOnce(&mut Memory) -> T) -> T {
    act(&mut memory.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_looked_at_again_soon_while_its_agent_is_not_heard() {
        let seen = Timestamp::UNIX_EPOCH;
        let mut memory = Memory::default();
        memory.identities.insert("1".into(), ("ca".into(), seen));
        let later = seen + SignedDuration::from_secs(11);
        assert!(memory.has_identity("1", "ca", false, seen));
        assert!(memory.has_identity("1", "ca", true, later));
        assert!(!memory.has_identity("1", "ca", false, later));
        assert!(!memory.has_identity("1", "another", true, seen));
        assert!(!memory.has_identity("2", "ca", true, seen));
    }
}
