//! What the agent takes while its etcd works.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{
    experiment::Readings,
    process,
    stand::{self, Stand},
};
use crate::{
    harness::{Etcd, Process},
    kube::Place,
};

const CLUSTER: &str = "agent";
/// 100 writes a second.
const PAUSE: Duration = Duration::from_millis(10);
/// Writes a second below which the run does not count.
const ENOUGH: u64 = 95;
const SETTLE: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_mins(1);

/// `agent-rss` and `agent-cpu`: those of the leader's agent (`serve`) while a client writes through the client Service. The
/// supervisor, which waits for etcd all the time, is a process of its own.
pub async fn run(stand: &Stand, _run: usize) -> Result<Readings> {
    if stand.clusters().get_opt(CLUSTER).await?.is_none() {
        stand.form(CLUSTER, &stand::memory()).await?;
    }
    let cluster = stand.clusters().get(CLUSTER).await?;
    let members = cluster.status.context("a formed cluster has a status")?.members;
    let leader = members
        .iter()
        .find(|member| member.role == crds::MemberRole::Leader)
        .context("nobody leads")?;
    let pod = stand.pods().get(&leader.name).await?;
    let agent = Process::agent(&pod.uid().unwrap_or_default())?;

    let service: k8s_openapi::api::core::v1::Service = stand.world.api().get(&format!("{CLUSTER}-client")).await?;
    let address = service
        .spec
        .and_then(|spec| spec.cluster_ip)
        .context("the client Service has no address")?;
    let address = format!("{address}:2379").parse()?;
    let mut etcd = Etcd::connect(&stand.world.stage.kube, Place::Node(1), address).await?;
    let written = AtomicU64::new(0);
    let writes = async {
        let mut tick = interval(PAUSE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for number in 0_u64.. {
            tick.tick().await;
            etcd.put(&format!("bench/{}", number % 1000), "0123456789").await?;
            written.store(number, Ordering::Relaxed);
        }
        anyhow::Ok(())
    };
    let reading = async {
        sleep(SETTLE).await;
        let before = written.load(Ordering::Relaxed);
        let share = process::share(agent.id(), MINUTE).await?;
        let rate = (written.load(Ordering::Relaxed) - before) / MINUTE.as_secs();
        ensure!(
            rate >= ENOUGH,
            "the client wrote only {rate} times a second; the machine is too busy"
        );
        anyhow::Ok((process::resident(agent.id())?, share))
    };
    let (resident, share) = tokio::select! {
        written = writes => {
            written?;
            anyhow::bail!("the client has ended")
        }
        read = reading => read?,
    };
    Ok(vec![("agent-rss", resident / process::MIB), ("agent-cpu", share)])
}
