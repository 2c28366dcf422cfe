//! What a person asks for.

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, TopologySpreadConstraint};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::auth::AuthSpec;
use super::bootstrap::BootstrapSpec;
use super::recovery::{RecoverySpec, RolloutSpec};
use super::service::ServiceTemplates;
use super::status::EtcdClusterStatus;
use super::tls::ClusterTls;
use crate::common::{AdditionalMetadata, AgentSpec, EtcdOptions, LocalObjectReference, Scheduling, Storage};
use crate::serde_help::is_default;

/// The etcd cluster that is wanted.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "etcd-operator.cozystack.io",
    version = "v1alpha2",
    kind = "EtcdCluster",
    namespaced,
    status = "EtcdClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "An etcd cluster: its members, their storage, their Services, and how they are looked after.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.readyMembers",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyMembers"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.summary"),
    validation = Rule::new("has(self.spec)").message("spec is required: give at least spec.version"),
    validation = Rule::new("oldSelf.hasValue() || size(self.metadata.name) <= 56")
        .optional_old_self(true)
        .message("the name may have 56 characters at most: the Service <name>-client must fit into 63"),
    validation = Rule::new("oldSelf.hasValue() || self.metadata.name.matches('^[a-z][-a-z0-9]*$')")
        .optional_old_self(true)
        .message("the name must start with a letter and hold no dot: Services are named after it"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(self.storage.medium == 'Memory' && self.replicas == 0)")
        .message("a cluster in memory cannot be paused: replicas 0 would lose its data; delete it instead")
        .field_path(".replicas"),
    validation = Rule::new("!(self.storage.medium == 'Memory' && has(self.bootstrap) && has(self.bootstrap.restore))")
        .message("a cluster in memory cannot start from a snapshot")
        .field_path(".bootstrap"),
    validation = Rule::new("has(self.tls) == has(oldSelf.tls) && (!has(self.tls) || self.tls == oldSelf.tls)")
        .message("tls cannot be added, removed or changed: make a new cluster and move the data by a snapshot")
        .field_path(".tls"),
    validation = Rule::new("has(self.auth) == has(oldSelf.auth) && (!has(self.auth) || self.auth == oldSelf.auth)")
        .message("auth cannot be added, removed or changed: make a new cluster and move the data by a snapshot")
        .field_path(".auth"),
    validation = Rule::new("has(self.bootstrap) == has(oldSelf.bootstrap) && (!has(self.bootstrap) || self.bootstrap == oldSelf.bootstrap)")
        .message("bootstrap is read once, when the cluster forms, and cannot be changed: make a new cluster")
        .field_path(".bootstrap"),
    validation = Rule::new("!(has(self.auth) && has(self.auth.enabled) && self.auth.enabled) || (has(self.tls) && has(self.tls.client))")
        .message("auth needs tls.client: passwords may not cross a plain connection")
        .field_path(".auth"),
    validation = Rule::new("!(has(self.auth) && has(self.auth.enabled) && self.auth.enabled) || has(self.auth.rootCredentialsSecretRef)")
        .message("auth needs rootCredentialsSecretRef: a Secret with the key password")
        .field_path(".auth"),
)]
pub struct EtcdClusterSpec {
    /// Wanted number of members. An odd number: an even one bears no more lost members and costs one more. 0 stops
    /// every member and keeps all volumes and member IDs; the cluster comes back as it was.
    #[serde(default = "three")]
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// Version of etcd, such as `3.6.11`: 3.5.0 or later. A change is rolled out one member at a time, one minor
    /// version at a time. The image is `<repository>:v<version>`.
    #[schemars(regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: String,

    /// The volume of each member.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self.medium != 'Memory' || quantity(string(self.size)).isGreaterThan(quantity('0'))")
            .message("the size of a memory volume must be above 0").field_path(".size"),
        validation = Rule::new("self.medium == oldSelf.medium")
            .message("medium cannot be changed: make a new cluster and move the data by a snapshot").field_path(".medium"),
        validation = Rule::new("quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0")
            .message("size can grow and not shrink").field_path(".size"),
        validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)")
            .message("storageClassName cannot be added, removed or changed"),
    )]
    pub storage: Storage,

    /// Seconds without progress towards the wanted state after which `Progressing` turns false with reason
    /// `DeadlineExceeded`. It turns back by itself once there is progress.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 1))]
    pub progress_deadline_seconds: i32,

    /// TLS of the client and peer ports. Absent: plain HTTP on both. It cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClusterTls>,

    /// Users and passwords of etcd. Absent: none. It cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,

    /// What the cluster starts from. Absent: empty. It cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapSpec>,

    /// CPU and memory of etcd in each member. Absent or empty: 100m CPU and 128Mi memory requested, no limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Labels and annotations for every object of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,

    /// Affinity of the member Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// How the member Pods spread over nodes and zones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,

    /// Tunables of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<EtcdOptions>,

    /// Secrets of the namespace for pulling images.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image_pull_secrets: Vec<LocalObjectReference>,

    /// The sidecar of each member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentSpec,

    /// Where member Pods may run, beside `affinity` and `topologySpreadConstraints`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduling: Scheduling,

    /// What happens when members or the quorum are lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recovery: RecoverySpec,

    /// When changes of a running cluster are carried out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rollout: RolloutSpec,

    /// Shapes of the Services that clients use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service_template: ServiceTemplates,
}

/// What the API server fills in; only the version has no default.
impl Default for EtcdClusterSpec {
    fn default() -> Self {
        Self {
            replicas: three(),
            version: String::new(),
            storage: Storage::default(),
            progress_deadline_seconds: ten_minutes(),
            tls: None,
            auth: None,
            bootstrap: None,
            resources: None,
            additional_metadata: None,
            affinity: None,
            topology_spread_constraints: Vec::new(),
            options: None,
            image_pull_secrets: Vec::new(),
            agent: AgentSpec::default(),
            scheduling: Scheduling::default(),
            recovery: RecoverySpec::default(),
            rollout: RolloutSpec::default(),
            service_template: ServiceTemplates::default(),
        }
    }
}

fn three() -> i32 {
    3
}

fn ten_minutes() -> i32 {
    600
}
