//! `EtcdSnapshotPolicy`: snapshots by a schedule, and which of them are kept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::common::{CRON_PATTERN, ConcurrencyPolicy, LocalObjectReference, SnapshotLocation};
use crate::etcdsnapshot::SnapshotVerify;
use crate::serde_help::is_default;

/// Snapshots by a schedule.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "etcd-operator.cozystack.io",
    version = "v1alpha2",
    kind = "EtcdSnapshotPolicy",
    plural = "etcdsnapshotpolicies",
    shortname = "esp",
    namespaced,
    status = "EtcdSnapshotPolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Makes an EtcdSnapshot of a cluster at each time of a schedule, and deletes those that need not be kept.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Last Schedule", type_ = "date", json_path = ".status.lastScheduleTime"),
    printcolumn(name = "Last Success", type_ = "date", json_path = ".status.lastSuccessfulTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("has(self.spec)").message("spec is required"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("size(self.clusterRef.name) > 0")
    .message("name the EtcdCluster to take snapshots of").field_path(".clusterRef.name"))]
pub struct EtcdSnapshotPolicySpec {
    /// The `EtcdCluster` to take snapshots of.
    pub cluster_ref: LocalObjectReference,

    /// When, as cron writes it: minute, hour, day of month, month, day of week.
    #[schemars(length(min = 1), regex(pattern = CRON_PATTERN))]
    pub schedule: String,

    /// Time zone of the schedule, a name of the IANA database such as `Europe/Berlin`.
    #[serde(default = "utc")]
    #[schemars(length(min = 1))]
    pub time_zone: String,

    /// True stops new snapshots; what is stored stays.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,

    /// What happens when a snapshot is due while the one before is being taken: `Forbid` leaves it out, `Allow` takes
    /// both.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,

    /// Seconds by which a snapshot may be late, after which it is left out. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,

    /// Where to write the snapshots.
    pub destination: SnapshotLocation,

    /// How each snapshot is proven good: `None`, `Checksum` or `Restore`.
    #[serde(default)]
    pub verify: SnapshotVerify,

    /// Which snapshots are kept. Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<SnapshotRetention>,
}

/// What the API server fills in; cluster, schedule and destination have to be given.
impl Default for EtcdSnapshotPolicySpec {
    fn default() -> Self {
        Self {
            cluster_ref: LocalObjectReference::default(),
            schedule: String::new(),
            time_zone: utc(),
            suspend: false,
            concurrency_policy: ConcurrencyPolicy::default(),
            starting_deadline_seconds: None,
            destination: SnapshotLocation::default(),
            verify: SnapshotVerify::default(),
            retention: None,
        }
    }
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Which snapshots are kept: each that any of the `keep…` rules asks for, as long as it is not older than `maxAge`.
/// Others are deleted, objects at the destination included, but only those that this policy's own snapshots wrote,
/// and never the newest good one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.keepLast) || has(self.keepDaily) || has(self.keepWeekly) || has(self.keepMonthly) || has(self.maxAge)")
    .message("say what to keep: set one of keepLast, keepDaily, keepWeekly, keepMonthly and maxAge"))]
pub struct SnapshotRetention {
    /// The newest ones, this many.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub keep_last: Option<i32>,

    /// The newest one of each of this many days.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub keep_daily: Option<i32>,

    /// The newest one of each of this many weeks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub keep_weekly: Option<i32>,

    /// The newest one of each of this many months.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub keep_monthly: Option<i32>,

    /// None older than this, such as `36h` or `30d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(d|h|m|s))+$"))]
    pub max_age: Option<String>,
}

/// What was last observed of the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdSnapshotPolicyStatus {
    /// `metadata.generation` that this status was made from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,

    /// When the newest snapshot was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,

    /// When the newest good snapshot was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,

    /// When the next snapshot is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,

    /// Snapshots that are being taken.
    #[serde(default, skip_serializing_if = "is_default")]
    pub active: Vec<LocalObjectReference>,

    /// Conditions of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
