//! What became of a snapshot.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::serde_help::is_default;

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SnapshotPhase {
    /// It is being taken.
    Started,
    /// It is stored.
    Complete,
    /// It could not be taken; the condition `Ready` says why.
    Failed,
    /// Nothing has been done yet.
    #[default]
    #[serde(other)]
    Pending,
}

/// What became of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdSnapshotStatus {
    /// `Pending`, `Started`, `Complete` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<SnapshotPhase>,

    /// `metadata.generation` that this status was made from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,

    /// What was stored. Set when the snapshot is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<SnapshotArtifact>,

    /// Revision of the data in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// Version of the etcd that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,

    /// etcd's cluster ID, 16 hex digits.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// The member it was taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<String>,

    /// How far it is, while it is being taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<SnapshotProgress>,

    /// What `spec.verify` found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<SnapshotVerification>,

    /// `Ready`, and others when they apply.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// A stored snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotArtifact {
    /// Where it is.
    pub uri: String,

    /// Its size in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size_bytes: i64,

    /// `sha256:` and the hash of the whole object in hex.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checksum: String,
}

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotProgress {
    /// Bytes sent so far, in coarse steps.
    pub bytes: i64,

    /// Bytes expected in all; absent while that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
}

/// What verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotVerification {
    /// When it was verified.
    pub at: Time,

    /// It is good.
    pub ok: bool,

    /// What was done and what was found, in a sentence.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detail: String,
}
