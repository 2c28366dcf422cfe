//! What the first member starts from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Restore;

/// Read once, when the cluster forms. It cannot be changed later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapSpec {
    /// Starts the cluster with the data of a snapshot. Absent: it starts empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<Restore>,
}
