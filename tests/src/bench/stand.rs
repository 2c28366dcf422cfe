//! Where experiments run: a local Kubernetes of their own with the operator in it, and what all of them do there.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use crds::{EtcdCluster, etcdcluster::MemberSummary};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::follow::Follow;
use crate::{
    harness::{Stage, World, spec},
    kube::Config,
};

/// How long anything may take before the experiment is given up.
pub const LIMIT: Duration = Duration::from_mins(3);

/// A local Kubernetes with the operator, and a namespace.
pub struct Stand {
    /// Both.
    pub world: World,
}

impl Stand {
    /// Starts a Kubernetes of that many nodes, which ends with this process, and puts the operator there.
    pub async fn up(nodes: u8) -> Result<Self> {
        let stage = Stage::up(Config {
            nodes,
            ..Config::new("bench")
        })
        .await?;
        let world = World {
            stage: Arc::new(stage),
            namespace: "bench".into(),
        };
        world.create_namespace(&world.namespace).await?;
        Ok(Self { world })
    }

    /// Takes all of it down.
    pub async fn down(self) -> Result<()> {
        match Arc::try_unwrap(self.world.stage) {
            Ok(stage) => stage.kube.down().await,
            // It ends with this process in any case.
            Err(_) => Ok(()),
        }
    }

    /// The clusters.
    #[must_use]
    pub fn clusters(&self) -> Api<EtcdCluster> {
        self.world.api()
    }

    /// The Pods of the clusters.
    #[must_use]
    pub fn pods(&self) -> Api<Pod> {
        self.world.api()
    }

    /// Sends the request for a cluster.
    pub async fn create(&self, name: &str, spec: &Value) -> Result<()> {
        let cluster = EtcdCluster::new(name, serde_json::from_value(spec.clone())?);
        self.clusters().create(&PostParams::default(), &cluster).await?;
        Ok(())
    }

    /// Forms a cluster and waits for its three voters.
    pub async fn form(&self, name: &str, spec: &Value) -> Result<EtcdCluster> {
        let mut follow = Follow::new(self.clusters(), name);
        self.create(name, spec).await?;
        let (_, cluster) = follow
            .until("whole", LIMIT, |cluster| cluster.is_some_and(is_whole))
            .await?;
        cluster.context("a cluster that is gone is not whole")
    }

    /// Changes a cluster's wanted number of members.
    pub async fn scale(&self, name: &str, replicas: i32) -> Result<()> {
        let change = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.clusters().patch(name, &PatchParams::default(), &change).await?;
        Ok(())
    }

    /// Deletes a cluster and waits until it and its Pods are gone, so that the next run begins with a quiet machine.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let mut follow = Follow::new(self.clusters(), name);
        self.clusters().delete(name, &DeleteParams::default()).await?;
        follow.until("gone", LIMIT, |cluster| cluster.is_none()).await?;
        self.without_pods(name).await
    }

    /// Waits until no Pod of a cluster is left.
    pub async fn without_pods(&self, name: &str) -> Result<()> {
        let of_cluster = ListParams::default().labels(&format!("{}={name}", crds::labels::CLUSTER));
        for pod in self.pods().list_metadata(&of_cluster).await? {
            Follow::new(self.pods(), &pod.name_any())
                .until("gone", LIMIT, |pod| pod.is_none())
                .await?;
        }
        Ok(())
    }
}

/// Three members in memory, with the requests that a cluster has whose spec names none.
#[must_use]
pub fn memory() -> Value {
    spec::with(spec::memory(3), &json!({ "resources": null }))
}

/// The same on disks.
#[must_use]
pub fn disk() -> Value {
    spec::with(spec::disk(3), &json!({ "resources": null }))
}

/// All three members vote and are healthy.
#[must_use]
pub fn is_whole(cluster: &EtcdCluster) -> bool {
    is_whole_with(cluster, 3)
}

/// That many members vote and are healthy, and there are no others.
#[must_use]
pub fn is_whole_with(cluster: &EtcdCluster, size: i32) -> bool {
    let Some(status) = &cluster.status else { return false };
    let quorum = status.quorum.unwrap_or_default();
    (status.ready_members, quorum.voters, quorum.healthy) == (size, size, size)
        && i32::try_from(status.members.len()) == Ok(size)
}

/// A member that was lost is back under another ID.
#[must_use]
pub fn has_new_id(cluster: &EtcdCluster, lost: &MemberSummary) -> bool {
    let mut members = cluster.status.iter().flat_map(|status| &status.members);
    members.any(|member| member.name == lost.name && member.id.is_some() && member.id != lost.id)
}

/// The condition `Available` has that status, and one of those reasons if any are given.
#[must_use]
pub fn is_available(cluster: &EtcdCluster, wanted: &str, reasons: &[&str]) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut available = conditions.filter(|condition| condition.type_ == "Available");
    available.any(|found| found.status == wanted && (reasons.is_empty() || reasons.contains(&found.reason.as_str())))
}
