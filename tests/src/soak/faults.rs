//! How each fault is brought about.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;

use super::Fault;
use crate::harness::{Cluster, Process, World, until};

/// Time that the process of a fault may take to be there: it may be about to start after the last fault.
const THERE: Duration = Duration::from_secs(30);

/// Does it. Returns when it is over; what follows from it is not waited for.
pub(super) async fn inflict(world: &World, clusters: &[Cluster<'_>], fault: &Fault) -> Result<()> {
    match fault {
        Fault::DeletePod {
            cluster,
            member,
            at_once,
        } => {
            let cluster = &clusters[*cluster];
            let member = name(cluster, *member).await?;
            cluster.delete_pod(&member, *at_once).await
        }
        Fault::KillEtcd { cluster, member } => etcd(&clusters[*cluster], *member).await?.kill(),
        Fault::FreezeEtcd {
            cluster,
            member,
            seconds,
        } => {
            let process = etcd(&clusters[*cluster], *member).await?;
            process.stop()?;
            sleep(Duration::from_secs(*seconds)).await;
            // The agent's watchdog may have ended it meanwhile.
            if process.runs() { process.go_on() } else { Ok(()) }
        }
        Fault::KillAgent { cluster, member } => {
            let cluster = &clusters[*cluster];
            let agent = until("the agent runs", THERE, async || {
                let member = name(cluster, *member).await?;
                Process::agent(&cluster.pod_uid(&member).await?)
            });
            agent.await?.kill()
        }
        Fault::KillOperator => world.stage.operator().crash().await,
        Fault::Scale { cluster, to } => clusters[*cluster].scale(*to).await,
        Fault::CutNode { node, seconds } => {
            let kube = &world.stage.kube;
            kube.cut_off(*node).await?;
            sleep(Duration::from_secs(*seconds)).await;
            kube.reconnect(*node).await
        }
    }
}

async fn etcd(cluster: &Cluster<'_>, member: usize) -> Result<Process> {
    until("etcd runs", THERE, async || {
        let member = name(cluster, member).await?;
        cluster.etcd_process(&member).await
    })
    .await
}

async fn name(cluster: &Cluster<'_>, member: usize) -> Result<String> {
    let names = cluster.member_names().await?;
    let name = names.get(member % names.len().max(1));
    name.cloned()
        .with_context(|| format!("{} has no members", cluster.name))
}
