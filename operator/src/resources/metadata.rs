//! Labels, annotations and owners.

use std::collections::BTreeMap;

use crds::{AdditionalMetadata, EtcdCluster, EtcdMember, GROUP, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

type Map = BTreeMap<String, String>;

/// The labels of every object of a cluster.
#[must_use]
pub fn cluster_labels(cluster: &str) -> Map {
    [
        (labels::NAME, labels::NAME_VALUE),
        (labels::INSTANCE, cluster),
        (labels::MANAGED_BY, labels::MANAGED_BY_VALUE),
        (labels::CLUSTER, cluster),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// The labels of every object of one member.
#[must_use]
pub fn member_labels(cluster: &str, member: &str) -> Map {
    let mut all = cluster_labels(cluster);
    all.insert(labels::COMPONENT.into(), member.into());
    all
}

/// The reference to a cluster that owns an object. `None` only for an object that no API server has seen.
#[must_use]
pub fn owner(cluster: &EtcdCluster) -> Option<OwnerReference> {
    cluster.controller_owner_ref(&())
}

/// The reference to a member that owns an object.
#[must_use]
pub fn member_owner(member: &EtcdMember) -> Option<OwnerReference> {
    member.controller_owner_ref(&())
}

/// Metadata of an object: what a person adds comes first, what we need wins, and keys under our own prefix are
/// nobody else's to set.
pub(super) fn metadata(
    name: String,
    namespace: Option<String>,
    own_labels: Map,
    own_annotations: Map,
    additional: Option<&AdditionalMetadata>,
    owner: Option<OwnerReference>,
) -> ObjectMeta {
    let (labels, annotations) = match additional {
        Some(AdditionalMetadata { labels, annotations }) => {
            (merge(labels, own_labels), merge(annotations, own_annotations))
        }
        None => (own_labels, own_annotations),
    };
    ObjectMeta {
        name: Some(name),
        namespace,
        labels: Some(labels),
        annotations: Some(annotations).filter(|all| !all.is_empty()),
        owner_references: owner.map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// Metadata of an object that belongs to the cluster as a whole.
pub(super) fn of_cluster(cluster: &EtcdCluster, name: String) -> ObjectMeta {
    metadata(
        name,
        cluster.namespace(),
        cluster_labels(&cluster.name_any()),
        Map::new(),
        cluster.spec.additional_metadata.as_ref(),
        owner(cluster),
    )
}

/// Metadata of an object that belongs to one member.
pub(super) fn of_member(member: &EtcdMember, name: String, annotations: Map) -> ObjectMeta {
    metadata(
        name,
        member.namespace(),
        member_labels(&member.spec.cluster_name, &member.name_any()),
        annotations,
        member.spec.additional_metadata.as_ref(),
        member_owner(member),
    )
}

pub(super) fn merge(theirs: &Map, ours: Map) -> Map {
    let mut all: Map = theirs
        .iter()
        .filter(|(key, _)| key.split('/').next() != Some(GROUP))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    all.extend(ours);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_can_neither_change_our_keys_nor_set_one_under_our_prefix() {
        let map =
            |pairs: &[(&str, &str)]| -> Map { pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect() };
        let theirs = map(&[
            ("team", "a"),
            ("app.kubernetes.io/name", "mine"),
            ("etcd-operator.cozystack.io/role", "voter"),
            ("etcd-operator.cozystack.io", "kept: a key without a prefix"),
        ]);
        let merged = merge(&theirs, cluster_labels("c"));
        assert_eq!(merged.get("team").map(String::as_str), Some("a"));
        assert_eq!(merged["app.kubernetes.io/name"], "etcd");
        assert!(!merged.contains_key("etcd-operator.cozystack.io/role"));
    }
}
