//! Everything of ours in the Kubernetes API, cut down to what is needed. Only labelled objects are watched: no foreign
//! Secret, Pod or Job is ever held.

use std::collections::{BTreeMap, HashSet};

use crds::{EtcdCluster, EtcdMember, EtcdRecovery};
use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Pod, Service},
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{
    mirror::{ClusterKey, Item, Mirror},
    nodes::Nodes,
    pod::OutOfMemory,
};
use crate::{plan::facts, validate};

/// All mirrors.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Clusters.
    pub clusters: Mirror<EtcdCluster>,
    /// Members.
    pub members: Mirror<EtcdMember>,
    /// Pods.
    pub pods: Mirror<PodInfo>,
    /// Claims.
    pub claims: Mirror<ClaimInfo>,
    /// Services.
    pub services: Mirror<Service>,
    /// Disruption budgets.
    pub budgets: Mirror<PodDisruptionBudget>,
    /// Names that the headless Services give.
    pub names: Mirror<Names>,
    /// Nodes.
    pub nodes: Nodes,
    /// Recoveries.
    pub recoveries: Mirror<EtcdRecovery>,
}

/// A Pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodInfo {
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// Its etcd container was last ended for memory.
    pub out_of_memory: Option<OutOfMemory>,
    /// Since when it has no place to run.
    pub times: super::pod::Times,
    /// The agent's container, by its ID.
    pub agent_container: Option<String>,
    /// The rest.
    pub pod: facts::Pod,
}

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClaimInfo {
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// It is being deleted.
    pub deleting: bool,
    /// Its UID.
    pub uid: String,
    /// It was kept when its member's object went.
    pub retained: bool,
    /// Its volume, once it has one.
    pub volume: Option<String>,
    /// Phase `Lost`: its volume is gone.
    pub lost: bool,
    /// The size that it asks for.
    pub bytes: u64,
}

/// Host names and their addresses in one `EndpointSlice`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// By host name.
    pub hosts: BTreeMap<String, HashSet<String>>,
}

/// The cluster that an object belongs to, by its label.
#[must_use]
pub(super) fn cluster_of(meta: &ObjectMeta) -> Option<ClusterKey> {
    let name = meta.labels.as_ref()?.get(crds::labels::CLUSTER)?;
    Some(ClusterKey {
        namespace: meta.namespace.clone()?,
        name: name.clone(),
    })
}

/// A Pod that was taken out of the Services has lost the label, and is ours all the same.
fn hidden_from(meta: &ObjectMeta) -> Option<ClusterKey> {
    let name = meta.annotations.as_ref()?.get(crds::annotations::HIDDEN_FROM)?;
    Some(ClusterKey {
        namespace: meta.namespace.clone()?,
        name: name.clone(),
    })
}

fn keep<T>(meta: &ObjectMeta, cluster: Option<ClusterKey>, value: T) -> Option<Item<T>> {
    Some(Item {
        cluster: cluster?,
        name: meta.name.clone()?,
        uid: meta.uid.clone()?,
        version: meta.resource_version.as_deref()?.parse().ok()?,
        value: std::sync::Arc::new(value),
    })
}

/// A cluster.
#[must_use]
pub(super) fn cluster(mut object: EtcdCluster) -> Option<Item<EtcdCluster>> {
    object.metadata.managed_fields = None;
    let key = ClusterKey {
        namespace: object.metadata.namespace.clone()?,
        name: object.metadata.name.clone()?,
    };
    let meta = object.metadata.clone();
    keep(&meta, Some(key), object)
}

/// A member.
#[must_use]
pub(super) fn member(mut object: EtcdMember) -> Option<Item<EtcdMember>> {
    object.metadata.managed_fields = None;
    let key = ClusterKey {
        namespace: object.metadata.namespace.clone()?,
        name: object.spec.cluster_name.clone(),
    };
    let meta = object.metadata.clone();
    keep(&meta, Some(key), object)
}

/// A recovery.
#[must_use]
pub(super) fn recovery(mut object: EtcdRecovery) -> Option<Item<EtcdRecovery>> {
    object.metadata.managed_fields = None;
    let key = ClusterKey {
        namespace: object.metadata.namespace.clone()?,
        name: object.spec.cluster_ref.name.clone(),
    };
    let meta = object.metadata.clone();
    keep(&meta, Some(key), object)
}

/// A Pod.
#[must_use]
pub(super) fn pod(object: &Pod) -> Option<Item<PodInfo>> {
    let info = PodInfo {
        owners: object.metadata.owner_references.clone().unwrap_or_default(),
        out_of_memory: super::pod::out_of_memory(object),
        times: super::pod::times(object),
        agent_container: super::pod::agent_container(object).map(str::to_owned),
        pod: super::pod::fact(object)?,
    };
    let cluster = cluster_of(&object.metadata).or_else(|| hidden_from(&object.metadata));
    keep(&object.metadata, cluster, info)
}

/// A claim.
#[must_use]
pub(super) fn claim(object: &PersistentVolumeClaim) -> Option<Item<ClaimInfo>> {
    let meta = &object.metadata;
    let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
    let requests = |object: &PersistentVolumeClaim| object.spec.as_ref()?.resources.as_ref()?.requests.clone();
    let info = ClaimInfo {
        owners: meta.owner_references.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        uid: meta.uid.clone()?,
        retained: meta
            .labels
            .as_ref()
            .is_some_and(|labels| labels.get(crds::labels::RETAINED).is_some_and(|value| value == "true")),
        volume: object.spec.as_ref().and_then(|spec| spec.volume_name.clone()),
        lost: phase == Some("Lost"),
        bytes: requests(object)
            .and_then(|requests| requests.get("storage").map(validate::bytes))
            .unwrap_or(0),
    };
    keep(meta, cluster_of(meta), info)
}

/// Of the accounts of who manages which fields only ours is of interest.
fn keep_our_account(metadata: &mut ObjectMeta) {
    if let Some(managed) = &mut metadata.managed_fields {
        managed.retain(super::compare::is_ours);
    }
}

/// A Service.
#[must_use]
pub(super) fn service(mut object: Service) -> Option<Item<Service>> {
    keep_our_account(&mut object.metadata);
    object.status = None;
    let meta = object.metadata.clone();
    keep(&meta, cluster_of(&meta), object)
}

/// A budget. Its status changes with every Pod and is not kept.
#[must_use]
pub(super) fn budget(mut object: PodDisruptionBudget) -> Option<Item<PodDisruptionBudget>> {
    keep_our_account(&mut object.metadata);
    object.status = None;
    let meta = object.metadata.clone();
    keep(&meta, cluster_of(&meta), object)
}

/// The names of an `EndpointSlice`, which carries the labels of its Service.
#[must_use]
pub(super) fn names(object: EndpointSlice) -> Option<Item<Names>> {
    let mut names = Names::default();
    for endpoint in object.endpoints {
        if let Some(host) = endpoint.hostname {
            names.hosts.entry(host).or_default().extend(endpoint.addresses);
        }
    }
    keep(&object.metadata, cluster_of(&object.metadata), names)
}
