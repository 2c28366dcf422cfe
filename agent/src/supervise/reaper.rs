//! Takes in every process that ends below us. PID 1 inherits orphans, and after an `execve` etcd is a child that this
//! program has not started, so ends are collected by process ID and not by handles.

use std::io;

use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::End;

/// Collects the ends of our children.
#[derive(Debug)]
pub struct Reaper {
    child: Signal,
}

impl Reaper {
    /// From now on no end is missed.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
        })
    }

    /// Returns after something has ended. Cancel-safe.
    pub async fn wait(&mut self) {
        self.child.recv().await;
    }

    /// All that has ended and was not collected yet. Also to be called once at the start: a signal that came before it
    /// is not repeated.
    #[must_use]
    pub fn collect() -> Vec<(i32, End)> {
        let mut ends = Vec::new();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let end = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => End::Code(code),
                (None, Some(signal)) => End::Signal(signal),
                (None, None) => continue,
            };
            ends.push((pid.as_raw_nonzero().get(), end));
        }
        ends
    }
}
