//! What became of a defragmentation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::serde_help::is_default;

/// How far a defragmentation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DefragPhase {
    /// It goes from member to member.
    Running,
    /// Every member is done or left out.
    Complete,
    /// A member could not be defragmented.
    Failed,
    /// Nothing has been done yet.
    #[default]
    #[serde(other)]
    Pending,
}

/// What became of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DefragOutcome {
    /// The rule does not select it.
    Skipped,
    /// Done.
    Defragmented,
    /// It could not be done; `reason` says why.
    Failed,
    /// Its turn has not come.
    #[default]
    #[serde(other)]
    Pending,
}

/// What became of the defragmentation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdDefragStatus {
    /// `Pending`, `Running`, `Complete` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<DefragPhase>,

    /// `metadata.generation` that this status was made from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,

    /// When the first member's turn came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,

    /// When the last member was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,

    /// Members defragmented so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defragmented: i32,

    /// What became of each member.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub members: Vec<MemberDefrag>,

    /// `DefragChecked`, and others when they apply.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// One member in a defragmentation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberDefrag {
    /// Name of the member.
    pub name: String,

    /// `leader` or `follower`, when its turn came.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: String,

    /// `Pending`, `Skipped`, `Defragmented` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub outcome: Option<DefragOutcome>,

    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: String,

    /// Size of its database before, in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub db_size_before: i64,

    /// Size of its database after, in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub db_size_after: i64,

    /// Bytes given back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reclaimed_bytes: i64,

    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}
