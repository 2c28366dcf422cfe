//! Where the programs are.

use std::path::PathBuf;

/// The agent: `ETCD_AGENT_BIN` (to try the shipped one), else as cargo has built it for this test.
pub fn agent() -> PathBuf {
    std::env::var_os("ETCD_AGENT_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_etcd-agent")), PathBuf::from)
}

/// Is the agent an optimised one, to which the budgets apply?
pub fn agent_is_optimised() -> bool {
    std::env::var_os("ETCD_AGENT_BIN").is_some() || !cfg!(debug_assertions)
}

/// The newest etcd of this minor: from `ETCD_BIN_DIR`, else from the cache of the local Kubernetes (`make kube-up`).
/// Layout: `etcd-<version>…/etcd`.
pub fn etcd(minor: &str) -> PathBuf {
    let root = std::env::var_os("ETCD_BIN_DIR").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache/etcd-operator"),
        PathBuf::from,
    );
    let prefix = format!("etcd-{minor}.");
    let patch = |name: &str| -> Option<u32> {
        let rest = name.strip_prefix(&prefix)?;
        rest.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
    };
    let entries = std::fs::read_dir(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let binary = entry.path().join("etcd");
            Some((patch(entry.file_name().to_str()?)?, binary)).filter(|(_, binary)| binary.is_file())
        })
        .collect();
    found.sort();
    let (_, newest) = found.pop().unwrap_or_else(|| {
        panic!(
            "no etcd {minor} under {}: `make kube-up` builds it, or set ETCD_BIN_DIR",
            root.display()
        )
    });
    newest
}
