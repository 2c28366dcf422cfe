//! etcd's own tunables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How etcd counts what it keeps when it compacts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AutoCompactionMode {
    /// By age: everything older than the retention time is compacted.
    Periodic,
    /// By count: the newest revisions are kept.
    Revision,
}

impl AutoCompactionMode {
    /// The word that etcd's configuration uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::Revision => "revision",
        }
    }
}

/// Tunables of etcd. An absent field leaves etcd's own default for its version. A change is rolled out one member at
/// a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdOptions {
    /// Size in bytes at which the database refuses writes and raises NOSPACE. 0 means etcd's own default (2 GiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub quota_backend_bytes: Option<i64>,

    /// What `autoCompactionRetention` counts: `periodic` (time) or `revision` (revisions). etcd's default: `periodic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compaction_mode: Option<AutoCompactionMode>,

    /// History kept by automatic compaction: a duration such as `5m` or `1h30m`, or an integer (hours in mode
    /// `periodic`, revisions in mode `revision`). Absent or 0: etcd compacts nothing by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$|^[0-9]+$"))]
    pub auto_compaction_retention: Option<String>,

    /// Committed entries between two snapshots of the log on disk. At least 1. Fewer entries cost less memory and let
    /// slow followers need a whole snapshot sooner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub snapshot_count: Option<i64>,
}
