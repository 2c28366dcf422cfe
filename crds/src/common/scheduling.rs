//! Where Pods may run, beside affinity and topology spread constraints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::serde_help::is_default;

/// Scheduling of member Pods. A change needs new Pods and is rolled out one member at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Taints that the Pods tolerate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tolerations: Vec<Toleration>,

    /// Labels that a node must carry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_selector: BTreeMap<String, String>,

    /// `PriorityClass` of the Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,

    /// `RuntimeClass` of the Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,

    /// Scheduler that places the Pods. Absent: the default scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
}
