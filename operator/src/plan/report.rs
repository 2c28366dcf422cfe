//! What an agent reports, cut to size and typed. Reports are hostile input: every string is bounded here.

use super::facts::Id;

/// A report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Version of the agent.
    pub agent_version: String,
    /// The highest directive number it has accepted.
    pub directive: u64,
    /// The data directory.
    pub directory: Directory,
    /// etcd's process.
    pub process: Process,
    /// What etcd says, while it has been heard since its last start.
    pub etcd: Option<Etcd>,
    /// What is left on the data volume.
    pub disk: Disk,
    /// What the agent waits for.
    pub waiting_for: String,
    /// The recovery that was ordered last.
    pub recovery: Option<Recovery>,
}

/// How far a recovery is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The history that it makes.
    pub incarnation: u64,
    /// How far.
    pub phase: RecoveryPhase,
    /// What has failed, when something has.
    pub detail: String,
    /// Bytes that must be free.
    pub needed_bytes: u64,
    /// `Copy` or `InPlace`.
    pub mode: String,
    /// The end of the log that was kept.
    pub last: Position,
    /// Revision of the database.
    pub revision: u64,
}

/// How far a recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoveryPhase {
    /// The volume has too little room.
    NeedsSpace,
    /// It is under way.
    Rebuilding,
    /// The directory is the new history's.
    Done,
    /// The snapshot cannot be restored, now or later; the directory is as it was.
    Refused,
}

/// A place in a Raft log; of two, the greater one is the end of the log that Raft would elect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Term of the entry.
    pub term: u64,
    /// Its index.
    pub index: u64,
}

/// What a log on disk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its end.
    pub last: Position,
    /// What is known there to be committed.
    pub commit: u64,
    /// Newest revision of the database; 0 when it was not read.
    pub revision: u64,
    /// By the membership recorded there the member is a learner.
    pub learner: bool,
}

/// What is left on the data volume; all 0 when it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its size in bytes.
    pub total_bytes: u64,
    /// What etcd can still take of it.
    pub free_bytes: u64,
    /// Files that fit on it; 0 where they are not counted.
    pub total_inodes: u64,
    /// Files that can still be made.
    pub free_inodes: u64,
}

/// The data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its state.
    pub state: DirectoryState,
    /// Why.
    pub detail: String,
    /// Which directory it is; empty while the agent has given it none.
    pub nonce: String,
    /// etcd has once written its log here.
    pub started: bool,
    /// What was recorded before etcd's first start on it.
    pub identity: Option<Identity>,
    /// Size of etcd's part.
    pub bytes: u64,
    /// A fence stands: neither agent nor supervisor starts etcd.
    pub fenced: bool,
    /// It was ordered, and not put there by a person.
    pub fence_ordered: bool,
    /// What its log holds, when it was read.
    pub log: Option<Log>,
    /// Directories that were set aside and are kept.
    pub quarantined: Vec<String>,
}

/// State of a data directory (agent.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DirectoryState {
    /// The agent has not looked yet.
    Unspecified,
    /// etcd never started here, or the data are gone.
    Unborn,
    /// Usable.
    Intact,
    /// Usable: etcd repairs it by itself.
    TornTail,
    /// Not usable.
    Damaged,
    /// Usable, but not ours.
    Foreign,
    /// etcd runs on it.
    InUse,
    /// It could not be read; says nothing about what is in it.
    Unreadable,
}

impl DirectoryState {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "Unknown",
            Self::Unborn => "Unborn",
            Self::Intact => "Intact",
            Self::TornTail => "TornTail",
            Self::Damaged => "Damaged",
            Self::Foreign => "Foreign",
            Self::InUse => "InUse",
            Self::Unreadable => "Unreadable",
        }
    }
}

/// What is recorded beside the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// UID of the cluster object.
    pub cluster_uid: String,
    /// The history.
    pub incarnation: u64,
    /// etcd's cluster ID.
    pub cluster_id: Id,
    /// The member ID.
    pub member_id: Id,
    /// The directory's nonce.
    pub nonce: String,
}

/// etcd's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its state.
    pub state: ProcessState,
    /// When it was started, in seconds since 1970.
    pub started_at: i64,
    /// Version of the binary in the container.
    pub etcd_version: String,
    /// Starts after the first one.
    pub restarts: u32,
    /// Kills for memory.
    pub oom_kills: u32,
    /// How it last ended.
    pub exit: Option<Exit>,
}

/// State of etcd's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessState {
    /// Not reported.
    Unspecified,
    /// No supervisor.
    Absent,
    /// The supervisor waits for an order.
    Held,
    /// Runs, has not served.
    Starting,
    /// Runs, has served.
    Running,
    /// Ended; a start is due.
    Stopped,
}

/// How etcd ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Exit code.
    pub code: i32,
    /// Its class, such as `Removed`.
    pub class: String,
    /// Its last words, at most five lines.
    pub last_lines: Vec<String>,
    /// When, in seconds since 1970.
    pub at: i64,
}

/// What etcd says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// Its member ID.
    pub member_id: Id,
    /// Its cluster ID.
    pub cluster_id: Id,
    /// The leader it knows.
    pub leader: Option<Id>,
    /// Commit index.
    pub commit: u64,
    /// Applied index.
    pub applied: u64,
    /// It does not vote.
    pub learner: bool,
    /// Version of the running process.
    pub version: String,
    /// Alarms.
    pub alarms: Vec<String>,
    /// The client port answers.
    pub serving: bool,
    /// A snapshot of the leader is coming in.
    pub receiving_snapshot: bool,
    /// Physical size of the database.
    pub db_size: i64,
}

const WORD: usize = 64;
const SENTENCE: usize = 256;
const EXIT_LINES: usize = 5;

fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

impl From<&proto::agent::Report> for Report {
    fn from(report: &proto::agent::Report) -> Self {
        Self {
            agent_version: cut(&report.agent_version, WORD),
            directive: report.directive,
            directory: report
                .data_directory
                .as_ref()
                .map_or_else(Directory::unspecified, Directory::from),
            process: report.process.as_ref().map_or_else(Process::unspecified, Process::from),
            etcd: report.etcd.as_ref().map(Etcd::from),
            disk: report.disk.as_ref().map(Disk::from).unwrap_or_default(),
            waiting_for: cut(&report.waiting_for, SENTENCE),
            recovery: report.recovery.as_ref().and_then(Recovery::of),
        }
    }
}

impl From<&proto::agent::Disk> for Disk {
    fn from(disk: &proto::agent::Disk) -> Self {
        Self {
            total_bytes: disk.total_bytes,
            free_bytes: disk.free_bytes,
            total_inodes: disk.total_inodes,
            free_inodes: disk.free_inodes,
        }
    }
}

impl Directory {
    fn unspecified() -> Self {
        Self {
            state: DirectoryState::Unspecified,
            detail: String::new(),
            nonce: String::new(),
            started: false,
            identity: None,
            bytes: 0,
            fenced: false,
            fence_ordered: false,
            log: None,
            quarantined: Vec::new(),
        }
    }
}

impl Recovery {
    fn of(recovery: &proto::agent::Recovery) -> Option<Self> {
        use proto::agent::recovery::Phase;
        Some(Self {
            incarnation: recovery.incarnation,
            phase: match recovery.phase() {
                Phase::Unspecified => return None,
                Phase::NeedsSpace => RecoveryPhase::NeedsSpace,
                Phase::Rebuilding => RecoveryPhase::Rebuilding,
                Phase::Done => RecoveryPhase::Done,
                Phase::Refused => RecoveryPhase::Refused,
            },
            detail: cut(&recovery.detail, SENTENCE),
            needed_bytes: recovery.needed_bytes,
            mode: cut(&recovery.mode, WORD),
            last: Position {
                term: recovery.last_term,
                index: recovery.last_index,
            },
            revision: recovery.revision,
        })
    }
}

impl From<&proto::agent::DataDirectory> for Directory {
    fn from(directory: &proto::agent::DataDirectory) -> Self {
        use proto::agent::data_directory::State;
        Self {
            state: match directory.state() {
                State::Unspecified => DirectoryState::Unspecified,
                State::Unborn => DirectoryState::Unborn,
                State::Intact => DirectoryState::Intact,
                State::TornTail => DirectoryState::TornTail,
                State::Damaged => DirectoryState::Damaged,
                State::Foreign => DirectoryState::Foreign,
                State::InUse => DirectoryState::InUse,
                State::Unreadable => DirectoryState::Unreadable,
            },
            detail: cut(&directory.detail, SENTENCE),
            nonce: cut(&directory.nonce, WORD),
            started: directory.started,
            identity: directory.identity.as_ref().map(|identity| Identity {
                cluster_uid: cut(&identity.cluster_uid, WORD),
                incarnation: identity.incarnation,
                cluster_id: Id(identity.cluster_id),
                member_id: Id(identity.member_id),
                nonce: cut(&identity.nonce, WORD),
            }),
            bytes: directory.bytes,
            fenced: directory.fenced,
            fence_ordered: directory.fence_ordered,
            log: directory.log.as_ref().map(|log| Log {
                last: Position {
                    term: log.term,
                    index: log.index,
                },
                commit: log.commit,
                revision: log.revision,
                learner: log.is_learner,
            }),
            quarantined: directory
                .quarantined
                .iter()
                .take(16)
                .map(|name| cut(name, WORD))
                .collect(),
        }
    }
}

impl Process {
    fn unspecified() -> Self {
        Self {
            state: ProcessState::Unspecified,
            started_at: 0,
            etcd_version: String::new(),
            restarts: 0,
            oom_kills: 0,
            exit: None,
        }
    }
}

impl From<&proto::agent::Process> for Process {
    fn from(process: &proto::agent::Process) -> Self {
        use proto::agent::process::State;
        Self {
            state: match process.state() {
                State::Unspecified => ProcessState::Unspecified,
                State::Absent => ProcessState::Absent,
                State::Held => ProcessState::Held,
                State::Starting => ProcessState::Starting,
                State::Running => ProcessState::Running,
                State::Stopped => ProcessState::Stopped,
            },
            started_at: process.started_at.as_ref().map_or(0, |at| at.seconds),
            etcd_version: cut(&process.etcd_version, WORD),
            restarts: process.restarts,
            oom_kills: process.oom_kills,
            exit: process.exit.as_ref().map(Exit::from),
        }
    }
}

impl From<&proto::agent::Exit> for Exit {
    fn from(exit: &proto::agent::Exit) -> Self {
        let skip = exit.last_lines.len().saturating_sub(EXIT_LINES);
        Self {
            code: exit.code,
            class: cut(&exit.class, WORD),
            last_lines: exit
                .last_lines
                .iter()
                .skip(skip)
                .map(|line| cut(line, SENTENCE))
                .collect(),
            at: exit.at.as_ref().map_or(0, |at| at.seconds),
        }
    }
}

impl From<&proto::agent::Etcd> for Etcd {
    fn from(etcd: &proto::agent::Etcd) -> Self {
        Self {
            member_id: Id(etcd.member_id),
            cluster_id: Id(etcd.cluster_id),
            leader: (etcd.leader != 0).then_some(Id(etcd.leader)),
            commit: etcd.commit_index,
            applied: etcd.applied_index,
            learner: etcd.is_learner,
            version: cut(&etcd.version, WORD),
            alarms: etcd.alarms.iter().take(8).map(|alarm| cut(alarm, WORD)).collect(),
            serving: etcd.serving,
            receiving_snapshot: etcd.receiving_snapshot,
            db_size: etcd.db_size,
        }
    }
}
