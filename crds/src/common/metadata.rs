//! Labels and annotations that a person adds to our objects.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::serde_help::is_default;

/// Labels and annotations for every object that the operator makes for the cluster. The operator's own keys win, and
/// keys under `etcd-operator.cozystack.io/` are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdditionalMetadata {
    /// Labels to add.
    #[serde(default, skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,

    /// Annotations to add.
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,
}
