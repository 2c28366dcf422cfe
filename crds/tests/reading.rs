//! Objects that others wrote are read: by the Go operator, and by a newer version of this one.

#![allow(clippy::unwrap_used, reason = "a test that fails by unwrap says where")]

use crds::common::MemberRole;
use crds::etcdcluster::MemberState;
use crds::etcdmember::DataDirectoryState;
use crds::etcdsnapshot::SnapshotPhase;
use crds::{EtcdCluster, EtcdClusterSpec, EtcdMember, EtcdSnapshot, StorageMedium};
use serde_json::{Value, json};

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

#[test]
fn a_cluster_as_the_go_operator_leaves_it_is_read_and_written_back_the_same() {
    let object = json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
        "kind": "EtcdCluster",
        "metadata": {"name": "tenant", "namespace": "tenants", "uid": "9c5b"},
        "spec": {
            "replicas": 3,
            "version": "3.6.11",
            "storage": {"size": "1Gi", "medium": ""},
            "progressDeadlineSeconds": 600,
            "tls": {"client": {"serverSecretRef": {"name": "s"}}, "peer": {"secretRef": {"name": "p"}}},
            "options": {"quotaBackendBytes": 4_294_967_296_i64, "autoCompactionMode": "periodic", "autoCompactionRetention": "5m"},
            "resources": {},
            "imagePullSecrets": [{"name": "pull"}],
        },
        "status": {
            "readyMembers": 3,
            "selector": "etcd-operator.cozystack.io/cluster=tenant",
            "clusterID": "cdf818194e3a8c32",
            "clusterToken": "tenants-tenant-9c5b",
            "observed": {"replicas": 3, "version": "3.6.11", "storage": {"size": "1Gi", "medium": ""}, "resources": {}},
            "progressDeadline": "2026-01-01T00:00:00Z",
            "conditions": [{
                "type": "Available", "status": "True", "reason": "QuorumHealthy", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1
            }],
        },
    });
    let cluster: EtcdCluster = read(object.clone());
    assert_eq!(cluster.spec.storage.medium, StorageMedium::Disk);
    assert_eq!(serde_json::to_value(&cluster).unwrap(), object);
}

#[test]
fn a_member_as_the_go_operator_leaves_it_is_read_and_written_back_the_same() {
    let object = json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
        "kind": "EtcdMember",
        "metadata": {"name": "tenant-abcde", "finalizers": ["etcd-operator.cozystack.io/member-cleanup"]},
        "spec": {
            "clusterName": "tenant", "version": "3.6.11", "storage": {"size": "256Mi", "medium": "Memory"}, "resources": {},
            "bootstrap": true, "initialCluster": "tenant-abcde=http://tenant-abcde.tenant.tenants.svc:2380",
            "clusterToken": "tenants-tenant-9c5b", "replicas": 1, "tls": {"clientMTLS": true, "peerAutoTLS": true},
        },
        "status": {
            "memberID": "8e9e05c52164694d", "podName": "tenant-abcde", "podUID": "77aa", "isVoter": true, "replicas": 1,
            "selector": "app.kubernetes.io/component=tenant-abcde", "version": "3.6.11",
        },
    });
    let member: EtcdMember = read(object.clone());
    assert_eq!(serde_json::to_value(&member).unwrap(), object);
}

#[test]
fn words_of_a_newer_version_are_read_as_unknown_and_do_not_hide_the_object() {
    let cluster: EtcdCluster = read(json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
        "kind": "EtcdCluster",
        "metadata": {"name": "tenant"},
        "spec": {"version": "3.6.11", "fieldOfTheFuture": {"a": 1}},
        "status": {"members": [{"name": "m", "role": "Witness", "state": "Levitating", "dataDirectory": "Shiny"}]},
    }));
    let member = &cluster.status.unwrap().members[0];
    assert_eq!(member.role, MemberRole::None);
    assert_eq!(member.state, MemberState::Unknown);
    assert_eq!(member.data_directory, Some(DataDirectoryState::Unknown));

    let snapshot: EtcdSnapshot = read(json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
        "kind": "EtcdSnapshot",
        "metadata": {"name": "s"},
        "spec": {"clusterRef": {"name": "c"}, "destination": {"pvc": {"claimName": "p"}}},
        "status": {"phase": "Polished"},
    }));
    assert_eq!(snapshot.status.unwrap().phase, Some(SnapshotPhase::Pending));
}

#[test]
fn rust_and_the_api_server_fill_in_the_same_defaults() {
    let cluster: EtcdCluster = read(json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
        "kind": "EtcdCluster",
        "metadata": {"name": "tenant"},
        "spec": {"version": "3.6.11"},
    }));
    let spec = serde_json::to_value(&cluster.spec).unwrap();
    assert_eq!(
        spec,
        json!({
            "version": "3.6.11",
            "replicas": 3,
            "progressDeadlineSeconds": 600,
            "storage": {"size": "1Gi", "medium": ""},
        })
    );
    assert_eq!(
        cluster.spec,
        EtcdClusterSpec {
            version: "3.6.11".into(),
            ..EtcdClusterSpec::default()
        }
    );
    assert_eq!(cluster.spec.recovery.node_loss_seconds, 300);
}
