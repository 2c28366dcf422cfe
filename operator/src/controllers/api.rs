//! Calls of the Kubernetes API: bounded in time, and their answers put into the mirrors.

use std::{future::Future, time::Duration};

use crds::{EtcdCluster, EtcdMember, EtcdRecovery};
use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client};

use super::error::PassError;
use crate::leader::Validity;

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
    /// Recoveries.
    pub recoveries: Api<EtcdRecovery>,
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
    /// Volumes.
    pub volumes: Api<PersistentVolume>,
}

impl Apis {
    /// The APIs of `namespace`.
    #[must_use]
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            clusters: Api::namespaced(client.clone(), namespace),
            members: Api::namespaced(client.clone(), namespace),
            recoveries: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            claims: Api::namespaced(client.clone(), namespace),
            services: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client.clone(), namespace),
            budgets: Api::namespaced(client.clone(), namespace),
            namespaces: Api::all(client.clone()),
            volumes: Api::all(client.clone()),
        }
    }
}

/// What must be left of our turn when a write begins: it ends before another's turn can begin.
const TURN: Duration = Duration::from_millis(3500);

/// One write, bounded in time, and sent only while it is our turn. The turn is looked at here, with each write, because a
/// step may consist of several.
pub(super) async fn write<T>(
    lease: &Validity,
    act: &'static str,
    answer: impl Future<Output = kube::Result<T>>,
) -> Result<T, PassError> {
    lease.check(TURN)?;
    call(act, answer).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_written_when_the_turn_is_over() {
        let sent = std::sync::atomic::AtomicBool::new(false);
        let request = async {
            sent.store(true, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        };
        let answer = write(&Validity::default(), "writing", request).await;
        assert!(matches!(answer, Err(PassError::NotLeader(_))), "{answer:?}");
        assert!(!sent.into_inner());
    }
}
