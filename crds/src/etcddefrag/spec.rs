//! Which defragmentation is wanted.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::rule::DefragRule;
use super::status::EtcdDefragStatus;
use crate::common::LocalObjectReference;

/// One wanted defragmentation.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "etcd-operator.cozystack.io",
    version = "v1alpha2",
    kind = "EtcdDefrag",
    namespaced,
    status = "EtcdDefragStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One defragmentation of an etcd cluster: member by member, followers before the leader.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Defragmented", type_ = "integer", json_path = ".status.defragmented"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("has(self.spec)").message("spec is required"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("size(self.clusterRef.name) > 0")
    .message("name the EtcdCluster to defragment").field_path(".clusterRef.name"))]
pub struct EtcdDefragSpec {
    /// The `EtcdCluster` to defragment.
    pub cluster_ref: LocalObjectReference,

    /// Which members are defragmented. Absent: those with more than 200Mi of free space in their database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<DefragRule>,

    /// Seconds after its end at which this object is deleted. Absent: it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}
