//! One `EtcdCluster` of a scenario.

#![allow(
    clippy::large_futures,
    reason = "a scenario is one future with everything in it, and there is one a process"
)]

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use crds::{EtcdCluster, EtcdClusterStatus, EtcdMember, MemberRole, labels};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service},
    api::discovery::v1::EndpointSlice,
    api::policy::v1::PodDisruptionBudget,
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    AgentHttp, Etcd, Listed, Process, Volume, World, Writer,
    condition::{condition, lines},
    history::Clients,
    says, until,
};
use crate::kube::Place;

/// Time that a cluster may take to form or to change on a busy machine. What it should take is measured elsewhere.
pub const FORMATION: Duration = Duration::from_secs(90);

/// A cluster by its name.
pub struct Cluster<'a> {
    world: &'a World,
    /// Its name.
    pub name: String,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(world: &'a World, name: &str) -> Self {
        Self {
            world,
            name: name.into(),
        }
    }

    fn api(&self) -> Api<EtcdCluster> {
        self.world.api()
    }

    /// The object.
    pub async fn get(&self) -> Result<EtcdCluster> {
        Ok(self.api().get(&self.name).await?)
    }

    /// Its status.
    pub async fn status(&self) -> Result<EtcdClusterStatus> {
        self.get()
            .await?
            .status
            .with_context(|| format!("{} has no status yet", self.name))
    }

    /// Objects of one kind that carry the cluster's label, by name.
    pub async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let selector = ListParams::default().labels(&format!("{}={}", labels::CLUSTER, self.name));
        let mut all = self.world.api::<K>().list(&selector).await?.items;
        all.sort_by_key(ResourceExt::name_any);
        Ok(all)
    }

    /// Its members, by name.
    pub async fn members(&self) -> Result<Vec<EtcdMember>> {
        self.list().await
    }

    /// The names of its members.
    pub async fn member_names(&self) -> Result<Vec<String>> {
        Ok(self.members().await?.iter().map(ResourceExt::name_any).collect())
    }

    /// The names of its members that are not on their way out.
    pub async fn staying(&self) -> Result<Vec<String>> {
        let mut members = self.members().await?;
        members.retain(|member| member.metadata.deletion_timestamp.is_none());
        Ok(members.iter().map(ResourceExt::name_any).collect())
    }

    /// One member.
    pub async fn member(&self, name: &str) -> Result<EtcdMember> {
        Ok(self.world.api().get(name).await?)
    }

    /// Its Pods, by name.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        self.list().await
    }

    /// The Pod of a member.
    pub async fn pod(&self, member: &str) -> Result<Pod> {
        Ok(self.world.api().get(member).await?)
    }

    /// UID of the Pod of a member.
    pub async fn pod_uid(&self, member: &str) -> Result<String> {
        self.pod(member).await?.uid().context("a Pod without a UID")
    }

    /// etcd's process of a member.
    pub async fn etcd_process(&self, member: &str) -> Result<Process> {
        Process::etcd(&self.pod_uid(member).await?)
    }

    /// Deletes the objects of members as a person does who has read what the deletion guard says.
    pub async fn delete_members_past_the_guard(&self, names: &[String]) -> Result<()> {
        let api = self.world.api::<EtcdMember>();
        let allow = json!({ "metadata": { "annotations": { crds::annotations::ALLOW_DELETION: "true" } } });
        for name in names {
            api.patch(name, &PatchParams::default(), &Patch::Merge(&allow)).await?;
        }
        for name in names {
            api.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// The data volume of a member on a disk whose Pod runs.
    pub async fn volume(&self, member: &str) -> Result<Volume> {
        let claim: PersistentVolumeClaim = self.world.api().get(&crds::names::member_claim(member)).await?;
        let volume = claim.spec.and_then(|spec| spec.volume_name).context("no volume yet")?;
        let node = Process::supervisor(&self.pod_uid(member).await?)?.parent()?;
        Volume::new(node, &self.world.stage.kube.folder().volumes().join(volume))
    }

    /// The data volume of a member, as long as its etcd container runs.
    pub async fn mounted_volume(&self, member: &str) -> Result<PathBuf> {
        Ok(Process::supervisor(&self.pod_uid(member).await?)?.path(proto::pod::DATA_VOLUME))
    }

    /// Deletes the Pod of a member as `kubectl delete pod` does, or with no time to end.
    pub async fn delete_pod(&self, member: &str, at_once: bool) -> Result<()> {
        let parameters = DeleteParams {
            grace_period_seconds: at_once.then_some(0),
            ..DeleteParams::default()
        };
        self.world.api::<Pod>().delete(member, &parameters).await?;
        Ok(())
    }

    /// The agent of a member.
    #[must_use]
    pub fn agent(&self, member: &str) -> AgentHttp {
        AgentHttp::new(self.world.stage.client.clone(), &self.world.namespace, member)
    }

    /// Changes it by a merge patch.
    pub async fn patch(&self, change: Value) -> Result<()> {
        self.api()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(change))
            .await?;
        Ok(())
    }

    /// Changes its wanted number of members.
    pub async fn scale(&self, replicas: u32) -> Result<()> {
        self.patch(json!({ "spec": { "replicas": replicas } })).await
    }

    /// Waits until the wanted state is reached with that many voters, by the status and by etcd's own word.
    pub async fn settled(&self, voters: usize) -> Result<()> {
        self.settled_within(voters, FORMATION).await
    }

    /// The same, with another limit.
    pub async fn settled_within(&self, voters: usize, limit: Duration) -> Result<()> {
        until(
            &format!("{} has {voters} voters and rests", self.name),
            limit,
            async || self.is_settled(voters).await,
        )
        .await
    }

    /// It has that many voters, all healthy, and nothing is under way.
    pub async fn is_settled(&self, voters: usize) -> Result<()> {
        let cluster = self.get().await?;
        let status = cluster.status.clone().context("no status yet")?;
        let count = i32::try_from(voters)?;
        ensure!(
            Some(status.observed_generation) == cluster.metadata.generation,
            "the status is of generation {}, the object of {:?}",
            status.observed_generation,
            cluster.metadata.generation
        );
        says(&status.conditions, "Available", "True", &["QuorumHealthy"], &[])?;
        says(&status.conditions, "Progressing", "False", &["Reconciled"], &[])?;
        let quorum = status.quorum.context("no quorum in the status")?;
        ensure!(
            quorum.voters == count && quorum.healthy == count && status.ready_members == count,
            "quorum {quorum:?}, ready {}: {}",
            status.ready_members,
            lines(&status.conditions)
        );
        let listed = self.etcd().await?.members().await?;
        let named = listed
            .iter()
            .filter(|member| !member.learner)
            .map(|member| &member.name);
        let named: Vec<&String> = named.collect();
        let members = self.staying().await?;
        ensure!(
            listed.len() == voters && named == members.iter().collect::<Vec<_>>(),
            "etcd lists {listed:?}, members are {members:?}"
        );
        Ok(())
    }

    /// Waits for a condition.
    pub async fn says(
        &self,
        within: Duration,
        type_: &str,
        status: &str,
        reasons: &[&str],
        parts: &[&str],
    ) -> Result<()> {
        until(&format!("{} says {type_}={status}", self.name), within, async || {
            says(&self.status().await?.conditions, type_, status, reasons, parts)
        })
        .await
    }

    /// When a condition of it last became what it is.
    pub async fn transition(&self, type_: &str) -> Result<Time> {
        let conditions = self.status().await?.conditions;
        Ok(condition(&conditions, type_)?.last_transition_time.clone())
    }

    /// The name of the member that leads, by the status.
    pub async fn leader(&self) -> Result<String> {
        let members = self.status().await?.members;
        let leader = members.into_iter().find(|member| member.role == MemberRole::Leader);
        Ok(leader.context("nobody leads")?.name)
    }

    /// The key is there, as a client reads it.
    pub async fn has(&self, key: &str) -> Result<()> {
        let value = self.etcd().await?.get(key).await?;
        value
            .with_context(|| format!("the data are gone: there is no {key}"))
            .map(drop)
    }

    /// A client of the first member that answers.
    pub async fn etcd(&self) -> Result<Etcd> {
        let mut why = anyhow::anyhow!("{} has no Pod", self.name);
        for pod in self.pods().await? {
            match self.etcd_of(&pod).await {
                Ok(mut etcd) => match etcd.members().await {
                    Ok(_) => return Ok(etcd),
                    Err(error) => why = error,
                },
                Err(error) => why = error,
            }
        }
        Err(why.context("no member answers"))
    }

    /// A client of one member.
    pub async fn etcd_at(&self, member: &str) -> Result<Etcd> {
        self.etcd_of(&self.pod(member).await?).await
    }

    async fn etcd_of(&self, pod: &Pod) -> Result<Etcd> {
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
        let ip = ip.with_context(|| format!("Pod {} has no address yet", pod.name_any()))?;
        Etcd::connect(
            &self.world.stage.kube,
            Place::ControlPlane,
            SocketAddr::new(ip.parse()?, 2379),
        )
        .await
    }

    /// etcd's member list.
    pub async fn listed(&self) -> Result<Vec<Listed>> {
        self.etcd().await?.members().await
    }

    /// Address and port of the client Service.
    pub async fn client_service(&self) -> Result<SocketAddr> {
        let service: Service = self.world.api().get(&format!("{}-client", self.name)).await?;
        let ip = service
            .spec
            .and_then(|spec| spec.cluster_ip)
            .context("the client Service has no address")?;
        Ok(SocketAddr::new(ip.parse()?, 2379))
    }

    /// Starts a client that writes through the client Service.
    pub async fn writer(&self) -> Result<Writer> {
        self.writer_at(Place::Node(1)).await
    }

    /// The same from another place.
    pub async fn writer_at(&self, place: Place) -> Result<Writer> {
        Ok(Writer::start(
            self.world.stage.clone(),
            place,
            self.client_service().await?,
        ))
    }

    /// Starts so many clients that read and write through the client Service and note everything.
    pub async fn clients(&self, count: usize, seed: u64) -> Result<Clients> {
        let service = self.client_service().await?;
        Ok(Clients::start(&self.world.stage, Place::Node(1), service, count, seed))
    }

    /// Names of the Pods that the client Service leads to.
    pub async fn client_endpoints(&self) -> Result<Vec<String>> {
        let selector = ListParams::default().labels(&format!("kubernetes.io/service-name={}-client", self.name));
        let slices = self.world.api::<EndpointSlice>().list(&selector).await?;
        let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
        let ready = endpoints.filter(|e| e.conditions.as_ref().is_some_and(|c| c.ready == Some(true)));
        Ok(ready
            .filter_map(|endpoint| endpoint.target_ref.and_then(|target| target.name))
            .collect())
    }

    /// Deletes the object.
    pub async fn delete(&self) -> Result<()> {
        self.api().delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Nothing of it is left.
    pub async fn is_gone(&self) -> Result<()> {
        if self.api().get_opt(&self.name).await?.is_some() {
            bail!("the object {} is still there", self.name);
        }
        self.left::<EtcdMember>().await?;
        self.left::<Pod>().await?;
        self.left::<PersistentVolumeClaim>().await?;
        self.left::<Service>().await?;
        self.left::<PodDisruptionBudget>().await?;
        self.left::<Secret>().await
    }

    async fn left<K>(&self) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let names: Vec<String> = self.list::<K>().await?.iter().map(ResourceExt::name_any).collect();
        ensure!(names.is_empty(), "{} left of {}: {names:?}", K::kind(&()), self.name);
        Ok(())
    }
}
