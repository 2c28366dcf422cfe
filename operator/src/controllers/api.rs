//! Calls of the Kubernetes API: bounded in time, and their answers put into the mirrors.

use std::{future::Future, time::Duration};

use crds::{EtcdCluster, EtcdMember};
use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolumeClaim, Pod, Secret, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client};

use super::error::PassError;

/// The name under which our fields are managed.
pub(super) const FIELD_MANAGER: &str = "etcd-operator";

/// Longest wait for one call.
pub(super) const DEADLINE: Duration = Duration::from_secs(3);

/// The APIs of one namespace.
#[derive(Clone)]
pub(super) struct Apis {
    /// Clusters.
    pub clusters: Api<EtcdCluster>,
    /// Members.
    pub members: Api<EtcdMember>,
    /// Pods.
    pub pods: Api<Pod>,
    /// Claims.
    pub claims: Api<PersistentVolumeClaim>,
    /// Services.
    pub services: Api<Service>,
    /// Secrets, by name only.
    pub secrets: Api<Secret>,
    /// Disruption budgets.
    pub budgets: Api<PodDisruptionBudget>,
    /// Namespaces.
    pub namespaces: Api<Namespace>,
}

impl Apis {
    /// The APIs of `namespace`.
    #[must_use]
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            clusters: Api::namespaced(client.clone(), namespace),
            members: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            claims: Api::namespaced(client.clone(), namespace),
            services: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client.clone(), namespace),
            budgets: Api::namespaced(client.clone(), namespace),
            namespaces: Api::all(client.clone()),
        }
    }
}

/// One call, bounded in time.
pub(super) async fn call<T>(act: &'static str, answer: impl Future<Output = kube::Result<T>>) -> Result<T, PassError> {
    match tokio::time::timeout(DEADLINE, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(PassError::Kube {
            act,
            source: Box::new(source),
        }),
        Err(_) => Err(PassError::KubeSilent { act }),
    }
}
