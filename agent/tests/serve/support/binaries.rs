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

/// The newest etcd of this minor.
pub fn etcd(minor: &str) -> PathBuf {
    etcd::testing::binaries(minor).unwrap().join("etcd")
}
