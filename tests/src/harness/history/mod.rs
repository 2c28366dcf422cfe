//! What clients have asked of etcd and what it has answered, to be checked for linearizability.
//!
//! Each key is a register of its own: linearizability of a whole is that of its parts, and a short history of many keys is
//! checked in no time where a long one of a single key is not.

mod check;
mod clients;

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use serde::{Deserialize, Serialize};

pub use check::{Verdict, check, demand};
pub use clients::Clients;

/// One operation of one client, as `kube/go/linearize` reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The client, by number. One client does one thing at a time.
    pub client: usize,
    /// The register.
    pub key: String,
    /// What was asked, and, where that is known, answered.
    #[serde(flatten)]
    pub what: What,
    /// What is known of it.
    pub outcome: Outcome,
    /// When it was asked, in nanoseconds of the history's clock.
    pub call: u64,
    /// When it was answered, or given up.
    #[serde(rename = "return")]
    pub end: u64,
}

/// An operation on a register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum What {
    /// A value is written.
    Put {
        /// It.
        value: String,
    },
    /// The value is read.
    Get {
        /// It; none: the key is not there.
        found: Option<String>,
    },
    /// A value is written if it follows on the expected one.
    Cas {
        /// The value that must be there.
        expected: Option<String>,
        /// The new one.
        value: String,
        /// It was there.
        swapped: bool,
    },
}

/// What a client knows of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Answered.
    Ok,
    /// Not carried out, and it never will be.
    Failed,
    /// Carried out, or to be carried out at any later time, or never.
    Unknown,
}

/// A growing history.
#[derive(Debug)]
pub struct History {
    start: Instant,
    operations: Mutex<Vec<Operation>>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            operations: Mutex::default(),
        }
    }
}

impl History {
    /// Nanoseconds of its clock.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds an operation that has ended.
    pub fn add(&self, operation: Operation) {
        self.lock().push(operation);
    }

    /// What is in it.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Operation>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line for people: how much there was of what, and the longest time without an acknowledged write.
#[must_use]
pub fn summary(operations: &[Operation]) -> String {
    let count = |outcome| {
        operations
            .iter()
            .filter(|operation| operation.outcome == outcome)
            .count()
    };
    let writes = |operation: &&Operation| operation.outcome == Outcome::Ok && operation.what.writes();
    let mut ends: Vec<u64> = operations
        .iter()
        .filter(writes)
        .map(|operation| operation.end)
        .collect();
    ends.sort_unstable();
    let gap = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    format!(
        "{} operations ({} answered, {} refused, {} unknown), {} writes, {} ms without one at most",
        operations.len(),
        count(Outcome::Ok),
        count(Outcome::Failed),
        count(Outcome::Unknown),
        ends.len(),
        gap / 1_000_000
    )
}

impl What {
    /// Did it change the register, given that it was answered?
    const fn writes(&self) -> bool {
        match self {
            Self::Put { .. } | Self::Cas { swapped: true, .. } => true,
            Self::Get { .. } | Self::Cas { swapped: false, .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_written_as_the_checker_reads_it() {
        let operation = Operation {
            client: 1,
            key: "a".into(),
            what: What::Cas {
                expected: None,
                value: "x".into(),
                swapped: true,
            },
            outcome: Outcome::Unknown,
            call: 5,
            end: 7,
        };
        let expected = serde_json::json!({
            "client": 1, "key": "a", "op": "cas", "expected": null, "value": "x", "swapped": true,
            "outcome": "unknown", "call": 5, "return": 7,
        });
        assert_eq!(serde_json::to_value(&operation).unwrap(), expected);
        assert_eq!(serde_json::from_value::<Operation>(expected).unwrap(), operation);
    }
}
