//! Ten clusters at once: how fast they form, and what the operator takes while they are there.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use kube::ResourceExt;
use tokio::time::{Instant, sleep};

use super::{
    experiment::Readings,
    follow::Follow,
    process,
    stand::{LIMIT, Stand, is_whole},
};
use crate::harness::{Process, spec};

const CLUSTERS: usize = 10;
/// Time for what forming has stirred up (events, garbage collection) to end.
const SETTLE: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_mins(1);

/// `form-10x3`, `operator-rss-10`, `operator-cpu-10`.
pub async fn run(stand: &Stand, run: usize) -> Result<Readings> {
    let names: Vec<String> = (0..CLUSTERS).map(|n| format!("ten-{run}-{n}")).collect();
    let begin = Instant::now();
    let ends = try_join_all(names.iter().map(async |name| {
        let mut follow = Follow::new(stand.clusters(), name);
        stand.create(name, &spec::memory(3)).await?;
        let (end, _) = follow
            .until("whole", LIMIT, |cluster| cluster.is_some_and(is_whole))
            .await?;
        anyhow::Ok(end)
    }))
    .await?;
    let last = ends.into_iter().max().unwrap_or(begin);

    sleep(SETTLE).await;
    let operator = stand.world.stage.operator().leader().await?;
    let operator = Process::operator(&operator.uid().unwrap_or_default())?;
    let resident = process::resident(operator.id())?;
    let share = process::share(operator.id(), MINUTE).await?;
    try_join_all(names.iter().map(|name| stand.remove(name))).await?;
    Ok(vec![
        ("form-10x3", (last - begin).as_secs_f64()),
        ("operator-rss-10", resident / process::MIB),
        ("operator-cpu-10", share),
    ])
}
