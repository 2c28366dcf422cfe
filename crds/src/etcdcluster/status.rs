//! What was last observed of a cluster.

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::EtcdClusterSpec;
use crate::common::{
    AdditionalMetadata, AgentSpec, EtcdOptions, LocalObjectReference, MemberRole, Scheduling, Storage,
};
use crate::etcdmember::DataDirectoryState;
use crate::serde_help::{is_default, without_default};

/// What was last observed of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterStatus {
    /// The state in one line: is it well, and if not, why.
    #[serde(default, skip_serializing_if = "is_default")]
    pub summary: String,

    /// `metadata.generation` that this status was made from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,

    /// Members that vote and serve.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub ready_members: i32,

    /// Members that cannot come back without being repaired.
    #[serde(default, skip_serializing_if = "is_default")]
    pub broken_members: i32,

    /// Selector of the member Pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "is_default")]
    pub selector: String,

    /// etcd's cluster ID, 16 hex digits. Absent until the cluster has formed.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// `initial-cluster-token` of the members, set once for each incarnation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_token: Option<String>,

    /// Starts at 1 and rises when the history of the cluster is cut by a recovery: from the second on it is part of
    /// the token, and cluster ID and member IDs are new with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<i64>,

    /// The member that was given `initial-cluster-state: new` in this incarnation. Recorded before the order is sent
    /// and given at most once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<ClusterSeed>,

    /// etcd's authentication is on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub auth_enabled: bool,

    /// The target that is being worked on. A newer spec is taken up at the next step between two membership changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedCluster>,

    /// When `Progressing` turns false if there is no progress until then. Absent while nothing is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<Time>,

    /// The voters, and how many of them are needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<QuorumSummary>,

    /// One line for each member.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub members: Vec<MemberSummary>,

    /// The newest snapshot that is verified or at least complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_snapshot: Option<LastSnapshot>,

    /// `Available`, `Progressing`, `Degraded`, and others when they apply.
    #[serde(default, skip_serializing_if = "is_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// One directory of one member: the only one that may ever start as `new` in an incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSeed {
    /// Name of the member.
    pub member: String,

    /// Nonce of its data directory.
    pub nonce: String,
}

/// The fields of the spec that are being worked on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedCluster {
    /// Target number of members.
    pub replicas: i32,

    /// Target version of etcd.
    pub version: String,

    /// Target storage.
    pub storage: Storage,

    /// Target CPU and memory of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Target affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Target topology spread.
    #[serde(default, skip_serializing_if = "is_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,

    /// Target additional labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,

    /// Target tunables of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<EtcdOptions>,

    /// Target pull secrets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image_pull_secrets: Vec<LocalObjectReference>,

    /// Target sidecar.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentSpec,

    /// Target scheduling.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduling: Scheduling,
}

impl From<&EtcdClusterSpec> for ObservedCluster {
    fn from(spec: &EtcdClusterSpec) -> Self {
        Self {
            replicas: spec.replicas,
            version: spec.version.clone(),
            storage: spec.storage.clone(),
            resources: spec.resources.clone(),
            affinity: spec.affinity.clone(),
            topology_spread_constraints: spec.topology_spread_constraints.clone(),
            additional_metadata: spec.additional_metadata.clone(),
            options: spec.options.clone(),
            image_pull_secrets: spec.image_pull_secrets.clone(),
            agent: spec.agent.clone(),
            scheduling: spec.scheduling.clone(),
        }
    }
}

/// The voters of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuorumSummary {
    /// Voters in etcd's member list.
    pub voters: i32,

    /// Voters that were last seen healthy.
    pub healthy: i32,

    /// Healthy voters that a quorum needs.
    pub needed: i32,
}

/// What a member is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberState {
    /// Its Pod does not run yet.
    Pending,
    /// Its agent runs and etcd waits to be allowed to start.
    Held,
    /// etcd runs and does not serve yet.
    Starting,
    /// etcd serves.
    Running,
    /// etcd ended and is due to start again.
    Stopped,
    /// etcd is kept from running by a fence.
    Fenced,
    /// It has no Pod on purpose: the cluster is paused.
    Dormant,
    /// Nothing is known of it at the moment.
    #[default]
    #[serde(other)]
    Unknown,
}

/// One member in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberSummary {
    /// Name of the member, its Pod and its host.
    pub name: String,

    /// etcd's member ID, 16 hex digits. Absent until it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// `Leader`, `Follower`, `Learner` or `None`.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub role: MemberRole,

    /// `Pending`, `Held`, `Starting`, `Running`, `Stopped`, `Fenced`, `Dormant` or `Unknown`.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub state: MemberState,

    /// Version of the running etcd process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Node of its Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,

    /// Size of the database in bytes, in coarse steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_size: Option<i64>,

    /// State of the data directory; the member's own status says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub data_directory: Option<DataDirectoryState>,

    /// Version of its agent; absent when the Pod has none or the link is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// A snapshot of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastSnapshot {
    /// Name of the `EtcdSnapshot`.
    pub name: String,

    /// When it was complete.
    pub time: Time,

    /// Where it is.
    pub uri: String,

    /// Revision of the data in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}
