//! Arguments and what the Pod gives in the environment.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use proto::agent as wire;
use proto::pod::{self, env};

use super::directive::Own;
use super::directory::Expected;
use super::etcd_config::Member;
use crate::cli::Paths;

/// Arguments of `serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) paths: Paths,
    /// Where `tls.crt`, `tls.key` and `ca.crt` of the link to the operator are mounted.
    #[arg(long, default_value = pod::AGENT_TLS)]
    pub(super) tls: PathBuf,
    /// Name of the member.
    #[arg(long, env = env::MEMBER)]
    pub(super) member: String,
    /// Namespace of the Pod.
    #[arg(long, env = env::NAMESPACE)]
    pub(super) namespace: String,
    /// Name of the `EtcdCluster` object.
    #[arg(long, env = env::CLUSTER)]
    pub(super) cluster: String,
    /// UID of the `EtcdCluster` object.
    #[arg(long, env = env::CLUSTER_UID)]
    pub(super) cluster_uid: String,
    /// URL at which etcd's peers find it.
    #[arg(long, env = env::PEER_URL)]
    pub(super) peer_url: String,
    /// URL at which clients find it.
    #[arg(long, env = env::CLIENT_URL)]
    pub(super) client_url: String,
    /// What the data volume is made of.
    #[arg(long, env = env::STORAGE_MEDIUM, ignore_case = true)]
    pub(super) storage_medium: Medium,
    /// Which messages are logged: error, warn, info, debug or trace.
    #[arg(long, env = env::LOG, default_value = "info")]
    pub(super) log: tracing::level_filters::LevelFilter,
}

/// What the data volume is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Medium {
    /// A `PersistentVolume`: a rejected directory is kept.
    Disk,
    /// A tmpfs: what is kept costs memory, so a rejected directory is deleted.
    Memory,
}

impl Args {
    /// Who the agent speaks for.
    #[must_use]
    pub fn member_ref(&self) -> wire::MemberRef {
        wire::MemberRef {
            name: self.member.clone(),
            namespace: self.namespace.clone(),
            cluster_name: self.cluster.clone(),
            cluster_uid: self.cluster_uid.clone(),
        }
    }

    /// For whom a directive must be.
    #[must_use]
    pub fn own(&self) -> Own<'_> {
        Own {
            member: &self.member,
            cluster_uid: &self.cluster_uid,
            peer_url: &self.peer_url,
        }
    }

    /// What etcd's configuration says of this member.
    #[must_use]
    pub fn etcd_member<'a>(&'a self, data_dir: &'a Path, listen: IpAddr) -> Member<'a> {
        Member {
            name: &self.member,
            data_dir,
            listen,
            peer_url: &self.peer_url,
            client_url: &self.client_url,
        }
    }

    /// For whom the directory must be.
    #[must_use]
    pub fn expected(&self, incarnation: u64) -> Expected<'_> {
        Expected {
            cluster_uid: &self.cluster_uid,
            member: &self.member,
            incarnation,
        }
    }
}

/// All addresses of the Pod's families. `::` takes IPv4 too; where the kernel has no IPv6 there is `0.0.0.0`.
#[must_use]
pub fn wildcard() -> IpAddr {
    match std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    }
}
