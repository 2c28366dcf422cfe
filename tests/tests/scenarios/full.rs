//! Volumes and quotas that are used up.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;
use tests::harness::{Cluster, FORMATION, Outcome, Process, World, condition, holds, says, scenario, spec, until};

/// Writes until the member's etcd has ended for want of space.
async fn write_until_full(cluster: &Cluster<'_>, member: &str) -> Result<()> {
    let value = "x".repeat(100_000);
    let mut number = 0;
    until("etcd has ended for want of space", Duration::from_mins(2), async || {
        let mut etcd = cluster.etcd().await?;
        for _ in 0..20 {
            number += 1;
            etcd.put(&format!("fill/{}", number % 50), &value).await?;
        }
        let exit = cluster.member(member).await?.status.and_then(|status| status.exit);
        let exit = exit.context("it runs")?;
        ensure!(exit.class == "DiskFull", "{exit:?}");
        Ok(())
    })
    .await
}

async fn says_full(world: &World, cluster: &Cluster<'_>, member: &str, reason: &str) -> Result<()> {
    let _ = world;
    let parts = [member, "spec.storage.size"];
    cluster
        .says(Duration::from_mins(1), "DiskFull", "True", &[reason], &parts)
        .await?;
    let status = cluster.member(member).await?.status.context("no status")?;
    says(&status.conditions, "DiskFull", "True", &[reason], &parts)?;
    let summary = cluster.status().await?.summary;
    ensure!(summary.contains(member), "the summary: {summary}");
    Ok(())
}

async fn is_not_full(cluster: &Cluster<'_>) -> Result<()> {
    until("the condition goes", FORMATION, async || {
        ensure!(
            condition(&cluster.status().await?.conditions, "DiskFull").is_err(),
            "it stands"
        );
        Ok(())
    })
    .await
}

#[test]
fn d11_u05_a_full_volume_is_said_replaces_nobody_and_heals_as_the_spec_grows() -> Outcome {
    scenario("d11", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let member = cluster.member_names().await?.remove(0);
        let pod = cluster.pod_uid(&member).await?;
        cluster.volume(&member).await?.fill()?;
        write_until_full(&cluster, &member).await?;
        says_full(world, &cluster, &member, "NoSpaceLeft").await?;
        let restarts = async || -> Result<i32> {
            let exit = cluster.member(&member).await?.status.and_then(|status| status.exit);
            Ok(exit.context("no exit")?.restarts)
        };
        let held = restarts().await?;
        holds(
            "etcd waits, and the others serve",
            Duration::from_secs(15),
            async || {
                ensure!(restarts().await? == held, "it was started {} times", restarts().await?);
                ensure!(cluster.listed().await? == before, "the member list changed");
                ensure!(cluster.pod_uid(&member).await? == pod, "another Pod");
                cluster.etcd().await?.put("after", "1").await
            },
        )
        .await?;
        // The agent comes back on a full disk, and knows it.
        let agent = Process::agent(&pod)?;
        agent.kill()?;
        until("another agent is linked", FORMATION, async || {
            ensure!(Process::agent(&pod)? != agent, "the old agent");
            let status = cluster.member(&member).await?.status.unwrap_or_default();
            ensure!(status.agent.is_some_and(|agent| agent.connected), "not linked");
            Ok(())
        })
        .await?;
        says_full(world, &cluster, &member, "NoSpaceLeft").await?;

        let start = std::time::Instant::now();
        cluster
            .patch(json!({ "spec": { "storage": { "size": "640Mi" } } }))
            .await?;
        cluster.settled(3).await?;
        println!("whole {:.1} s after the spec had grown", start.elapsed().as_secs_f32());
        is_not_full(&cluster).await?;
        for claim in cluster.list::<PersistentVolumeClaim>().await? {
            let requests = claim
                .spec
                .and_then(|spec| spec.resources)
                .and_then(|resources| resources.requests);
            let size = requests.and_then(|requests| requests.get("storage").cloned());
            ensure!(
                size.as_ref().is_some_and(|size| size.0 == "640Mi"),
                "a claim asks for {size:?}"
            );
        }
        for member in cluster.members().await? {
            ensure!(
                member.spec.storage.size.0 == "640Mi",
                "a member has {:?}",
                member.spec.storage.size
            );
        }
        ensure!(cluster.listed().await? == before, "the member list changed");
        ensure!(
            cluster
                .status()
                .await?
                .conditions
                .iter()
                .all(|c| c.type_ != "NotImplemented"),
            "it is acted on"
        );
        Ok(())
    })
}

#[test]
fn d11_a_volume_that_takes_no_more_files_is_said_by_name() -> Outcome {
    scenario("d11-files", async |world| {
        let cluster = world.create("c", &spec::disk(1)).await?;
        cluster.settled(1).await?;
        let member = cluster.member_names().await?.remove(0);
        let volume = cluster.volume(&member).await?;
        volume.leave_files(Some(2))?;
        says_full(world, &cluster, &member, "NoInodesLeft").await?;
        volume.leave_files(None)?;
        is_not_full(&cluster).await
    })
}

#[test]
fn u05_a_class_that_does_not_let_volumes_grow_is_said() -> Outcome {
    scenario("u05", async |world| {
        let class = format!("fixed-{}", std::process::id());
        let object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": class },
            "provisioner": "test.local/tmpfs", "volumeBindingMode": "WaitForFirstConsumer",
        });
        world.stage.kubectl_with(&["apply", "-f", "-"], &object.to_string())?;
        let fixed = json!({ "storage": { "storageClassName": class } });
        let cluster = world.create("c", &spec::with(spec::disk(1), &fixed)).await?;
        cluster.settled(1).await?;
        cluster
            .patch(json!({ "spec": { "storage": { "size": "640Mi" } } }))
            .await?;
        let parts = ["640Mi", "allowVolumeExpansion"];
        cluster
            .says(
                FORMATION,
                "VolumeExpansionBlocked",
                "True",
                &["ExpansionRefused"],
                &parts,
            )
            .await?;
        cluster
            .says(FORMATION, "Available", "True", &["QuorumHealthy"], &[])
            .await?;
        world.stage.kubectl(&["delete", "storageclass", &class])?;
        Ok(())
    })
}

#[test]
fn u08_a_database_near_its_quota_is_said_before_it_reaches_it() -> Outcome {
    scenario("u08", async |world| {
        let quota: i64 = 64 << 20;
        let small = json!({ "options": { "quotaBackendBytes": quota } });
        let cluster = world.create("c", &spec::with(spec::memory(1), &small)).await?;
        cluster.settled(1).await?;
        let mut etcd = cluster.etcd().await?;
        let value = "x".repeat(200_000);
        let mut number = 0;
        while etcd.status().await?.db_size() < quota / 100 * 96 {
            number += 1;
            etcd.put(&format!("key{number}"), &value).await?;
        }
        cluster
            .says(FORMATION, "QuotaPressure", "True", &["QuotaNearlyReached"], &["64 MiB"])
            .await?;
        while etcd.put(&format!("key{number}"), &value).await.is_ok() {
            number += 1;
        }
        cluster
            .says(
                FORMATION,
                "QuotaPressure",
                "True",
                &["NoSpaceAlarm"],
                &["compact", "disarm"],
            )
            .await
    })
}
