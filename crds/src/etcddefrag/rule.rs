//! Which members a defragmentation is worth its while for.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::serde_help::is_default;

/// Which members are defragmented. Absent or empty: those with more than 200Mi of free space in their database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.all) && self.all) || !(has(self.freeSpaceAbove) || has(self.quotaUsageAbove) || has(self.minReclaim))")
        .message("all defragments every member: leave out freeSpaceAbove, quotaUsageAbove and minReclaim").field_path(".all"),
    validation = Rule::new("!has(self.freeSpaceAbove) || quantity(string(self.freeSpaceAbove)).isGreaterThan(quantity('0'))")
        .message("freeSpaceAbove must be above 0").field_path(".freeSpaceAbove"),
    validation = Rule::new("!has(self.minReclaim) || quantity(string(self.minReclaim)).isGreaterThan(quantity('0'))")
        .message("minReclaim must be above 0").field_path(".minReclaim"),
    validation = Rule::new("!has(self.minReclaim) || has(self.quotaUsageAbove)")
        .message("minReclaim goes with quotaUsageAbove").field_path(".minReclaim"),
    validation = Rule::new("!(has(self.minReclaim) && has(self.freeSpaceAbove)) || quantity(string(self.minReclaim)).compareTo(quantity(string(self.freeSpaceAbove))) <= 0")
        .message("minReclaim may not be above freeSpaceAbove").field_path(".minReclaim"),
)]
pub struct DefragRule {
    /// Every member, whatever it would gain.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,

    /// Members whose database has more than this much free space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_space_above: Option<Quantity>,

    /// Members whose database takes more than this part of its quota, `1%` to `100%`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(regex(pattern = r"^([1-9][0-9]?|100)%$"))]
    pub quota_usage_above: String,

    /// With `quotaUsageAbove`: leaves out members that would give back less than this. Absent: 32Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_reclaim: Option<Quantity>,
}
