//! References to other objects, always in the same namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LocalObjectReference {
    /// Name of the object.
    #[serde(default)]
    pub name: String,
}

impl LocalObjectReference {
    /// A reference to the object called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl From<LocalObjectReference> for k8s_openapi::api::core::v1::LocalObjectReference {
    fn from(reference: LocalObjectReference) -> Self {
        Self { name: reference.name }
    }
}

/// Kind of a cert-manager issuer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IssuerKind {
    /// An issuer of the cluster's own namespace.
    #[default]
    Issuer,
    /// An issuer of the whole Kubernetes cluster.
    ClusterIssuer,
}

/// Names a cert-manager issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IssuerReference {
    /// Name of the issuer.
    #[schemars(length(min = 1))]
    pub name: String,

    /// `Issuer` (of the same namespace) or `ClusterIssuer`.
    #[serde(default)]
    pub kind: IssuerKind,
}
