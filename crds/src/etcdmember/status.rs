//! What was last observed of one member.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::MemberRole;
use crate::serde_help::{is_default, without_default};

/// What was last observed of the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMemberStatus {
    /// `metadata.generation` that this status was made from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,

    /// etcd's member ID, 16 hex digits. Absent until it has one.
    #[serde(rename = "memberID", skip_serializing_if = "Option::is_none")]
    pub member_id: Option<String>,

    /// Name of its Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,

    /// UID of its Pod.
    #[serde(rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,

    /// Name of its `PersistentVolumeClaim`; absent for a member in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,

    /// It votes, by etcd's own member list.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_voter: bool,

    /// `Leader`, `Follower`, `Learner` or `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub role: Option<MemberRole>,

    /// 1 while its Pod is ready, otherwise 0; there for the scale subresource.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas: i32,

    /// Selector of its Pod, for the scale subresource.
    #[serde(default, skip_serializing_if = "is_default")]
    pub selector: String,

    /// Version of the running etcd process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The one directory that its member ID may start on. Written before the order that uses it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<MemberBinding>,

    /// Its data directory, as its agent last reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_directory: Option<DataDirectory>,

    /// Its agent. Absent for a Pod without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentStatus>,

    /// How etcd ended the last time. Absent while it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<EtcdExit>,

    /// How far it is behind, while it is a learner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learner: Option<LearnerProgress>,

    /// Number of the last directive to its agent; it only rises, and it is stored before the directive is sent.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0))]
    pub directive: i64,

    /// `Ready`, `VersionDrifted`, and others when they apply.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Ties a member ID to one data directory for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberBinding {
    /// etcd's member ID, 16 hex digits.
    #[serde(rename = "memberID")]
    pub member_id: String,

    /// Nonce of the data directory, made by the agent.
    pub nonce: String,
}

/// What a data directory is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DataDirectoryState {
    /// etcd never started on it.
    Unborn,
    /// Whole, and this member's own.
    Intact,
    /// Whole but for its last record, which etcd repairs by itself.
    TornTail,
    /// Parts are lost or contradict each other.
    Damaged,
    /// Whole, and not this member's own.
    Foreign,
    /// etcd runs on it.
    InUse,
    /// It could not be read; that says nothing about what is in it.
    Unreadable,
    /// Nothing is known of it at the moment.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataDirectory {
    /// `Unborn`, `Intact`, `TornTail`, `Damaged`, `Foreign`, `InUse`, `Unreadable` or `Unknown`.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub state: DataDirectoryState,

    /// Why, in a sentence, when the state alone does not say it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detail: String,

    /// Bytes it takes, in coarse steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,

    /// Directories that were set aside and not deleted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quarantined: Vec<String>,
}

/// The agent of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Its version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: String,

    /// The operator's link to it is up.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub connected: bool,
}

/// How etcd ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdExit {
    /// Exit code; 128 and the signal's number when it died by one.
    pub code: i32,

    /// What the code and the last lines mean, in one word.
    #[serde(default, skip_serializing_if = "is_default")]
    pub class: String,

    /// The last lines it wrote, five at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_lines: Vec<String>,

    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,

    /// Starts of etcd in this container after the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restarts: i32,

    /// How often it was killed because it took more memory than its limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub oom_kills: i32,
}

/// How far a learner is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnerProgress {
    /// Its own Raft index.
    pub index: i64,

    /// The leader's Raft index at the same time.
    pub leader_index: i64,

    /// It is receiving a whole snapshot from the leader.
    #[serde(default, skip_serializing_if = "is_default")]
    pub receiving_snapshot: bool,
}
