//! `EtcdDefragPolicy`: defragmentations by a schedule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::common::{CRON_PATTERN, ConcurrencyPolicy, LocalObjectReference};
use crate::etcddefrag::DefragRule;
use crate::serde_help::is_default;

/// Defragmentations by a schedule.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "etcd-operator.cozystack.io",
    version = "v1alpha2",
    kind = "EtcdDefragPolicy",
    plural = "etcddefragpolicies",
    namespaced,
    status = "EtcdDefragPolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Makes an EtcdDefrag of a cluster at each time of a schedule.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Last Schedule", type_ = "date", json_path = ".status.lastScheduleTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("has(self.spec)").message("spec is required"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("size(self.clusterRef.name) > 0")
    .message("name the EtcdCluster to defragment").field_path(".clusterRef.name"))]
pub struct EtcdDefragPolicySpec {
    /// The `EtcdCluster` to defragment.
    pub cluster_ref: LocalObjectReference,

    /// When, as cron writes it: minute, hour, day of month, month, day of week; in UTC.
    #[schemars(length(min = 1), regex(pattern = CRON_PATTERN))]
    pub schedule: String,

    /// True stops new runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,

    /// What happens when a run is due while the one before is under way: `Forbid` leaves it out, `Allow` queues it.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,

    /// Seconds by which a run may be late, after which it is left out. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,

    /// Ended runs to keep. Absent: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub history_limit: Option<i32>,

    /// Which members are defragmented. Absent: those with more than 200Mi of free space in their database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<DefragRule>,

    /// Seconds after its end at which a run is deleted. Absent: `historyLimit` alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// What was last observed of the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdDefragPolicyStatus {
    /// `metadata.generation` that this status was made from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,

    /// When the newest run was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,

    /// When the newest good run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,

    /// When the next run is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,

    /// Runs that are under way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub active: Vec<LocalObjectReference>,

    /// Conditions of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
