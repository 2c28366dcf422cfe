//! The decision itself.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::status::EtcdRecoveryStatus;
use crate::common::{LocalObjectReference, RestoreSource};
use crate::serde_help::is_default;

/// Which data the cluster goes on with. It cannot be changed: make a new one.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "etcd-operator.cozystack.io",
    version = "v1alpha2",
    kind = "EtcdRecovery",
    plural = "etcdrecoveries",
    shortname = "erec",
    namespaced,
    status = "EtcdRecoveryStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A decision to open a new history for an etcd cluster that has lost its quorum, carried out once. It is refused while the quorum stands.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("has(self.spec)").message("spec is required"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf").message("a recovery cannot be changed: make a new EtcdRecovery"),
    validation = Rule::new("size(self.clusterRef.name) > 0")
        .message("name the EtcdCluster to recover").field_path(".clusterRef.name"),
    validation = Rule::new("has(self.fromMember) != has(self.fromSnapshot)")
        .message("set exactly one of fromMember and fromSnapshot"),
)]
pub struct EtcdRecoverySpec {
    /// The `EtcdCluster` to recover.
    pub cluster_ref: LocalObjectReference,

    /// Goes on with the data directory of a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_member: Option<RecoveryMember>,

    /// Goes on with a snapshot; what was written after it is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_snapshot: Option<RestoreSource>,

    /// Members that cannot be reached and are taken for gone by the person who writes this. If one of them still
    /// runs, its clients write into a history that is given up.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub assume_gone: Vec<String>,

    /// Required when the chosen data are provably behind what any member held.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accept_data_loss: bool,
}

/// Whose data directory: exactly one of `name`, `best` and `claimName`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.name), has(self.best), has(self.claimName)].filter(given, given).size() == 1")
        .message("set exactly one of name, best and claimName"),
    validation = Rule::new("!has(self.best) || self.best").message("best can only be true").field_path(".best"),
)]
pub struct RecoveryMember {
    /// The `EtcdMember` of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,

    /// True: the member with the longest log, by its last term and then its last index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<bool>,

    /// A retained `PersistentVolumeClaim` `data-<member>`: the `EtcdMember` of that name is made again and takes it
    /// over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub claim_name: Option<String>,
}
