//! Whom a link is for, and where it leads.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// An `EtcdCluster` object by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// An `EtcdMember` object by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Where a link leads, and who must answer there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the member's cluster, in the member's namespace.
    pub cluster: String,
    /// UID of that `EtcdCluster` object: part of the name in the agent's certificate.
    pub cluster_uid: String,
    /// UID of the member's Pod: another Pod is another link, even at the same address.
    pub pod_uid: String,
    /// Address of the Pod.
    pub pod_ip: IpAddr,
    /// The agent's port. Simulations put many agents on one address; in a Pod it is always
    /// [`proto::pod::AGENT_GRPC_PORT`].
    pub port: u16,
}

impl Target {
    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.pod_ip, self.port)
    }
}
