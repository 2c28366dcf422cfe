//! How fast the status says that the quorum is lost.

use std::time::Duration;

use anyhow::{Context, Result};
use crds::EtcdCluster;
use futures::try_join;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    experiment::Readings,
    follow::Follow,
    stand::{self, LIMIT, Stand, is_available, is_whole},
};
use crate::{
    harness::{Process, spec},
    kube::node_name,
};

/// Reasons of `Available=False` that name the loss.
const LOST: [&str; 2] = ["QuorumLost", "AllMembersLost"];
/// How often it is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Two of three nodes lose their network; the operator that acts is on the third.
pub async fn nodes(stand: &Stand, run: usize) -> Result<Readings> {
    const CLUSTER: &str = "nodes";
    let name = format!("{CLUSTER}-{run}");
    let apart = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": { "matchLabels": { crds::labels::CLUSTER: name } },
    }]}}});
    stand.form(&name, &spec::with(stand::disk(), &apart)).await?;
    let kube = &stand.world.stage.kube;
    let operator = stand.world.stage.operator().leader().await?;
    let own = operator
        .spec
        .and_then(|spec| spec.node_name)
        .context("the operator's Pod has no node")?;
    let others: Vec<u8> = (1..=kube.nodes()).filter(|n| node_name(*n) != own).collect();

    let mut follow = Follow::new(stand.clusters(), &name);
    let begin = Instant::now();
    for node in &others {
        kube.cut_off(*node).await?;
    }
    let end = follow
        .until("without a quorum", LIMIT, |cluster| {
            cluster.is_some_and(has_lost_quorum)
        })
        .await;
    for node in &others {
        kube.reconnect(*node).await?;
    }
    follow
        .until("whole again", LIMIT, |cluster| cluster.is_some_and(is_whole))
        .await?;
    stand.remove(&name).await?;
    Ok(vec![("detect-quorum-loss", (end?.0 - begin).as_secs_f64())])
}

/// The Pods of two of three memory members are deleted, and their data with them.
///
/// One time counts from the request, the other from the end of the second etcd. That may come long after the request: a
/// leader that is asked to end first hands its leadership to the voter it has been connected to longest, and when that is
/// the other one of the two, it tries so for 7 s (etcd's request timeout), with a quorum and serving all the while.
pub async fn pods(stand: &Stand, run: usize) -> Result<Readings> {
    let name = format!("pods-{run}");
    let cluster = stand.form(&name, &stand::memory()).await?;
    let members = cluster.status.context("a formed cluster has a status")?.members;
    let mut processes = Vec::new();
    for member in members.iter().take(2) {
        let pod = stand.pods().get(&member.name).await?;
        processes.push(Process::etcd(&pod.uid().unwrap_or_default())?);
    }

    let mut follow = Follow::new(stand.clusters(), &name);
    let begin = Instant::now();
    for member in members.iter().take(2) {
        stand.pods().delete(&member.name, &DeleteParams::default()).await?;
    }
    let ended = async {
        while processes.iter().any(|process| process.runs()) {
            sleep(LOOK).await;
        }
        anyhow::Ok(Instant::now())
    };
    let said = follow.until("without a quorum", LIMIT, |cluster| {
        cluster.is_some_and(has_lost_quorum)
    });
    let (ended, (end, _)) = try_join!(ended, said)?;
    stand.remove(&name).await?;
    Ok(vec![
        ("detect-quorum-loss-pods", (end - begin).as_secs_f64()),
        (
            "detect-quorum-loss-pods-ended",
            end.saturating_duration_since(ended).as_secs_f64(),
        ),
    ])
}

fn has_lost_quorum(cluster: &EtcdCluster) -> bool {
    is_available(cluster, "False", &LOST)
}
