//! etcd's configuration file. Pure.
//!
//! Given a file, etcd ignores flags and environment, and it silently ignores keys it does not know: so every key here
//! is proven on real etcds (`tests/serve_config.rs`). Where the file has no `initial-cluster*` and no
//! `force-new-cluster`, a start changes no history and may be repeated.

use std::fmt::{Display, Write as _};
use std::net::IpAddr;
use std::path::Path;

use proto::pod;
use serde::Serialize;

use super::directive::{FirstStart, Options};
use super::standing::StartKind;

/// Learners that may be there at once, from etcd 3.6 on; etcd's own default of 1 makes joiners wait for each other.
pub const MAX_LEARNERS: u32 = 8;

/// What the Pod gives.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// etcd's member name.
    pub name: &'a str,
    /// etcd's data-dir.
    pub data_dir: &'a Path,
    /// All addresses of the Pod's families: `0.0.0.0` or `::`.
    pub listen: IpAddr,
    /// `initial-advertise-peer-urls`.
    pub peer_url: &'a str,
    /// `advertise-client-urls`.
    pub client_url: &'a str,
}

/// Major and minor version of etcd, as far as it decides about keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor(pub u32, pub u32);

impl Minor {
    /// From a version such as "3.6.16"; `None` when it is none.
    #[must_use]
    pub fn of(version: &str) -> Option<Self> {
        let mut parts = version.split('.');
        Some(Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

/// The file of a start that may be repeated.
#[must_use]
pub fn repeatable(member: Member<'_>, minor: Minor, options: &Options) -> String {
    let mut file = File::default();
    common(&mut file, member, minor, options);
    file.0
}

/// The file of a first start.
#[must_use]
pub fn once(member: Member<'_>, minor: Minor, kind: StartKind, first: &FirstStart) -> String {
    let mut file = File::default();
    common(&mut file, member, minor, &first.options);
    let peers = first
        .members
        .iter()
        .flat_map(|peer| peer.urls.iter().map(move |url| format!("{}={url}", peer.name)));
    file.put("initial-cluster", peers.collect::<Vec<_>>().join(","));
    file.put(
        "initial-cluster-state",
        match kind {
            StartKind::Seed => "new",
            StartKind::Join => "existing",
        },
    );
    file.put("initial-cluster-token", &first.token);
    file.0
}

fn common(file: &mut File, member: Member<'_>, minor: Minor, options: &Options) {
    file.put("name", member.name);
    file.put("data-dir", member.data_dir.to_string_lossy());
    file.put("listen-client-urls", url(member.listen, pod::CLIENT_PORT));
    file.put("listen-peer-urls", url(member.listen, pod::PEER_PORT));
    file.put("listen-metrics-urls", url(member.listen, pod::METRICS_PORT));
    file.put("advertise-client-urls", member.client_url);
    // Not part of the history: etcd asks for it at each start, and takes its localhost default otherwise.
    file.put("initial-advertise-peer-urls", member.peer_url);
    // etcd's "default" goes to the journal when it believes to run under systemd.
    file.put("log-outputs", ["stderr"]);
    if minor >= Minor(3, 6) {
        file.put("max-learners", MAX_LEARNERS);
    }
    let Options {
        quota_backend_bytes,
        auto_compaction_mode,
        auto_compaction_retention,
        snapshot_count,
    } = options;
    file.put_some("quota-backend-bytes", quota_backend_bytes.as_ref());
    file.put_some("auto-compaction-mode", auto_compaction_mode.as_ref());
    file.put_some("auto-compaction-retention", auto_compaction_retention.as_ref());
    file.put_some("snapshot-count", snapshot_count.as_ref());
}

fn url(address: IpAddr, port: u16) -> String {
    format!("http://{}", std::net::SocketAddr::new(address, port))
}

/// Lines of `key: value`, the value as JSON, which is YAML too: so no text can be taken for anything else.
#[derive(Debug, Default)]
struct File(String);

impl File {
    fn put(&mut self, key: impl Display, value: impl Serialize) {
        // Neither can fail for texts, numbers and lists of them written to a String.
        if let Ok(value) = serde_json::to_string(&value) {
            let _ = writeln!(self.0, "{key}: {value}");
        }
    }

    fn put_some<T: Serialize>(&mut self, key: &str, value: Option<&T>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }
}

#[cfg(test)]
#[path = "etcd_config_tests.rs"]
mod tests;
