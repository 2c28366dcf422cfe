//! The `CustomResourceDefinition`s, as the API server gets them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::structural::{self, SchemaError};
use crate::{EtcdCluster, EtcdDefrag, EtcdDefragPolicy, EtcdMember, EtcdRecovery, EtcdSnapshot, EtcdSnapshotPolicy};

/// All kinds, in the order in which a reader wants to meet them.
///
/// # Errors
///
/// Only when a type's schema cannot be written as a structural schema, which a test rules out.
pub fn all() -> Result<Vec<CustomResourceDefinition>, SchemaError> {
    [
        EtcdCluster::crd(),
        EtcdMember::crd(),
        EtcdSnapshot::crd(),
        EtcdSnapshotPolicy::crd(),
        EtcdDefrag::crd(),
        EtcdDefragPolicy::crd(),
        EtcdRecovery::crd(),
    ]
    .into_iter()
    .map(structural::finish)
    .collect()
}
