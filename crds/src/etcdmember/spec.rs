//! What the operator wants of one member: all that its Pod is built from.

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, TopologySpreadConstraint};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::EtcdMemberStatus;
use crate::common::{AdditionalMetadata, AgentSpec, EtcdOptions, LocalObjectReference, Restore, Scheduling, Storage};
use crate::serde_help::is_default;

/// One wanted member. Made by the operator from the cluster's spec.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "etcd-operator.cozystack.io",
    version = "v1alpha2",
    kind = "EtcdMember",
    namespaced,
    status = "EtcdMemberStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One member of an etcd cluster. The operator makes, changes and deletes it; deleting one by hand is refused.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Running", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Role", type_ = "string", json_path = ".status.role"),
    printcolumn(name = "Data", type_ = "string", json_path = ".status.dataDirectory.state"),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.memberID", priority = 1),
    validation = Rule::new("has(self.spec)").message("spec is required"),
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMemberSpec {
    /// Name of the `EtcdCluster` it belongs to.
    #[schemars(length(min = 1))]
    pub cluster_name: String,

    /// Version of etcd that it should run.
    #[schemars(regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: String,

    /// Its volume.
    #[x_kube(
        validation = Rule::new("self.medium == oldSelf.medium").message("medium cannot be changed").field_path(".medium"),
        validation = Rule::new("quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0")
            .message("size can grow and not shrink").field_path(".size"),
    )]
    pub storage: Storage,

    /// CPU and memory of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Labels and annotations for its objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,

    /// Affinity of its Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Topology spread of its Pod.
    #[serde(default, skip_serializing_if = "is_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,

    /// Tunables of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<EtcdOptions>,

    /// Secrets of the namespace for pulling images.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image_pull_secrets: Vec<LocalObjectReference>,

    /// It was made to be the first member of its cluster. Whether it may start as one is decided by
    /// `EtcdCluster.status.seed` alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bootstrap: bool,

    /// Members known when it was made, as `name=peerURL` separated by commas. For people only: the configuration of
    /// each start comes from etcd's own member list.
    pub initial_cluster: String,

    /// `initial-cluster-token` of its incarnation.
    pub cluster_token: String,

    /// Always 1; there for the scale subresource.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1))]
    pub replicas: i32,

    /// True while the cluster is paused: no Pod, the volume stays.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dormant: bool,

    /// TLS material of its Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<MemberTls>,

    /// The snapshot that it starts from, on the first member of a restored cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<Restore>,

    /// Its sidecar.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentSpec,

    /// Where its Pod may run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduling: Scheduling,
}

/// What the API server fills in; names, version, token and storage have to be given.
impl Default for EtcdMemberSpec {
    fn default() -> Self {
        Self {
            cluster_name: String::new(),
            version: String::new(),
            storage: Storage::default(),
            resources: None,
            additional_metadata: None,
            affinity: None,
            topology_spread_constraints: Vec::new(),
            options: None,
            image_pull_secrets: Vec::new(),
            bootstrap: false,
            initial_cluster: String::new(),
            cluster_token: String::new(),
            replicas: one(),
            dormant: false,
            tls: None,
            restore: None,
            agent: AgentSpec::default(),
            scheduling: Scheduling::default(),
        }
    }
}

fn one() -> i32 {
    1
}

/// TLS material of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberTls {
    /// Secret with `tls.crt`, `tls.key` and `ca.crt` for the client port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_server_secret_ref: Option<LocalObjectReference>,

    /// Every client must show a certificate.
    #[serde(default, rename = "clientMTLS", skip_serializing_if = "is_default")]
    pub client_mtls: bool,

    /// Secret with `tls.crt`, `tls.key` and `ca.crt` for the peer port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_secret_ref: Option<LocalObjectReference>,

    /// The peer port uses certificates that etcd signs itself.
    #[serde(default, rename = "peerAutoTLS", skip_serializing_if = "is_default")]
    pub peer_auto_tls: bool,
}
