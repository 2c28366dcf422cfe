//! Names and addresses that several objects must agree on.

use crds::{EtcdMember, annotations};
use kube::ResourceExt;
use proto::pod::{CLIENT_PORT, PEER_PORT};

/// Name of the Secret with the serving certificate of the agent of `member`. It exists before the Pod.
#[must_use]
pub fn agent_secret_name(member: &str) -> String {
    format!("{member}-agent-tls")
}

/// Name of the headless Service that the member's peer URL is made of: written on the member when it was made, so
/// that a running member keeps its address for ever.
#[must_use]
pub fn headless_service_of(member: &EtcdMember) -> &str {
    member
        .annotations()
        .get(annotations::HEADLESS_SERVICE_NAME)
        .filter(|name| !name.is_empty())
        .unwrap_or(&member.spec.cluster_name)
}

/// `initial-advertise-peer-urls` of a member.
#[must_use]
pub fn peer_url(member: &str, headless_service: &str, namespace: &str) -> String {
    format!("http://{member}.{headless_service}.{namespace}.svc:{PEER_PORT}")
}

/// `advertise-client-urls` of a member.
#[must_use]
pub fn client_url(member: &str, headless_service: &str, namespace: &str) -> String {
    format!("http://{member}.{headless_service}.{namespace}.svc:{CLIENT_PORT}")
}
