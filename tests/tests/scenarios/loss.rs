//! Members whose Pod, process or data are lost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::harness::{Cluster, FORMATION, Outcome, Process, scenario, spec, until};

async fn id_of(cluster: &Cluster<'_>, member: &str) -> Result<String> {
    let listed = cluster.listed().await?;
    Ok(listed
        .into_iter()
        .find(|listed| listed.name == member)
        .context("etcd does not list it")?
        .id)
}

#[test]
fn d16_d17_a_memory_member_keeps_its_data_with_its_pod_and_is_refilled_without_it() -> Outcome {
    scenario("d16", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let member = cluster.member_names().await?.remove(0);
        let (id, pod) = (id_of(&cluster, &member).await?, cluster.pod_uid(&member).await?);
        let etcd = cluster.etcd_process(&member).await?;

        Process::supervisor(&pod)?.kill()?;
        until("its container runs again", FORMATION, async || {
            ensure!(cluster.etcd_process(&member).await? != etcd, "the old process");
            cluster
                .etcd_at(&member)
                .await?
                .get("before")
                .await?
                .context("its data are gone")
        })
        .await?;
        cluster.settled(3).await?;
        ensure!(id_of(&cluster, &member).await? == id, "D16: it has another ID");
        ensure!(cluster.pod_uid(&member).await? == pod, "D16: it has another Pod");

        let object = cluster.member(&member).await?.metadata.uid;
        cluster.delete_pod(&member, false).await?;
        until("it is refilled", FORMATION, async || {
            ensure!(cluster.pod_uid(&member).await? != pod, "the old Pod");
            ensure!(
                id_of(&cluster, &member).await? != id,
                "D17: it has its old ID on an empty directory"
            );
            cluster
                .etcd_at(&member)
                .await?
                .get("before")
                .await?
                .context("its data are not there yet")
        })
        .await?;
        cluster.settled(3).await?;
        ensure!(
            cluster.member(&member).await?.metadata.uid == object,
            "D17: it is another object"
        );
        Ok(())
    })
}

#[test]
fn d04_an_etcd_that_is_killed_under_load_starts_by_itself_and_nothing_is_replaced() -> Outcome {
    scenario("d04", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let writer = cluster.writer().await?;
        for member in cluster.member_names().await? {
            for _ in 0..2 {
                let killed = cluster.etcd_process(&member).await?;
                killed.kill()?;
                until("another process of it serves", FORMATION, async || {
                    ensure!(cluster.etcd_process(&member).await? != killed, "the old one");
                    let status = cluster.etcd_at(&member).await?.status().await?;
                    ensure!(status.leader() != 0, "it knows no leader");
                    Ok(())
                })
                .await?;
            }
        }
        let written = writer.stop().await?;
        cluster.settled(3).await?;
        ensure!(cluster.listed().await? == before, "the member list changed");
        for member in cluster.member_names().await? {
            written.is_in(&mut cluster.etcd_at(&member).await?).await?;
        }
        println!(
            "{} writes acknowledged, longest gap {:?}",
            written.acknowledged.len(),
            written.longest_gap
        );
        Ok(())
    })
}

#[test]
fn quorum_lost_with_two_memory_pods_is_said_at_once_and_nothing_is_rebuilt() -> Outcome {
    scenario("quorum", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        let id = cluster.status().await?.cluster_id;
        let members = cluster.member_names().await?;
        let start = Instant::now();
        for member in &members[..2] {
            cluster.delete_pod(member, true).await?;
        }
        cluster
            .says(
                Duration::from_secs(20),
                "Available",
                "False",
                &["QuorumLost"],
                &[&members[0], &members[1]],
            )
            .await?;
        cluster
            .says(Duration::from_secs(5), "Degraded", "True", &["QuorumLost"], &[])
            .await?;
        println!("quorum loss was said after {:.1} s", start.elapsed().as_secs_f32());
        let summary = cluster.status().await?.summary;
        ensure!(summary.contains("Quorum lost"), "the summary: {summary}");
        tests::harness::holds("it stays so", Duration::from_secs(10), async || {
            let status = cluster.status().await?;
            tests::harness::says(&status.conditions, "Available", "False", &["QuorumLost"], &[])?;
            ensure!(status.cluster_id == id, "another history was begun");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_leader_that_is_killed_again_and_again_never_ends_availability() -> Outcome {
    scenario("election", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        let since = cluster.transition("Available").await?;
        for _ in 0..5 {
            let killed = cluster.leader().await?;
            cluster.etcd_process(&killed).await?.kill()?;
            until("another one leads", FORMATION, async || {
                ensure!(cluster.leader().await? != killed, "{killed} is still said to lead");
                Ok(())
            })
            .await?;
            cluster.settled(3).await?;
        }
        let now = cluster.transition("Available").await?;
        ensure!(now == since, "Available changed at {now:?}");
        Ok(())
    })
}

#[test]
fn d23_an_etcd_that_hangs_is_ended_and_started_again() -> Outcome {
    scenario("d23", async |world| {
        let cluster = world.create("c", &spec::disk(1)).await?;
        cluster.settled(1).await?;
        let member = cluster.member_names().await?.remove(0);
        let pod = cluster.pod_uid(&member).await?;
        let supervisor = Process::supervisor(&pod)?;
        let etcd = Process::etcd(&pod)?;
        etcd.stop()?;
        until("another etcd serves", Duration::from_secs(90), async || {
            ensure!(!etcd.runs(), "the old one is still there");
            cluster.etcd_at(&member).await?.status().await
        })
        .await?;
        ensure!(supervisor.runs(), "the container was restarted, not etcd");
        cluster.settled(1).await?;
        let exit = cluster
            .member(&member)
            .await?
            .status
            .and_then(|status| status.exit)
            .context("the member has no exit")?;
        ensure!(exit.restarts >= 1, "{exit:?}");
        println!("the member says: {} (code {})", exit.class, exit.code);
        Ok(())
    })
}

#[test]
fn d29_an_etcd_that_is_killed_for_memory_is_said_to_be() -> Outcome {
    scenario("d29", async |world| {
        let tight = json!({ "resources": { "limits": { "memory": "128Mi" } } });
        let cluster = world.create("c", &spec::with(spec::disk(1), &tight)).await?;
        cluster.settled(1).await?;
        let member = cluster.member_names().await?.remove(0);
        let mut etcd = cluster.etcd().await?;
        let big = "x".repeat(1_000_000);
        for n in 0..400 {
            if etcd.put(&format!("big{n}"), &big).await.is_err() {
                break;
            }
        }
        until("the member says so", FORMATION, async || {
            let exit = cluster
                .member(&member)
                .await?
                .status
                .and_then(|status| status.exit)
                .context("no exit yet")?;
            ensure!(exit.oom_kills >= 1 && exit.class.contains("Memory"), "{exit:?}");
            Ok(())
        })
        .await
    })
}
