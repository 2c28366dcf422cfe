//! What flags and environment say.

/// The operator's settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Namespace that the operator runs in: its Lease and the Secret of the agents' CA are there.
    pub namespace: String,
    /// Only this namespace is watched; `None`: all.
    pub watch_namespace: Option<String>,
    /// Domain of the Kubernetes cluster, such as `cluster.local`.
    pub cluster_domain: String,
    /// Image of the agent.
    pub agent_image: String,
    /// Repository of etcd's image when the cluster names none.
    pub etcd_image_repository: String,
}
