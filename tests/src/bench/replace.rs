//! How fast a memory member comes back whose Pod is lost, and its data with it.

use anyhow::{Context, Result};
use kube::api::DeleteParams;
use tokio::time::Instant;

use super::{
    experiment::Readings,
    follow::Follow,
    stand::{self, LIMIT, Stand, is_whole},
};

const CLUSTER: &str = "replace";

/// Deletes the Pod of another member each time, the leader's at times, and waits until the cluster is whole again with it
/// under a new ID.
pub async fn run(stand: &Stand, run: usize) -> Result<Readings> {
    let cluster = match stand.clusters().get_opt(CLUSTER).await? {
        Some(cluster) => cluster,
        None => stand.form(CLUSTER, &stand::memory()).await?,
    };
    let members = cluster.status.context("a formed cluster has a status")?.members;
    let lost = members.get(run % 3).context("a formed cluster has three members")?;

    let mut follow = Follow::new(stand.clusters(), CLUSTER);
    let begin = Instant::now();
    stand.pods().delete(&lost.name, &DeleteParams::default()).await?;
    let (end, _) = follow
        .until("whole again", LIMIT, |cluster| {
            cluster.is_some_and(|cluster| is_whole(cluster) && stand::has_new_id(cluster, lost))
        })
        .await?;
    Ok(vec![("replace-memory-pod", (end - begin).as_secs_f64())])
}
