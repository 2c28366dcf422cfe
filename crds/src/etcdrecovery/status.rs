//! How far a recovery is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::serde_help::is_default;

/// How far a recovery is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecoveryPhase {
    /// The volume is too small to work in; the condition says how far it must grow.
    NeedsSpace,
    /// All other members are being fenced or proven gone.
    Fencing,
    /// The new history is being made from the chosen data.
    Rebuilding,
    /// The new history serves and the other members join it.
    Rejoining,
    /// All members serve.
    Complete,
    /// It was refused or could not be carried out; the condition says why.
    Failed,
    /// Nothing has been done yet.
    #[default]
    #[serde(other)]
    Pending,
}

/// How far the recovery is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRecoveryStatus {
    /// `Pending`, `NeedsSpace`, `Fencing`, `Rebuilding`, `Rejoining`, `Complete` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<RecoveryPhase>,

    /// `metadata.generation` that this status was made from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,

    /// The member whose data are gone on with, once it is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,

    /// The incarnation of the cluster that this recovery makes. Recorded before anything is made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub incarnation: Option<i64>,

    /// `Copy` or `InPlace`: whether the new history is made in a copy of the directory or, for want of space, in the
    /// directory itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,

    /// The data directories to choose from, the best one first.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["member".into()]))]
    pub candidates: Vec<RecoveryCandidate>,

    /// Conditions of the recovery.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// One data directory to choose from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryCandidate {
    /// Name of the member.
    pub member: String,

    /// Raft term of its last entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<i64>,

    /// Raft index of its last entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<i64>,

    /// Raft index that it knows to be committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<i64>,

    /// Revision of its database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// Why it cannot be chosen; absent when it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}
