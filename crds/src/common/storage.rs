//! Where a member keeps its data.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a data directory is kept on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StorageMedium {
    /// A `PersistentVolumeClaim`: the data outlive the Pod.
    #[default]
    #[serde(rename = "")]
    Disk,
    /// The node's memory: the data go with the Pod, and a lost member is refilled by the others.
    Memory,
}

/// The volume of each member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Capacity for each member: the request of the `PersistentVolumeClaim`, or the size limit of the memory volume
    /// (which counts against the memory of the Pod). It can grow and not shrink.
    #[serde(default = "default_size")]
    pub size: Quantity,

    /// Empty for a `PersistentVolumeClaim`, or `Memory` for a volume in the node's memory. It cannot be changed later.
    #[serde(default)]
    pub medium: StorageMedium,

    /// `StorageClass` of the `PersistentVolumeClaim`s. Absent: the default class of the Kubernetes cluster; the empty
    /// string: no dynamic provisioning. It cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            size: default_size(),
            medium: StorageMedium::default(),
            storage_class_name: None,
        }
    }
}

fn default_size() -> Quantity {
    Quantity("1Gi".to_owned())
}
