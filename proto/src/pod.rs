//! What the Pod gives to the agent: ports, paths and environment. The operator's Pod builder writes them, the agent
//! reads them.

/// etcd's client port.
pub const CLIENT_PORT: u16 = 2379;
/// etcd's peer port.
pub const PEER_PORT: u16 = 2380;
/// etcd's metrics and health, plain HTTP.
pub const METRICS_PORT: u16 = 2381;
/// The agent's read-only HTTP.
pub const AGENT_HTTP_PORT: u16 = 2382;
/// The agent's mTLS gRPC.
pub const AGENT_GRPC_PORT: u16 = 2383;

/// Where the data volume is mounted, in the etcd container and in the agent's.
pub const DATA_VOLUME: &str = "/var/lib/etcd";
/// The agent's folder on the data volume, beside etcd's `member/`.
pub const AGENT_FOLDER: &str = "etcd-agent";
/// Where the volume shared by agent and supervisor is mounted (an emptyDir): socket, binary, etcd's configuration.
pub const RUN_VOLUME: &str = "/run/etcd-agent";
/// The binary in the run volume, put there by `install`.
pub const BINARY: &str = "/run/etcd-agent/etcd-agent";
/// The socket in the run volume.
pub const SOCKET: &str = "/run/etcd-agent/agent.sock";
/// Where the Secret `<m>-agent-tls` is mounted in the agent's container: `tls.crt`, `tls.key`, `ca.crt`.
pub const AGENT_TLS: &str = "/etc/etcd-agent/tls";

/// Environment of the agent's container (the supervisor's has [`env::DATA_SUBPATH`] only).
pub mod env {
    /// Name of the `EtcdMember` object, of the Pod, and of the member in etcd.
    pub const MEMBER: &str = "ETCD_AGENT_MEMBER";
    /// Namespace of the Pod.
    pub const NAMESPACE: &str = "ETCD_AGENT_NAMESPACE";
    /// Name of the `EtcdCluster` object.
    pub const CLUSTER: &str = "ETCD_AGENT_CLUSTER";
    /// UID of the `EtcdCluster` object.
    pub const CLUSTER_UID: &str = "ETCD_AGENT_CLUSTER_UID";
    /// `initial-advertise-peer-urls`, one URL.
    pub const PEER_URL: &str = "ETCD_AGENT_PEER_URL";
    /// `advertise-client-urls`, one URL.
    pub const CLIENT_URL: &str = "ETCD_AGENT_CLIENT_URL";
    /// `Disk` or `Memory`.
    pub const STORAGE_MEDIUM: &str = "ETCD_AGENT_STORAGE_MEDIUM";
    /// One safe path component under the data volume that is etcd's data-dir; absent: the volume's root.
    pub const DATA_SUBPATH: &str = "ETCD_AGENT_DATA_SUBPATH";
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub const LOG: &str = "ETCD_AGENT_LOG";
}
