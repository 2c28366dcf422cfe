//! What one reading of a data directory has found. Plain data.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

/// An ID of etcd (of a member or of a cluster), printed as etcd's own tools print it, padded: 16 hex digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Id({self})")
    }
}

/// As text: JSON readers round large integers.
impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The state of the directory, and what was read in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// What etcd would make of it.
    pub state: State,
    /// What could be read, whatever the state is: a damaged directory has facts too.
    pub facts: Facts,
}

/// What a data directory is to the next start of etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "name")]
pub enum State {
    /// Raft has never saved anything here, and there are no data: no WAL, or one that was only created.
    Unborn,
    /// The log is whole and covers what the db has applied.
    Intact,
    /// As `Intact`, but the last write of the log is incomplete: etcd cuts it off by itself. Nothing in it was ever
    /// acknowledged.
    TornTail,
    /// Not to be started on: etcd would fail, or start and have lost what it had acknowledged.
    Damaged(Damage),
    /// Written by etcd 3.4 or older, which is not read here.
    TooOld,
    /// etcd holds the lock of the db. Only what can be read beside it is known, and some of it may be older than the
    /// rest.
    InUse,
}

/// What is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The part of the directory.
    pub part: Part,
    /// The file, below the directory; `None` when it is missing, or when no single file is at fault.
    pub file: Option<PathBuf>,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// Why, in one sentence.
    pub detail: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.part, self.detail)?;
        match (&self.file, self.offset) {
            (Some(file), Some(offset)) => write!(out, " ({} at byte {offset})", file.display()),
            (Some(file), None) => write!(out, " ({})", file.display()),
            (None, _) => Ok(()),
        }
    }
}

/// The parts of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// `member/wal`.
    Wal,
    /// `member/snap/*.snap`.
    Snapshot,
    /// `member/snap/db`.
    Db,
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Wal => "WAL",
            Self::Snapshot => "snapshot",
            Self::Db => "db",
        })
    }
}

/// What was read. A field is empty when the directory does not have it or when it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Whose log it is.
    pub identity: Option<Identity>,
    /// The last one saved; `None` when raft has never saved any.
    pub hard_state: Option<HardState>,
    /// What is known to be committed: the larger of the hard state's word and `applied`.
    pub commit: Option<u64>,
    /// The end of the log. The log with the largest (term, then index) holds every acknowledged write that any of its
    /// cluster's logs holds.
    pub last: Option<Position>,
    /// The newest snapshot record that etcd would start from; `0` of term `0` when none was taken yet.
    pub snapshot: Option<Position>,
    /// The db has applied the log up to here (`consistent_index`).
    pub applied: Option<u64>,
    /// Who is in the cluster, as far as this member has applied (up to 3.5: committed).
    pub membership: Option<Membership>,
    /// Which release line has written the db last.
    pub schema: Option<Schema>,
    /// Version that the cluster had agreed on.
    pub cluster_version: Option<String>,
    /// Newest revision of the key space.
    pub revision: Option<u64>,
    /// Authentication is on.
    pub auth_enabled: Option<bool>,
    /// Alarms that stand.
    pub alarms: Vec<Alarm>,
    /// Bytes.
    pub sizes: Sizes,
}

/// Who has written the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Of the member.
    pub member_id: Id,
    /// Of the cluster.
    pub cluster_id: Id,
}

/// Raft's own state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HardState {
    /// The term.
    pub term: u64,
    /// For whom this member has voted in that term; `Id(0)` when for nobody.
    pub vote: Id,
    /// The highest index known to be committed, as far as it was saved.
    pub commit: u64,
}

/// A place in the log. Ordered as Raft orders logs: by term, then by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// The term of the entry.
    pub term: u64,
    /// Its index.
    pub index: u64,
}

/// Who is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    /// Where it was read: up to 3.5 the copy in the db may be wrong.
    pub source: Source,
    /// By ID.
    pub members: Vec<Member>,
    /// IDs that never come back, by ID.
    pub removed: Vec<Id>,
}

/// Where a membership was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The newest `.snap` file and the changes in the log after it (up to 3.5).
    Log,
    /// The db (3.6 and later).
    Db,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its ID.
    pub id: Id,
    /// Empty until it has started once.
    pub name: String,
    /// How the others reach it.
    pub peer_urls: Vec<String>,
    /// How clients reach it; empty until it has started once.
    pub client_urls: Vec<String>,
    /// It does not vote.
    pub learner: bool,
}

/// Which release line has written the db last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Schema {
    /// 3.5, which records no version (nor does a younger one before its first snapshot).
    V3_5,
    /// 3.6 or later, as it has recorded it, such as `3.6.0`.
    Recorded(String),
}

/// One alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alarm {
    /// The member it was raised for.
    pub member_id: Id,
    /// What for.
    pub kind: AlarmKind,
}

/// Kinds of alarms (etcd `api/etcdserverpb/rpc.proto`, `AlarmType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AlarmKind {
    /// The db has reached its quota.
    NoSpace,
    /// Members hold different data.
    Corrupt,
    /// One that is not known here.
    Other(u64),
}

/// Bytes of the parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sizes {
    /// Of all files of `member/wal`.
    pub wal: u64,
    /// Of all files of `member/snap` but the db.
    pub snapshots: u64,
    /// Of the db.
    pub db: u64,
}
