//! How fast a cluster forms.

use anyhow::Result;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    experiment::Readings,
    follow::Follow,
    stand::{self, LIMIT, Stand, is_available, is_whole},
};

/// `form-first-voter` and `form-3-memory`.
pub async fn memory(stand: &Stand, run: usize) -> Result<Readings> {
    let (first, whole) = form(stand, run, &stand::memory()).await?;
    Ok(vec![("form-first-voter", first), ("form-3-memory", whole)])
}

/// `form-3-disk`.
pub async fn disk(stand: &Stand, run: usize) -> Result<Readings> {
    let (_, whole) = form(stand, run, &stand::disk()).await?;
    Ok(vec![("form-3-disk", whole)])
}

/// Forms one cluster and removes it; gives the times to the first voter and to the third.
async fn form(stand: &Stand, run: usize, spec: &Value) -> Result<(f64, f64)> {
    let name = format!("form-{run}");
    let mut follow = Follow::new(stand.clusters(), &name);
    let begin = Instant::now();
    stand.create(&name, spec).await?;
    let first = follow.until("Available", LIMIT, |cluster| {
        cluster.is_some_and(|c| is_available(c, "True", &[]))
    });
    let (first, cluster) = first.await?;
    let mut whole = first;
    if !cluster.as_ref().is_some_and(is_whole) {
        (whole, _) = follow
            .until("whole", LIMIT, |cluster| cluster.is_some_and(is_whole))
            .await?;
    }
    stand.remove(&name).await?;
    Ok(((first - begin).as_secs_f64(), (whole - begin).as_secs_f64()))
}
