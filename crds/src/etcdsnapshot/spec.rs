//! Which snapshot is wanted.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::EtcdSnapshotStatus;
use crate::common::{LocalObjectReference, SnapshotLocation};

/// How a snapshot is proven good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SnapshotVerify {
    /// Not at all.
    None,
    /// By its checksum.
    #[default]
    Checksum,
    /// By restoring it and starting etcd on it.
    Restore,
}

/// One wanted snapshot. It cannot be changed: make a new one.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "etcd-operator.cozystack.io",
    version = "v1alpha2",
    kind = "EtcdSnapshot",
    namespaced,
    status = "EtcdSnapshotStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One snapshot of an etcd cluster, taken once and stored in an S3-compatible store or on a PersistentVolumeClaim.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Size", type_ = "integer", json_path = ".status.artifact.sizeBytes"),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".status.revision"),
    printcolumn(name = "Verified", type_ = "boolean", json_path = ".status.verified.ok"),
    validation = Rule::new("has(self.spec)").message("spec is required"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("a snapshot cannot be changed: make a new EtcdSnapshot"))]
pub struct EtcdSnapshotSpec {
    /// The `EtcdCluster` to take it of.
    pub cluster_ref: LocalObjectReference,

    /// Where to write it. An object that another snapshot wrote is never overwritten.
    pub destination: SnapshotLocation,

    /// How it is proven good once it is stored: `None`, `Checksum` (what was stored is what was sent) or `Restore`
    /// (it is restored in a Job and etcd of the same version serves it).
    #[serde(default)]
    pub verify: SnapshotVerify,
}
