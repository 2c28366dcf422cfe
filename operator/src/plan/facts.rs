//! What the planner is told: everything it may base a decision on, and nothing else.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use super::{
    divergence::Hashes,
    place::Place,
    report::Report,
    rollout::Rollout,
    volumes::{Refused, Size, Volume},
};

pub use super::version::Version;

/// An ID of etcd (member or cluster), printed as etcd prints it: 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Id {
    /// Reads what [`fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

/// A fact from afar: known, with the time it was true, or unknown, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    /// It was so at that time.
    Known {
        /// What was read.
        value: T,
        /// When.
        at: Timestamp,
    },
    /// Nothing may be concluded.
    Unknown {
        /// For a person.
        why: String,
    },
}

impl<T> Fact<T> {
    /// The value, when it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known { value, .. } => Some(value),
            Self::Unknown { .. } => None,
        }
    }
}

/// Everything about one cluster at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The moment.
    pub now: Timestamp,
    /// The `EtcdCluster` object.
    pub cluster: Cluster,
    /// The `EtcdMember` objects that this very cluster object owns (by UID), and what is under each.
    pub members: Vec<Member>,
    /// etcd's member list, read with quorum.
    pub list: Fact<MemberList>,
    /// The cluster's Services.
    pub services: Services,
    /// The cluster's `PodDisruptionBudget`.
    pub budget: Budget,
    /// The raft writes that this process has made so that a joiner publishes itself.
    pub nudged: Option<Nudged>,
    /// Since when no voter has proven a quorum; `None` while one does.
    pub unproven_since: Option<Timestamp>,
    /// The last membership call, when etcd refused it.
    pub refusal: Option<Refusal>,
    /// The last membership call that got no answer: it may have been carried out, or may still be.
    pub unanswered: Option<Unanswered>,
    /// The leader by etcd's own word, read when a decision needs it and the leader's agent does not tell.
    pub leader: Option<Leader>,
    /// Claims that were kept when their members' objects were deleted by hand.
    pub retained: Vec<String>,
    /// The image that every agent should have, and whether this cluster may change one now.
    pub rollout: Rollout,
    /// What comparing the members' data has told.
    pub hashes: Hashes,
    /// Volumes could not grow.
    pub growth_refused: Option<Refused>,
    /// Permissions that the operator lacks, as a person writes them into a role.
    pub missing_verbs: Vec<String>,
    /// Steps of the last pass that failed again, and not for a reason that passes within moments.
    pub failed: Vec<String>,
    /// The `EtcdRecovery` objects of this cluster, the oldest first.
    pub recoveries: Vec<Recovery>,
    /// The commit index that a leader of the present history has reported last, and when.
    pub seen: Option<Seen>,
}

/// A commit index, as it was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// It.
    pub commit: u64,
    /// When the report arrived.
    pub at: Timestamp,
}

/// An `EtcdRecovery`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Which data the cluster is to go on with.
    pub source: RecoverySource,
    /// Members that are taken for gone.
    pub assume_gone: Vec<String>,
    /// What any member is known to have held beyond the chosen data may be lost.
    pub accept_data_loss: bool,
    /// It is at its end, whatever it was.
    pub ended: bool,
    /// The member it has chosen; recorded before anything is made of it.
    pub member: Option<String>,
    /// The incarnation it makes; recorded with the member.
    pub incarnation: Option<u64>,
}

/// Which data a recovery goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverySource {
    /// Those of this member.
    Member(String),
    /// Those of the member with the longest log.
    Best,
    /// Something that this version does not recover from yet, in words.
    Unsupported(String),
}

/// Raft writes made for one joiner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nudged {
    /// The joiner.
    pub member: String,
    /// The first of them.
    pub since: Timestamp,
    /// The last of them.
    pub last: Timestamp,
}

/// A call whose outcome is not known: etcd may carry it out a while after the caller has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// What was asked.
    pub step: super::step::Step,
    /// When it was given up.
    pub at: Timestamp,
}

/// The leader, by etcd's own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its ID.
    pub id: Id,
    /// Its commit index.
    pub commit: u64,
    /// When it was read.
    pub at: Timestamp,
}

/// etcd said no to a membership call; the same call again must wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// When.
    pub at: Timestamp,
    /// When the first of the refusals in a row was.
    pub since: Timestamp,
    /// etcd's words.
    pub message: String,
}

/// The `EtcdCluster` object.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// What the peer URLs of its members end with: the headless Service's domain and the port.
    pub peer_suffix: String,
    /// It is being deleted, or its namespace is.
    pub ending: bool,
    /// A person has asked the operator to keep its hands off.
    pub hands_off: bool,
    /// What is wanted.
    pub spec: Spec,
    /// What was decided before, and must be kept.
    pub record: ClusterRecord,
}

impl Cluster {
    /// A cluster ID that is known, and is not this cluster's, which is known too.
    #[must_use]
    pub fn cluster_differs(&self, id: Option<Id>) -> bool {
        matches!((self.record.cluster_id, id), (Some(own), Some(other)) if own != other)
    }
}

/// The part of the spec that decisions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Wanted number of members.
    pub replicas: u32,
    /// Wanted version.
    pub version: Version,
    /// Where the data are kept.
    pub medium: Medium,
    /// How large each volume is to be.
    pub volume: Size,
    /// Options of etcd.
    pub options: Options,
    /// Time without progress after which the status says so.
    pub progress_deadline: Duration,
    /// `recovery.nodeLossSeconds`: how long a member's place may be gone before another member is made.
    pub node_loss: Duration,
    /// `rollout.paused`: no rolling change begins.
    pub rollout_paused: bool,
    /// The operator itself recovers a lost quorum, where that is proven to be safe, after this time without one.
    pub recovers_after: Option<Duration>,
    /// The whole of it in the form of `status.observed` equals what is recorded there.
    pub is_observed: bool,
    /// Why nothing may be done with this spec; empty when it can be worked on.
    pub invalid: Vec<String>,
    /// Fields in use that this version of the operator does not act on.
    pub unsupported: Vec<String>,
    /// Those of them without which no cluster may be formed (a plaintext cluster in place of a TLS one would be wrong).
    pub blocks_formation: Vec<String>,
}

/// Where members keep their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Medium {
    /// A `PersistentVolumeClaim`: data outlive the Pod.
    Disk,
    /// The node's memory: data go with the Pod.
    Memory,
}

/// Options of etcd; zero and empty mean its own default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `quota-backend-bytes`.
    pub quota_backend_bytes: i64,
    /// `auto-compaction-mode`.
    pub auto_compaction_mode: String,
    /// `auto-compaction-retention`.
    pub auto_compaction_retention: String,
    /// `snapshot-count`.
    pub snapshot_count: i64,
}

/// Decisions recorded in the cluster's status. They are written with an optimistic lock before they are acted on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRecord {
    /// The token of the present incarnation; `None` before the first pass.
    pub token: Option<String>,
    /// Which history this is; from 1.
    pub incarnation: u64,
    /// etcd's cluster ID, once the seed has reported it.
    pub cluster_id: Option<Id>,
    /// Who may start a new cluster in this incarnation.
    pub seed: Option<Seed>,
    /// The size being worked on, once it is latched.
    pub replicas: Option<u32>,
    /// The version being worked on, once it is latched.
    pub version: Option<Version>,
    /// `status.progressDeadline`.
    pub deadline: Option<Timestamp>,
}

/// The one member, on the one directory, that may be told `initial-cluster-state: new`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Name of the `EtcdMember`.
    pub member: String,
    /// Nonce of its directory.
    pub nonce: String,
}

/// An `EtcdMember` and what is under it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, as the API gives it"
)]
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name; also of its Pod and in etcd.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// When the object was made.
    pub created: Timestamp,
    /// It is being deleted.
    pub deleting: bool,
    /// It was deleted a moment ago, and more may follow: what a person makes of the cluster is seen only then.
    pub deleted_just_now: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// `spec.dormant`.
    pub dormant: bool,
    /// `spec.bootstrap`.
    pub bootstrap: bool,
    /// `spec.version`.
    pub version: Option<Version>,
    /// What its peer URL is.
    pub peer_url: String,
    /// The certificate of its agent is in its Secret.
    pub identity_ready: bool,
    /// Its claim. Not used with memory.
    pub claim: Claim,
    /// How large its volume is to be so far.
    pub volume: Volume,
    /// Its Pod.
    pub pod: PodFact,
    /// Where it is, and what has become of that place.
    pub place: Place,
    /// Its agent.
    pub link: Link,
    /// Other members can resolve its name.
    pub resolvable: bool,
    /// What was decided before, and must be kept.
    pub record: MemberRecord,
    /// The last order this process sent to it.
    pub sent: Option<Sent>,
}

/// Decisions recorded in the member's status, written with an optimistic lock before they are acted on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberRecord {
    /// Which member ID may start on which directory.
    pub binding: Option<Binding>,
    /// Number of the last directive.
    pub directive: u64,
    /// Its ID, by whoever wrote the status last (`status.memberID`).
    pub member_id: Option<Id>,
    /// An agent of it has reported once (`status.dataDirectory`).
    pub heard: bool,
    /// It was seen to vote.
    pub voter: bool,
    /// UID of the Pod it was last seen to vote in (`status.podUID`).
    pub pod_uid: Option<String>,
}

/// A member ID and the one directory it may start on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The member ID.
    pub id: Id,
    /// The directory's nonce.
    pub nonce: String,
}

/// An order, as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub number: u64,
    /// The order.
    pub order: super::step::Order,
    /// When the agent accepted it.
    pub at: Timestamp,
}

/// The member's `PersistentVolumeClaim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// There is none.
    Absent,
    /// There is one that belongs to somebody else, or to nobody.
    Foreign {
        /// Who owns it.
        owner: String,
    },
    /// Ours, and on its way out.
    Ending,
    /// Ours.
    Ours,
}

/// The member's Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodFact {
    /// There is none.
    Absent,
    /// There is one of that name which belongs to somebody else, or to nobody.
    Foreign {
        /// Who owns it.
        owner: String,
    },
    /// Ours.
    Ours(Pod),
}

impl PodFact {
    /// Our Pod, when there is one.
    #[must_use]
    pub fn ours(&self) -> Option<&Pod> {
        match self {
            Self::Ours(pod) => Some(pod),
            Self::Absent | Self::Foreign { .. } => None,
        }
    }
}

/// Our Pod of a member.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, as the API gives it"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// When it was made.
    pub created: Timestamp,
    /// It is being deleted.
    pub deleting: bool,
    /// Phase `Failed` or `Succeeded`: it will never run again.
    pub ended: bool,
    /// Condition `Ready`.
    pub ready: bool,
    /// Its address, once it has one.
    pub ip: Option<String>,
    /// Its node, once it has one.
    pub node: Option<String>,
    /// It carries the voter's label.
    pub voter_label: bool,
    /// It carries the cluster's label: Services lead to it.
    pub cluster_label: bool,
    /// It has an agent (Pods of the Go operator have none).
    pub has_agent: bool,
    /// The image of its agent, as the Pod asks for it.
    pub agent_image: Option<String>,
    /// Version in the tag of the etcd container's image.
    pub etcd_version: Option<Version>,
    /// What keeps it from running, as Kubernetes puts it.
    pub trouble: Option<Trouble>,
    /// Its agent's image cannot be pulled, or ends again and again.
    pub agent_fails: bool,
}

/// What keeps a Pod from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Kubernetes' reason, such as `Unschedulable` or `ImagePullBackOff`.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// The link to a member's agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// Nobody to dial yet.
    None,
    /// Being dialled, or lost.
    Down {
        /// Since when.
        since: Timestamp,
        /// Why.
        why: String,
        /// What the agent last said, and when. Old, not false.
        last: Option<(Box<Report>, Timestamp)>,
    },
    /// Up.
    Up {
        /// What the agent says.
        report: Box<Report>,
        /// When the report arrived, or was read.
        at: Timestamp,
    },
}

impl Link {
    /// What the agent says now.
    #[must_use]
    pub fn live(&self) -> Option<&Report> {
        match self {
            Self::Up { report, .. } => Some(report),
            Self::None | Self::Down { .. } => None,
        }
    }

    /// What the agent says, or last said.
    #[must_use]
    pub fn last(&self) -> Option<&Report> {
        match self {
            Self::Up { report, .. }
            | Self::Down {
                last: Some((report, _)),
                ..
            } => Some(report),
            Self::Down { last: None, .. } | Self::None => None,
        }
    }
}

/// etcd's own member list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberList {
    /// The cluster's ID.
    pub cluster_id: Option<Id>,
    /// Its members.
    pub members: Vec<Listed>,
}

/// One member of etcd's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its ID.
    pub id: Id,
    /// Its name; empty until it has started and published itself.
    pub name: String,
    /// Its peer URLs.
    pub peer_urls: Vec<String>,
    /// It does not vote.
    pub learner: bool,
}

/// The cluster's Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Services {
    /// `<c>`, headless.
    pub headless: ServiceState,
    /// `<c>-client`.
    pub client: ServiceState,
}

/// How one Service compares with what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// As it should be.
    Current,
    /// Missing, or different.
    Stale,
    /// A Service of that name belongs to somebody else.
    Foreign,
}

/// The cluster's `PodDisruptionBudget`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// There is none.
    Absent,
    /// One of that name belongs to somebody else.
    Foreign,
    /// Ours.
    Ours {
        /// Its `minAvailable`.
        min_available: Option<u32>,
        /// Everything else in it is as it should be.
        current: bool,
    },
}
