//! `EtcdCluster`: an etcd cluster that a person asks for.

mod auth;
mod bootstrap;
mod recovery;
mod service;
mod spec;
mod status;
mod tls;

pub use auth::AuthSpec;
pub use bootstrap::BootstrapSpec;
pub use recovery::{AutomaticRestore, QuorumLossPolicy, RecoverySpec, RolloutSpec};
pub use service::{ClientServiceTemplate, ClientServiceType, ServiceTemplates};
pub use spec::{EtcdCluster, EtcdClusterSpec};
pub use status::{
    ClusterSeed, EtcdClusterStatus, LastSnapshot, MemberState, MemberSummary, ObservedCluster, QuorumSummary,
};
pub use tls::{ClientCertManager, ClientTls, ClusterTls, PeerCertManager, PeerTls};
