//! One cluster in trouble among many. Alone: it measures how soon the operator acts.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{core::v1::Service, events::v1::Event};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use tests::{
    fleet::{self, Fleet},
    harness::{Cluster, Outcome, World, scenario, spec, until},
};

const CLUSTERS: usize = 50;
const PATIENCE: Duration = Duration::from_mins(4);

/// An edit of each cluster at the same time; gives how long each took until it was carried out, the longest last.
async fn latencies(world: &World, clusters: &[Cluster<'_>], value: &str) -> Result<Vec<Duration>> {
    let edits = clusters.iter().map(|cluster| async move {
        let start = Instant::now();
        let annotations = json!({ "value": value });
        cluster
            .patch(json!({ "spec": { "serviceTemplate": { "client": { "annotations": annotations } } } }))
            .await?;
        until(
            &format!("{} is as edited", cluster.name),
            Duration::from_mins(1),
            async || {
                let service = world.api::<Service>().get(&format!("{}-client", cluster.name)).await?;
                ensure!(
                    service.annotations().get("value").is_some_and(|is| is == value),
                    "not yet"
                );
                Ok(())
            },
        )
        .await?;
        Ok::<_, anyhow::Error>(start.elapsed())
    });
    let mut all: Vec<Duration> = stream::iter(edits).buffer_unordered(CLUSTERS).try_collect().await?;
    all.sort();
    Ok(all)
}

#[test]
fn u13_a_cluster_whose_endpoints_hang_delays_no_other_and_tells_of_it_twice_a_minute_at_most() -> Outcome {
    scenario("u13", async |world| {
        let fleet = Fleet::start(&world.stage, &world.namespace).await?;
        let simulated = spec::with(spec::memory(1), &json!({ "scheduling": fleet::scheduling() }));
        let mut clusters: Vec<Cluster> = stream::iter(0..CLUSTERS)
            .map(|n| {
                let simulated = &simulated;
                async move { world.create(&format!("c{n}"), simulated).await }
            })
            .buffer_unordered(16)
            .try_collect()
            .await?;
        until("all have formed", PATIENCE, async || {
            for cluster in &clusters {
                let status = cluster.status().await?;
                ensure!(status.ready_members == 1, "{}: {}", cluster.name, status.summary);
            }
            Ok(())
        })
        .await?;
        let outcome = measure(world, &fleet, &mut clusters).await;
        // No kubelet is there to confirm that simulated Pods have ended.
        world.stage.kubectl(&[
            "-n",
            &world.namespace,
            "delete",
            "etcdclusters",
            "--all",
            "--wait=false",
        ])?;
        world.stage.kubectl(&[
            "-n",
            &world.namespace,
            "delete",
            "pods",
            "--all",
            "--grace-period=0",
            "--force",
            "--wait=false",
        ])?;
        world
            .stage
            .kubectl(&["delete", "node", "simulated", "--ignore-not-found", "--wait=false"])?;
        outcome
    })
}

async fn measure(world: &World, fleet: &Fleet, clusters: &mut Vec<Cluster<'_>>) -> Result<()> {
    let Some(stuck) = clusters.pop() else { return Ok(()) };
    let alone = latencies(world, clusters, "before").await?;
    let uid = stuck.get().await?.metadata.uid.unwrap_or_default();
    fleet.hang(&uid, true);
    // There is work to be done on it, and no call of it comes back.
    stuck.scale(3).await?;
    let since = Instant::now();
    let beside = latencies(world, clusters, "during").await?;
    let longest = |all: &[Duration]| all.last().copied().unwrap_or_default();
    let middle = |all: &[Duration]| all.get(all.len() / 2).copied().unwrap_or_default();
    println!(
        "edit to change, {} clusters: median {:?}, longest {:?}; beside a stuck one: median {:?}, longest {:?}",
        clusters.len(),
        middle(&alone),
        longest(&alone),
        middle(&beside),
        longest(&beside)
    );
    ensure!(
        longest(&beside) <= longest(&alone) * 2 + Duration::from_secs(1),
        "the longest took {:?}, and {:?} before",
        longest(&beside),
        longest(&alone)
    );
    // What lasts is told seldom.
    let told = async || -> Result<usize> {
        let events = world.api::<Event>().list(&ListParams::default()).await?;
        let of_it = events.iter().filter(|event| {
            let about = event.regarding.clone().unwrap_or_default();
            about.kind.as_deref() == Some("EtcdCluster") && about.name.as_deref() == Some(&stuck.name)
        });
        // A repeated event is a count.
        Ok(of_it
            .map(|event| {
                event
                    .series
                    .as_ref()
                    .map_or(1, |series| usize::try_from(series.count).unwrap_or(1))
            })
            .sum())
    };
    let before = told().await?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let after = told().await?;
    println!(
        "{} events in 30 s, {before} in the {:.0} s before",
        after - before,
        since.elapsed().as_secs_f32() - 30.0
    );
    ensure!(after - before <= 1, "{} events in half a minute", after - before);
    // It heals, too.
    fleet.hang(&uid, false);
    until("it goes on", Duration::from_mins(1), async || {
        let status = stuck.status().await?;
        ensure!(status.ready_members == 3, "{}", status.summary);
        Ok(())
    })
    .await
}
