//! Objects that the builders' tests start from.

use crds::{EtcdCluster, EtcdMember, names::ClusterName};

/// A cluster with a name of its own.
pub(super) fn cluster() -> (EtcdCluster, ClusterName) {
    let cluster = from(serde_json::json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
        "kind": "EtcdCluster",
        "metadata": {"name": "demo", "namespace": "ns", "uid": "uid-cluster"},
        "spec": {"replicas": 3, "version": "3.6.16", "storage": {"size": "1Gi"}},
    }));
    (cluster, ClusterName::new("demo").unwrap())
}

/// A member with nothing but what it needs, in memory.
pub(super) fn memory_member() -> EtcdMember {
    from(serde_json::json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
        "kind": "EtcdMember",
        "metadata": {
            "name": "demo-abcde", "namespace": "ns", "uid": "uid-member",
            "annotations": {"etcd-operator.cozystack.io/headless-service-name": "demo"},
        },
        "spec": {
            "clusterName": "demo", "version": "3.6.16", "storage": {"size": "1Gi", "medium": "Memory"},
            "initialCluster": "", "clusterToken": "ns-demo-uid-cluster",
        },
    }))
}

/// A member with every field that its objects are built from.
pub(super) fn full_member() -> EtcdMember {
    from(serde_json::json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
        "kind": "EtcdMember",
        "metadata": {
            "name": "demo-abcde", "namespace": "ns", "uid": "uid-member",
            "annotations": {
                "etcd-operator.cozystack.io/headless-service-name": "old-peers",
                "etcd-operator.cozystack.io/data-dir-subpath": "etcd",
            },
        },
        "spec": {
            "clusterName": "demo", "version": "3.6.16",
            "storage": {"size": "10Gi", "storageClassName": "fast"},
            "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
            "additionalMetadata": {
                "labels": {"team": "a", "etcd-operator.cozystack.io/role": "voter"},
                "annotations": {"note": "b"},
            },
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname",
                 "labelSelector": {"matchLabels": {"etcd-operator.cozystack.io/cluster": "demo"}}},
            ]}},
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
            ],
            "options": {"quotaBackendBytes": 1},
            "imagePullSecrets": [{"name": "registry"}],
            "initialCluster": "", "clusterToken": "ns-demo-uid-cluster",
            "agent": {"resources": {"limits": {"memory": "64Mi"}}, "logLevel": "debug"},
            "scheduling": {
                "tolerations": [{"key": "etcd", "operator": "Exists"}],
                "nodeSelector": {"disk": "nvme"},
                "priorityClassName": "high",
                "runtimeClassName": "kata",
                "schedulerName": "other",
            },
        },
    }))
}

fn from<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}
