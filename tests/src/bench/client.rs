//! A client that knows every member, as one does that resolves the headless Service: what one member does not take in time
//! it gives to the next.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::ListParams};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::stand::Stand;
use crate::{harness::Etcd, kube::Place};

/// How long one member may take for one write. etcd takes a few milliseconds, and while a leader is being elected none.
const ATTEMPT: Duration = Duration::from_millis(400);
/// Between two writes.
const PAUSE: Duration = Duration::from_millis(10);
/// How often it is looked which members there are.
const LOOK: Duration = Duration::from_millis(500);

const PREFIX: &str = "gap/";

/// What it has seen.
pub struct Written {
    acknowledged: Vec<String>,
    /// The longest time between two acknowledged writes.
    pub longest_gap: Duration,
}

impl Written {
    /// How many writes were acknowledged.
    #[must_use]
    pub fn count(&self) -> usize {
        self.acknowledged.len()
    }

    /// How many of them are not there.
    pub async fn missing(&self, stand: &Stand, cluster: &str) -> Result<usize> {
        let mut members = Members::default();
        members.look(stand, cluster).await?;
        let etcd = members
            .clients
            .values_mut()
            .next()
            .context("no member can be reached")?;
        let present: std::collections::BTreeSet<String> = etcd.keys(PREFIX).await?.into_iter().collect();
        Ok(self.acknowledged.iter().filter(|key| !present.contains(*key)).count())
    }
}

/// Clients of the members that are there, by address.
#[derive(Default)]
struct Members {
    clients: BTreeMap<IpAddr, Etcd>,
    looked: Option<Instant>,
}

impl Members {
    async fn look(&mut self, stand: &Stand, cluster: &str) -> Result<()> {
        self.looked = Some(Instant::now());
        let of_cluster = ListParams::default().labels(&format!("{}={cluster}", crds::labels::CLUSTER));
        let pods = stand.pods().list(&of_cluster).await?;
        let there = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let ip = |pod: &k8s_openapi::api::core::v1::Pod| pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok();
        let there: BTreeMap<IpAddr, String> = there.filter_map(|pod| Some((ip(pod)?, pod.name_any()))).collect();
        self.clients.retain(|ip, _| there.contains_key(ip));
        for ip in there.into_keys() {
            if self.clients.contains_key(&ip) {
                continue;
            }
            let kube = &stand.world.stage.kube;
            let etcd = timeout(ATTEMPT, Etcd::connect(kube, Place::Node(1), SocketAddr::new(ip, 2379))).await;
            // One that does not serve yet is looked at again.
            if let Ok(Ok(etcd)) = etcd {
                self.clients.insert(ip, etcd);
            }
        }
        Ok(())
    }
}

/// Writes until it is told to stop.
pub async fn write(stand: &Stand, cluster: &str, stopped: watch::Receiver<bool>) -> Result<Written> {
    let mut members = Members::default();
    let mut written = Written {
        acknowledged: Vec::new(),
        longest_gap: Duration::ZERO,
    };
    members.look(stand, cluster).await?;
    let mut last = Instant::now();
    let mut preferred: Option<IpAddr> = None;
    while !*stopped.borrow() {
        if members.looked.is_none_or(|looked| looked.elapsed() > LOOK) {
            members.look(stand, cluster).await?;
        }
        let key = format!("{PREFIX}{:07}", written.count());
        let mut order: Vec<IpAddr> = members.clients.keys().copied().collect();
        // The one that took the last write first.
        order.sort_by_key(|ip| Some(*ip) != preferred);
        for ip in order {
            let Some(etcd) = members.clients.get_mut(&ip) else {
                continue;
            };
            if matches!(timeout(ATTEMPT, etcd.put(&key, "x")).await, Ok(Ok(()))) {
                written.longest_gap = written.longest_gap.max(last.elapsed());
                last = Instant::now();
                written.acknowledged.push(key);
                preferred = Some(ip);
                break;
            }
        }
        sleep(PAUSE).await;
    }
    written.longest_gap = written.longest_gap.max(last.elapsed());
    ensure!(
        written.count() > 100,
        "only {} writes were acknowledged",
        written.count()
    );
    Ok(written)
}
