//! How fast a lost quorum is recovered by the policy: two of three disks are emptied.

use anyhow::{Context, Result};
use crds::EtcdCluster;
use kube::ResourceExt;
use serde_json::json;
use tokio::time::Instant;

use super::{
    experiment::Readings,
    follow::Follow,
    stand::{self, LIMIT, Stand, is_available, is_whole},
};
use crate::harness::{Process, empty, spec};

/// `recover-first` until the new history serves, `recover-three` until it is whole.
pub async fn two_disks(stand: &Stand, run: usize) -> Result<Readings> {
    let name = format!("recover-{run}");
    let automatic = json!({ "recovery": { "quorumLoss": "Automatic", "settleSeconds": 0 } });
    let cluster = stand.form(&name, &spec::with(stand::disk(), &automatic)).await?;
    let members = cluster.status.context("a formed cluster has a status")?.members;
    let mut supervisors = Vec::new();
    for member in members.iter().take(2) {
        let pod = stand.pods().get(&member.name).await?;
        supervisors.push(Process::supervisor(&pod.uid().unwrap_or_default())?);
    }

    let mut follow = Follow::new(stand.clusters(), &name);
    let begin = Instant::now();
    for supervisor in supervisors {
        empty(&supervisor.path(proto::pod::DATA_VOLUME))?;
        supervisor.kill()?;
    }
    let is_new = |cluster: &EtcdCluster| cluster.status.as_ref().is_some_and(|s| s.incarnation == Some(2));
    // The record of the new history comes before the report of it, which counts its voters anew.
    let is_alone = |cluster: &EtcdCluster| {
        let quorum = cluster.status.as_ref().and_then(|status| status.quorum);
        quorum.is_some_and(|quorum| quorum.voters == 1 && quorum.healthy == 1)
    };
    let (first, _) = follow
        .until("Available with a new history", LIMIT, |cluster| {
            cluster.is_some_and(|cluster| is_new(cluster) && is_alone(cluster) && is_available(cluster, "True", &[]))
        })
        .await?;
    let (three, _) = follow
        .until("whole again", LIMIT, |cluster| {
            cluster.is_some_and(|cluster| is_new(cluster) && is_whole(cluster))
        })
        .await?;
    stand.remove(&name).await?;
    Ok(vec![
        ("recover-first", (first - begin).as_secs_f64()),
        ("recover-three", (three - begin).as_secs_f64()),
    ])
}
