//! Where snapshots are written to and restored from.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalObjectReference;
use crate::serde_help::is_default;

/// A bucket of an S3-compatible store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Location {
    /// URL of the store, such as `https://s3.example.com`.
    #[schemars(length(min = 1))]
    pub endpoint: String,

    /// Name of the bucket. It must exist.
    #[schemars(length(min = 1))]
    pub bucket: String,

    /// As a destination: the prefix, the object is `<key>/<snapshot>.db`. As a source: the exact key of the object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key: String,

    /// Secret with the keys `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    pub credentials_secret_ref: LocalObjectReference,

    /// Region of the bucket, for stores that want one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub region: String,

    /// Puts the bucket into the path and not into the host name, as most self-hosted stores need it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force_path_style: bool,

    /// Secret whose key `ca.crt` holds the certificates (PEM) to trust for the endpoint. Absent: the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle_secret_ref: Option<LocalObjectReference>,
}

/// A file on a `PersistentVolumeClaim` of the namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(r"!has(self.subPath) || !self.subPath.matches('(^|/)\\.\\.(/|$)')")
    .message("subPath may not climb out of the volume: leave out '..'").field_path(".subPath"))]
pub struct PvcLocation {
    /// Name of the `PersistentVolumeClaim`. It must exist.
    #[schemars(length(min = 1))]
    pub claim_name: String,

    /// As a destination: the folder, the file is `<subPath>/<snapshot>.db`. As a source: the exact path of the file.
    /// No component may be `..`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sub_path: String,
}

/// Where a snapshot is written to: exactly one of `s3` and `pvc`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.s3) != has(self.pvc)").message("set exactly one of s3 and pvc"))]
pub struct SnapshotLocation {
    /// An S3-compatible store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Location>,

    /// A `PersistentVolumeClaim` of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<PvcLocation>,
}

/// Where a snapshot is restored from: exactly one of `s3`, `pvc` and `snapshotRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.s3), has(self.pvc), has(self.snapshotRef)].filter(given, given).size() == 1")
        .message("set exactly one of s3, pvc and snapshotRef"),
    validation = Rule::new("!has(self.s3) || (has(self.s3.key) && size(self.s3.key) > 0)")
        .message("a restore needs the exact key of the object").field_path(".s3"),
    validation = Rule::new("!has(self.pvc) || (has(self.pvc.subPath) && size(self.pvc.subPath) > 0)")
        .message("a restore needs the exact path of the file: set subPath").field_path(".pvc"),
    validation = Rule::new("!has(self.snapshotRef) || size(self.snapshotRef.name) > 0")
        .message("name the EtcdSnapshot to restore").field_path(".snapshotRef"),
)]
pub struct RestoreSource {
    /// An object of an S3-compatible store; `key` is its exact key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Location>,

    /// A file on a `PersistentVolumeClaim` of the namespace; `subPath` is its exact path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<PvcLocation>,

    /// A complete `EtcdSnapshot` of the namespace; its own destination is where the data come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ref: Option<LocalObjectReference>,
}

/// A restore at the birth of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.markCompacted) || (has(self.revisionBump) && self.revisionBump > 0)")
    .message("markCompacted needs a revisionBump above 0").field_path(".markCompacted"))]
pub struct Restore {
    /// Where the snapshot is.
    pub source: RestoreSource,

    /// Added to the revision of the restored data, so that clients which cache by revision never see it go back.
    /// 0 or absent: nothing is added. 1000000000 covers a week of 1500 writes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_bump: Option<i64>,

    /// Marks everything before the bumped revision as compacted, so that watches start over. Absent: true when
    /// `revisionBump` is above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_compacted: Option<bool>,
}
