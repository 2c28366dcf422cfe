//! `replicas: 0`, and back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;
use tests::harness::{Cluster, FORMATION, Outcome, holds, scenario, spec, until};

async fn pause(cluster: &Cluster<'_>) -> Result<()> {
    cluster.scale(0).await?;
    until("no Pod is left", FORMATION, async || {
        let pods = cluster.pods().await?.len();
        ensure!(pods == 0, "{pods} Pods");
        Ok(())
    })
    .await?;
    for type_ in ["Available", "Progressing"] {
        cluster
            .says(Duration::from_secs(20), type_, "False", &["Paused"], &[])
            .await?;
    }
    Ok(())
}

#[test]
fn m19_a_pause_keeps_every_member_its_disk_and_its_id_and_they_resume_together() -> Outcome {
    scenario("m19", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let before = cluster.listed().await?;
        let id = cluster.status().await?.cluster_id;
        let claims = cluster.list::<PersistentVolumeClaim>().await?;
        let claims: Vec<_> = claims.iter().map(ResourceExt::uid).collect();
        pause(&cluster).await?;
        holds(
            "nothing is changed while it is paused",
            Duration::from_secs(3),
            async || {
                ensure!(cluster.member_names().await?.len() == 3, "a member is gone");
                let now = cluster.list::<PersistentVolumeClaim>().await?;
                ensure!(
                    now.iter().map(ResourceExt::uid).collect::<Vec<_>>() == claims,
                    "other claims"
                );
                ensure!(cluster.status().await?.summary.starts_with("Paused"), "the summary");
                Ok(())
            },
        )
        .await?;
        let start = Instant::now();
        cluster.scale(3).await?;
        // Never fewer than all of them, and nobody joins as a learner, which would need a snapshot.
        until("they serve", FORMATION, async || {
            let listed = cluster.listed().await.unwrap_or_else(|_| before.clone());
            assert_eq!(listed, before, "the member list changed");
            cluster.is_settled(3).await
        })
        .await?;
        println!("resumed after {:.1} s", start.elapsed().as_secs_f32());
        let pods = cluster.pods().await?;
        let made: Vec<_> = pods
            .iter()
            .filter_map(|pod| pod.creation_timestamp().map(|time| time.0))
            .collect();
        let (first, last) = (
            made.iter().min().context("no Pod")?,
            made.iter().max().context("no Pod")?,
        );
        ensure!(
            last.duration_since(*first).as_secs() <= 1,
            "they were started one by one: {made:?}"
        );
        ensure!(cluster.status().await?.cluster_id == id, "the cluster ID changed");
        cluster.has("before").await?;

        pause(&cluster).await?;
        cluster.scale(1).await?;
        cluster.settled(1).await?;
        let left = cluster.listed().await?;
        ensure!(
            left.iter().all(|member| before.contains(member)),
            "{before:?} became {left:?}"
        );
        ensure!(cluster.status().await?.cluster_id == id, "the cluster ID changed");
        cluster.has("before").await?;
        Ok(())
    })
}

#[test]
fn m19_a_pause_that_is_taken_back_at_once_loses_nothing() -> Outcome {
    scenario("m19-back", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let before = cluster.listed().await?;
        for moment in [0, 150, 600] {
            cluster.scale(0).await?;
            tokio::time::sleep(Duration::from_millis(moment)).await;
            cluster.patch(json!({ "spec": { "replicas": 3 } })).await?;
            cluster.settled(3).await?;
            ensure!(cluster.listed().await? == before, "the member list changed");
        }
        cluster.has("before").await?;
        Ok(())
    })
}
