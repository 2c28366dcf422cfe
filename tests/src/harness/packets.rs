//! A port of a Pod that answers nobody, as behind a `NetworkPolicy` that forbids it.

use std::process::Command;

use anyhow::{Context, Result};

use super::{Process, stage::run};

/// Packets to a port of one Pod are dropped, those of open connections too, until this is dropped.
#[derive(Debug)]
pub struct Blocked {
    network: String,
    port: u16,
}

impl Blocked {
    /// Blocks it.
    pub fn new(process: Process, port: u16) -> Result<Self> {
        let blocked = Self {
            network: process.network(),
            port,
        };
        blocked.rule("-I").context("cannot block the port; install iptables")?;
        Ok(blocked)
    }

    fn rule(&self, action: &str) -> Result<String> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.network));
        command.args([
            "--",
            "iptables",
            "-w",
            action,
            "INPUT",
            "-p",
            "tcp",
            "--dport",
            &self.port.to_string(),
            "-j",
            "DROP",
        ]);
        run(command, None)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // The rule goes with the Pod's namespace in any case.
        let _ = self.rule("-D");
    }
}
