//! A client that never stops writing, and remembers what was acknowledged.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use super::{Etcd, Stage};
use crate::kube::Place;

/// Where its keys are.
const PREFIX: &str = "writer/";

/// It writes through a Service: a broken connection leads to the next member that the Service knows.
pub struct Writer {
    stop: watch::Sender<bool>,
    task: JoinHandle<Written>,
}

/// What a writer has seen.
#[derive(Debug, Default)]
pub struct Written {
    /// Keys that etcd acknowledged.
    pub acknowledged: Vec<String>,
    /// Writes whose outcome is unknown.
    pub failed: usize,
    /// Longest time between two acknowledged writes.
    pub longest_gap: Duration,
}

impl Writer {
    /// Starts writing to a Service's address from a node.
    #[must_use]
    pub fn start(stage: Arc<Stage>, from: Place, service: SocketAddr) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(write(stage, from, service, stopped));
        Self { stop, task }
    }

    /// Stops it.
    pub async fn stop(self) -> Result<Written> {
        self.stop.send_replace(true);
        let written = self.task.await?;
        if written.acknowledged.is_empty() {
            bail!("not one of the writer's {} writes was acknowledged", written.failed);
        }
        Ok(written)
    }
}

impl Written {
    /// Each acknowledged write is there.
    pub async fn is_in(&self, etcd: &mut Etcd) -> Result<()> {
        etcd.has(PREFIX, &self.acknowledged).await
    }
}

async fn write(stage: Arc<Stage>, from: Place, service: SocketAddr, stopped: watch::Receiver<bool>) -> Written {
    let mut written = Written::default();
    let mut last = Instant::now();
    let mut etcd = None;
    for number in 0.. {
        if *stopped.borrow() {
            break;
        }
        let key = format!("{PREFIX}{number:07}");
        if etcd.is_none() {
            etcd = Etcd::connect(&stage.kube, from, service).await.ok();
        }
        let acknowledged = match &mut etcd {
            Some(etcd) => etcd.put(&key, "x").await.is_ok(),
            None => false,
        };
        if acknowledged {
            written.longest_gap = written.longest_gap.max(last.elapsed());
            last = Instant::now();
            written.acknowledged.push(key);
        } else {
            written.failed += 1;
            etcd = None;
        }
        sleep(Duration::from_millis(20)).await;
    }
    written
}
