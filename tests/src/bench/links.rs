//! What each member costs the operator: its objects and its link.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use tokio::{sync::OnceCell, time::sleep};

use super::{
    experiment::Readings,
    process,
    stand::{Stand, is_whole},
};
use crate::{
    fleet::{self, Fleet},
    harness::{Process, spec, until},
};

const CLUSTERS: usize = 167;
const MEMBERS: usize = 3 * CLUSTERS;
/// Time after which a process has given back what only its start took.
const SETTLE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_mins(10);

/// The fleet, and what the operator took without it.
static FLEET: OnceCell<(Fleet, f64)> = OnceCell::const_new();

/// `operator-rss-per-member`: resident memory of an operator that has just taken over 501 members (objects on the API
/// server, links to simulated agents over mTLS), less that of one with none, for each of them.
pub async fn run(stand: &Stand) -> Result<Readings> {
    let (fleet, none) = FLEET.get_or_try_init(|| form(stand)).await?;
    let all = resident(stand, || fleet.links() == MEMBERS).await?;
    let kib = (all - none) / 1024.0;
    let members = f64::from(u32::try_from(MEMBERS)?);
    Ok(vec![("operator-rss-per-member", kib / members)])
}

async fn form(stand: &Stand) -> Result<(Fleet, f64)> {
    let none = resident(stand, || true).await?;
    let fleet = Fleet::start(&stand.world.stage, &stand.world.namespace).await?;
    let spec = spec::with(spec::memory(3), &json!({ "scheduling": fleet::scheduling() }));
    stream::iter(0..CLUSTERS)
        .map(|n| {
            let spec = &spec;
            async move { stand.create(&format!("fleet-{n}"), spec).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    until("the fleet is whole", PATIENCE, async || {
        // One look in two seconds: it is a large list.
        sleep(Duration::from_secs(2)).await;
        let clusters = stand.clusters().list(&ListParams::default()).await?;
        let whole = clusters.iter().filter(|cluster| is_whole(cluster)).count();
        anyhow::ensure!(whole == CLUSTERS, "{whole} of {CLUSTERS} clusters are whole");
        Ok(())
    })
    .await?;
    Ok((fleet, none))
}

/// What a new operator takes once it has all links.
async fn resident(stand: &Stand, has_all_links: impl Fn() -> bool) -> Result<f64> {
    let operator = stand.world.stage.operator();
    operator.restart().await?;
    until("the operator has all links", PATIENCE, async || {
        anyhow::ensure!(has_all_links(), "some are missing");
        Ok(())
    })
    .await?;
    sleep(SETTLE).await;
    let leader = operator.leader().await?;
    process::resident(Process::operator(&leader.uid().unwrap_or_default())?.id())
}
