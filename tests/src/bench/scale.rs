//! How fast a cluster grows and shrinks, how it comes back from a pause, and what a client notices.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    client,
    experiment::Readings,
    follow::Follow,
    stand::{self, LIMIT, Stand, is_available, is_whole, is_whole_with},
};

/// etcd refuses a removal while a voter has been connected to the others for less than 5 s.
const REST: Duration = Duration::from_secs(6);

/// `grow-3-5` and `shrink-5-3`: a cluster in memory. It shrinks when it has rested.
pub async fn sizes(stand: &Stand, run: usize) -> Result<Readings> {
    let name = format!("sizes-{run}");
    stand.form(&name, &stand::memory()).await?;
    let grown = scaled(stand, &name, 5).await?;
    sleep(REST).await;
    let shrunk = scaled(stand, &name, 3).await?;
    stand.remove(&name).await?;
    Ok(vec![("grow-3-5", grown), ("shrink-5-3", shrunk)])
}

/// `write-gap-3-5-3`: the longest time for which a client has no write acknowledged while a cluster on disks grows to five
/// and shrinks again. A write that was acknowledged and is not there is an error.
pub async fn write_gap(stand: &Stand, run: usize) -> Result<Readings> {
    let name = format!("gap-{run}");
    stand.form(&name, &stand::disk()).await?;
    let (stop, stopped) = watch::channel(false);
    let writes = client::write(stand, &name, stopped);
    let sizing = async {
        let changed = async {
            scaled(stand, &name, 5).await?;
            scaled(stand, &name, 3).await
        };
        let changed = changed.await;
        stop.send_replace(true);
        changed.map(drop)
    };
    let (written, changed) = tokio::join!(writes, sizing);
    changed?;
    let written = written?;
    let missing = written.missing(stand, &name).await?;
    ensure!(
        missing == 0,
        "{missing} of {} acknowledged writes are lost",
        written.count()
    );
    stand.remove(&name).await?;
    Ok(vec![("write-gap-3-5-3", written.longest_gap.as_secs_f64())])
}

/// `resume-3`: from `replicas` 3 after a pause until the quorum is back; three members on disks.
pub async fn resume(stand: &Stand, run: usize) -> Result<Readings> {
    let name = format!("resume-{run}");
    let before = stand.form(&name, &stand::disk()).await?;
    let mut follow = Follow::new(stand.clusters(), &name);
    stand.scale(&name, 0).await?;
    follow
        .until("paused", LIMIT, |cluster| {
            cluster.is_some_and(|cluster| is_available(cluster, "False", &["Paused"]))
        })
        .await?;
    stand.without_pods(&name).await?;
    let begin = Instant::now();
    stand.scale(&name, 3).await?;
    let (end, mut after) = follow
        .until("Available", LIMIT, |cluster| {
            cluster.is_some_and(|cluster| is_available(cluster, "True", &[]))
        })
        .await?;
    if !after.as_ref().is_some_and(is_whole) {
        (_, after) = follow
            .until("whole", LIMIT, |cluster| cluster.is_some_and(is_whole))
            .await?;
    }
    let ids = |cluster: &crds::EtcdCluster| {
        let mut ids: Vec<_> = cluster
            .status
            .iter()
            .flat_map(|status| &status.members)
            .map(|m| m.id.clone())
            .collect();
        ids.sort();
        ids
    };
    let after = after.context("a cluster that is gone is not whole")?;
    ensure!(
        ids(&before) == ids(&after),
        "the members are others than before the pause"
    );
    stand.remove(&name).await?;
    Ok(vec![("resume-3", (end - begin).as_secs_f64())])
}

/// Seconds from the request until that many members vote, and no others are there.
async fn scaled(stand: &Stand, name: &str, size: i32) -> Result<f64> {
    let mut follow = Follow::new(stand.clusters(), name);
    let begin = Instant::now();
    stand.scale(name, size).await?;
    let (end, _) = follow
        .until(&format!("of {size} members"), LIMIT, |cluster| {
            cluster.is_some_and(|cluster| is_whole_with(cluster, size))
        })
        .await?;
    Ok((end - begin).as_secs_f64())
}
