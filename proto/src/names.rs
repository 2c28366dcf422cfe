//! Names inside the certificates of the agent link.
//!
//! Both kinds are issued by the operator's own CA. An agent's certificate is for `serverAuth` only and its name holds
//! member and cluster UID; the operator's is for `clientAuth` only: one member's key can pose neither as the operator
//! nor as another member (scenario T06).

/// The DNS name in the operator's client certificate.
pub const OPERATOR: &str = "operator.etcd-operator.cozystack.io";

/// The DNS name in the serving certificate of the agent of `member` in the cluster object with `cluster_uid`.
///
/// ```
/// assert_eq!(
///     proto::names::agent("c-x7k2p", "6a1f"),
///     "c-x7k2p.6a1f.agent.etcd-operator.cozystack.io"
/// );
/// ```
#[must_use]
pub fn agent(member: &str, cluster_uid: &str) -> String {
    format!("{member}.{cluster_uid}.agent.etcd-operator.cozystack.io")
}
