//! What was ordered, and how far it is: `etcd-agent/recovery.json`. Written before each step that must not be done twice.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;
use crate::serve::identity::Identity;

/// Name of the file in the agent's folder.
pub const FILE: &str = "recovery.json";
/// Name of the folder, in the agent's folder, in which the job works.
pub const FOLDER: &str = "recovery";
/// A larger file is not ours.
const MAX_BYTES: u64 = 64 * 1024;

/// What was ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Number of the directive.
    pub number: u64,
    /// Who the member will be, in the new history.
    pub identity: Identity,
    /// Its peer URL.
    pub peer_url: String,
    /// `quota-backend-bytes`, when it is set: what the log holds must fit into the database once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_backend_bytes: Option<i64>,
}

/// Where the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// In a copy.
    Copy,
    /// In the directory itself: there was no room for a copy.
    InPlace,
}

impl Mode {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "Copy",
            Self::InPlace => "InPlace",
        }
    }
}

/// How far it is: the last thing that is done, and on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// It was ordered.
    Ordered,
    /// There is no room.
    NeedsSpace,
    /// The whole log is in the database of the working directory, and nobody holds it.
    Applied,
    /// The new directory is whole and on disk.
    Restored,
    /// It takes the place of the old one.
    Swapping,
    /// It has.
    Done,
}

/// The last entry of the log that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its term.
    pub term: u64,
    /// Its index.
    pub index: u64,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// What was ordered.
    pub order: Order,
    /// How far it is.
    pub phase: Phase,
    /// Where the work is done, once that is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What was kept, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// Revision of the database, once it is known.
    #[serde(default)]
    pub revision: u64,
    /// Bytes that must be free.
    #[serde(default)]
    pub needed_bytes: u64,
    /// Name of the folder in the quarantine that takes the old directory.
    #[serde(default)]
    pub aside: String,
    /// What has failed, when something has.
    #[serde(default)]
    pub detail: String,
}

impl Journal {
    /// Nothing is done yet.
    #[must_use]
    pub fn new(order: Order) -> Self {
        Self {
            order,
            phase: Phase::Ordered,
            mode: None,
            kept: None,
            revision: 0,
            needed_bytes: 0,
            aside: String::new(),
            detail: String::new(),
        }
    }

    /// Until then nothing else may touch the directory.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase != Phase::Done
    }

    /// From then on directories change places: it is only ever brought to its end.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.phase >= Phase::Swapping
    }

    /// Reads the one of this agent's folder; `None` when there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        let strange = |detail: String| Error::Journal(format!("{}: {detail}", path.display()));
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(strange(error.to_string())),
            Ok(metadata) if metadata.len() > MAX_BYTES => return Err(strange("too large to be ours".to_owned())),
            Ok(_) => {}
        }
        let text = std::fs::read(&path).map_err(|error| strange(error.to_string()))?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| strange(error.to_string()))
    }
}
