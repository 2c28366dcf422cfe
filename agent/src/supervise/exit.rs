//! What an end of etcd means, told by its code, its signal and what it last wrote. Pure.
//!
//! The signatures are the ones etcd 3.5, 3.6 and 3.7 write (zap's `msg` and `error`, and Go's own panics). Most failures
//! of a start end as `discovery failed` with the cause in the same line, so lines are searched as a whole.

use std::fmt;

/// Why etcd has ended. The names go over both protocols as they are written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It was asked to stop, and did.
    Clean,
    /// The cluster has removed this member. To be confirmed by a linearizable read of the member list.
    Removed,
    /// Killed by the kernel for memory, or Go could not get any.
    OutOfMemory,
    /// The watchdog has ended it: it had not answered for too long.
    Hung,
    /// SIGKILL from somewhere else.
    Killed,
    /// It ended with the whole container, unseen: killed from outside, by the kernel for memory, or with the node.
    Vanished,
    /// Another signal than SIGTERM and SIGKILL.
    Signalled,
    /// A record of the WAL does not match its checksum.
    WalCorrupt,
    /// WAL segments are missing.
    WalGap,
    /// The database cannot be opened, or a page of it is not what it must be.
    DbCorrupt,
    /// The database is missing, or older than the snapshot.
    DbMissing,
    /// No space left on the volume.
    DiskFull,
    /// The leader remembers more of this member's log than is here: it started on a directory that had lost its data.
    LostRaftLog,
    /// No peer answered the question who the members are (`initial-cluster-state: existing`).
    NoPeers,
    /// The member list of the configuration is not the cluster's.
    MembersMismatch,
    /// The configuration's `initial-cluster` does not fit name or peer URLs of this member.
    InitialClusterMismatch,
    /// `initial-cluster-state: new`, but the cluster knows this member already.
    AlreadyBootstrapped,
    /// More learners than `max-learners`.
    TooManyLearners,
    /// A name could not be resolved.
    NameResolution,
    /// This version of etcd cannot run on this data or in this cluster.
    VersionIncompatible,
    /// The data directory cannot be read or written.
    Permission,
    /// An address it listens on is taken.
    PortInUse,
    /// It could not listen for another reason, mostly a certificate.
    Listener,
    /// The configuration file or a flag is wrong.
    BadConfig,
    /// Keys of the v2 store that this version does not take.
    V2Data,
    /// The check at start found other data than the peers have.
    Inconsistent,
    /// The discovery token has been used.
    DiscoveryTokenUsed,
    /// `force-new-cluster` on a learner.
    RemovedAllVoters,
    /// A panic or runtime error of no known kind.
    Panic,
    /// None of the above.
    Unknown,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How the process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It has exited with this code.
    Code(i32),
    /// A signal has ended it.
    Signal(i32),
}

impl End {
    /// The code a shell would show: 128 and the signal's number when it died by one.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// The signal's number; 0 when it has exited by itself.
    #[must_use]
    pub fn signal(self) -> i32 {
        match self {
            Self::Code(_) => 0,
            Self::Signal(signal) => signal,
        }
    }
}

/// What is known beside the end itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Circumstances {
    /// The watchdog had sent its signals.
    pub by_watchdog: bool,
    /// We had asked it to stop.
    pub asked_to_stop: bool,
    /// The cgroup's count of kills for memory has risen since the start.
    pub oom_killed: bool,
}

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// A line has this meaning when it contains all of these.
type Signature = (Class, &'static [&'static str]);

const REMOVED: &[&str] = &[
    "the member has been permanently removed from the cluster",
    "data-dir used by this member must be removed",
];

/// The first one that fits counts, so the more telling ones stand first.
const SIGNATURES: &[Signature] = &[
    (Class::LostRaftLog, &["tocommit(", "is out of range [lastIndex("]),
    (Class::RemovedAllVoters, &["removed all voters"]),
    (Class::DiskFull, &["no space left on device"]),
    (Class::OutOfMemory, &["runtime: out of memory"]),
    (Class::OutOfMemory, &["runtime: cannot allocate memory"]),
    (
        Class::VersionIncompatible,
        &["incompatible with current running cluster"],
    ),
    (
        Class::VersionIncompatible,
        &["server version is lower than determined cluster version"],
    ),
    (Class::VersionIncompatible, &["Failed to validate schema"]),
    (Class::VersionIncompatible, &["unmarshal should never fail"]),
    (Class::WalGap, &["file not found which matches the snapshot index"]),
    (Class::WalGap, &["do not increase continuously"]),
    (Class::WalGap, &["failed to open WAL", "file not found"]),
    (Class::WalCorrupt, &["walpb: crc mismatch"]),
    (Class::WalCorrupt, &["wal: crc mismatch"]),
    (Class::WalCorrupt, &["proto: Record: illegal tag"]),
    (Class::WalCorrupt, &["failed to read WAL, cannot be repaired"]),
    (Class::WalCorrupt, &["failed to repair WAL"]),
    (Class::DbMissing, &["failed to recover v3 backend from snapshot"]),
    (Class::DbMissing, &["failed to find database snapshot file"]),
    (Class::DbMissing, &["database file (", "of the backend is missing"]),
    (Class::DbMissing, &["database file (", "does not match with snapshot"]),
    (Class::DbCorrupt, &["failed to open database"]),
    (Class::DbCorrupt, &["fatal error: fault"]),
    (Class::DbCorrupt, &["assertion failed: Page expected"]),
    (Class::InitialClusterMismatch, &["couldn't find local name"]),
    (Class::InitialClusterMismatch, &["--initial-cluster has"]),
    (Class::AlreadyBootstrapped, &["has already been bootstrapped"]),
    (Class::MembersMismatch, &["error validating peerURLs"]),
    (Class::MembersMismatch, &["member count is unequal"]),
    (
        Class::MembersMismatch,
        &["PeerURLs: no match found for existing member"],
    ),
    (Class::NoPeers, &["cannot fetch cluster info from peer urls"]),
    (Class::TooManyLearners, &["too many learner members"]),
    (Class::NameResolution, &["failed to resolve"]),
    (Class::V2Data, &["detected disallowed custom content in v2store"]),
    (Class::Inconsistent, &["checkInitialHashKV failed"]),
    (Class::Inconsistent, &["found data inconsistency with peers"]),
    (Class::DiscoveryTokenUsed, &["discovery token was already used"]),
    (Class::Permission, &["cannot access data directory"]),
    (Class::Permission, &["cannot write to member/WAL directory"]),
    (Class::Permission, &["failed to list data directory"]),
    (Class::PortInUse, &["address already in use"]),
    (Class::Listener, &["creating peer listener failed"]),
    (Class::Listener, &["setting up serving from embedded etcd failed"]),
    (Class::Listener, &["registerGateway failed"]),
    (Class::Listener, &["listener failed"]),
    (Class::BadConfig, &["failed to verify flags"]),
    (Class::BadConfig, &["error unmarshaling JSON"]),
    (Class::BadConfig, &["flag provided but not defined"]),
    (Class::BadConfig, &["conflicting environment variable is shadowed"]),
    (Class::Permission, &["permission denied"]),
];

/// What the end means. `lines` are those of this run of etcd that may tell, in the order they came.
#[must_use]
pub fn classify<'a>(end: End, circumstances: Circumstances, lines: &(impl Iterator<Item = &'a str> + Clone)) -> Class {
    if circumstances.by_watchdog {
        return Class::Hung;
    }
    match end {
        End::Signal(SIGKILL) if circumstances.oom_killed => return Class::OutOfMemory,
        End::Signal(SIGKILL) => return Class::Killed,
        End::Signal(_) | End::Code(_) => {}
    }
    // Written as a warning, followed by an end of either code (0, or 1 when the listeners were not up yet).
    if lines
        .clone()
        .any(|line| REMOVED.iter().any(|needle| line.contains(needle)))
    {
        return Class::Removed;
    }
    match end {
        End::Code(0) | End::Signal(SIGTERM) => return Class::Clean,
        // Its goroutines were told to stop; what they complain of then is not why it ended.
        End::Code(_) | End::Signal(_) if circumstances.asked_to_stop => return Class::Clean,
        End::Code(_) | End::Signal(_) => {}
    }
    // What it died of before what it merely complained of.
    let last_words = lines.clone().filter(|line| is_last_word(line));
    if let Some(class) = by_signature(&last_words).or_else(|| by_signature(lines)) {
        return class;
    }
    match end {
        End::Signal(_) => Class::Signalled,
        End::Code(_) if last_words.clone().any(is_panic) => Class::Panic,
        End::Code(_) => Class::Unknown,
    }
}

/// The process ends with a line of this kind.
#[must_use]
pub fn is_last_word(line: &str) -> bool {
    is_panic(line) || line.starts_with(r#"{"level":"fatal""#)
}

fn is_panic(line: &str) -> bool {
    line.starts_with("panic: ")
        || line.starts_with("fatal error: ")
        || line.starts_with("runtime: ")
        || line.starts_with(r#"{"level":"panic""#)
}

fn by_signature<'a>(lines: &(impl Iterator<Item = &'a str> + Clone)) -> Option<Class> {
    SIGNATURES
        .iter()
        .find(|(_, needles)| {
            lines
                .clone()
                .any(|line| needles.iter().all(|needle| line.contains(needle)))
        })
        .map(|(class, _)| *class)
}

#[cfg(test)]
#[path = "exit_tests.rs"]
mod tests;
