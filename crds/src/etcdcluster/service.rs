//! Shapes of the Services that clients use.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::serde_help::is_default;

/// How the client Service is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClientServiceType {
    /// Inside the Kubernetes cluster only.
    #[default]
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// By a port of every node as well.
    NodePort,
    /// By a load balancer as well.
    LoadBalancer,
}

impl ClientServiceType {
    /// The word that a Service's `spec.type` takes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

/// Shape of the Service `<cluster>-client`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientServiceTemplate {
    /// `ClusterIP`, `NodePort` or `LoadBalancer`.
    #[serde(default, rename = "type")]
    pub type_: ClientServiceType,

    /// Annotations to add to the Service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,

    /// Labels to add to the Service; the operator's own keys win.
    #[serde(default, skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,

    /// Class of the load balancer; for type `LoadBalancer` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,

    /// How traffic prefers near members, such as `PreferClose`. Absent: no preference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<String>,
}

/// Shapes of the cluster's Services. The headless Service `<cluster>` is always as the members need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTemplates {
    /// The Service `<cluster>-client`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: ClientServiceTemplate,
}
