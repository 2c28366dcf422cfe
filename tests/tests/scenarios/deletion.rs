//! Deletion, in every state.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tests::harness::{FORMATION, Outcome, Process, scenario, spec, until};

/// What M16 and U17 allow.
const A_MINUTE: Duration = Duration::from_mins(1);

#[test]
fn m16_a_cluster_deleted_in_any_state_leaves_nothing_within_a_minute() -> Outcome {
    scenario("m16", async |world| {
        let nowhere = json!({ "scheduling": { "nodeSelector": { "no-such": "node" } } });
        let healthy = world.create("healthy", &spec::disk(3)).await?;
        let degraded = world.create("degraded", &spec::memory(3)).await?;
        let lost = world.create("lost", &spec::memory(3)).await?;
        let paused = world.create("paused", &spec::disk(1)).await?;
        let unplaced = world.create("unplaced", &spec::with(spec::disk(3), &nowhere)).await?;
        healthy.settled(3).await?;
        degraded.settled(3).await?;
        lost.settled(3).await?;
        paused.settled(1).await?;
        paused.scale(0).await?;
        paused.says(FORMATION, "Progressing", "False", &["Paused"], &[]).await?;
        // A member that ends no more by itself, in one; no quorum in the other.
        let member = degraded.member_names().await?.remove(0);
        degraded.etcd_process(&member).await?.stop()?;
        for member in lost.member_names().await?.iter().take(2) {
            lost.delete_pod(member, true).await?;
        }
        lost.says(FORMATION, "Available", "False", &["QuorumLost"], &[]).await?;
        let forming = world.create("forming", &spec::disk(3)).await?;
        until("it has begun to form", FORMATION, async || {
            ensure!(!forming.pods().await?.is_empty(), "no Pod yet");
            Ok(())
        })
        .await?;

        let all = [healthy, degraded, lost, paused, unplaced, forming];
        let start = Instant::now();
        for cluster in &all {
            cluster.delete().await?;
        }
        for cluster in &all {
            let left = A_MINUTE.saturating_sub(start.elapsed());
            until(&format!("{} is gone", cluster.name), left, async || {
                cluster.is_gone().await
            })
            .await?;
            println!("{} is gone after {:.1} s", cluster.name, start.elapsed().as_secs_f32());
        }
        Ok(())
    })
}

#[test]
fn m17_a_cluster_made_anew_under_its_old_name_never_sees_the_old_disk() -> Outcome {
    scenario("m17", async |world| {
        let cluster = world.create("c", &spec::disk(1)).await?;
        cluster.settled(1).await?;
        cluster.etcd().await?.put("old", "1").await?;
        let old = cluster.status().await?;
        let claims: Api<PersistentVolumeClaim> = world.api();
        let claim = cluster.list::<PersistentVolumeClaim>().await?.remove(0);
        let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        claims
            .patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(hold))
            .await?;
        cluster.delete().await?;
        until("the object is gone", A_MINUTE, async || {
            ensure!(cluster.get().await.is_err(), "it is still there");
            Ok(())
        })
        .await?;

        let cluster = world.create("c", &spec::disk(1)).await?;
        until("it has formed", FORMATION, async || {
            let mut etcd = cluster.etcd().await?;
            let id = etcd.cluster_id().await?;
            ensure!(
                cluster.status().await?.cluster_id.as_ref() == Some(&id),
                "not recorded yet"
            );
            ensure!(etcd.get("old").await?.is_none(), "the old data are there");
            Ok(())
        })
        .await?;
        let new = cluster.status().await?;
        ensure!(new.cluster_token != old.cluster_token, "the token is the old one");
        ensure!(new.cluster_id != old.cluster_id, "the cluster ID is the old one");
        until("the old claim is on its way out", A_MINUTE, async || {
            let kept = claims.get(&claim.name_any()).await?;
            ensure!(kept.uid() == claim.uid(), "it is another claim");
            ensure!(kept.metadata.deletion_timestamp.is_some(), "it is kept");
            Ok(())
        })
        .await?;
        for pod in cluster.pods().await? {
            let volumes = pod.spec.and_then(|spec| spec.volumes).unwrap_or_default();
            let mounts = volumes.into_iter().filter_map(|volume| volume.persistent_volume_claim);
            for mount in mounts {
                ensure!(mount.claim_name != claim.name_any(), "the old claim is mounted");
            }
        }
        let release = json!({ "metadata": { "finalizers": null } });
        claims
            .patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(release))
            .await?;
        Ok(())
    })
}

#[test]
fn m11_a_member_is_not_deleted_by_hand() -> Outcome {
    scenario("m11", async |world| {
        let cluster = world.create("c", &spec::memory(1)).await?;
        cluster.settled(1).await?;
        let member = cluster.member_names().await?.remove(0);
        let members: Api<crds::EtcdMember> = world.api();
        let refused = members
            .delete(&member, &DeleteParams::default())
            .await
            .err()
            .context("it was deleted")?;
        ensure!(refused.to_string().contains("allow-deletion"), "{refused}");
        Ok(())
    })
}

#[test]
fn u17_a_namespace_deleted_under_running_clusters_is_gone_in_a_minute() -> Outcome {
    scenario("u17", async |world| {
        let doomed = format!("{}-doomed", world.namespace);
        world.create_namespace(&doomed).await?;
        let there = world.in_namespace(&doomed);
        let disk = there.create("disk", &spec::disk(3)).await?;
        let memory = there.create("memory", &spec::memory(1)).await?;
        disk.settled(3).await?;
        memory.settled(1).await?;
        let etcd = Process::etcd(&memory.pod_uid(&memory.member_names().await?.remove(0)).await?)?;
        world.delete_namespace(&doomed).await?;
        let namespaces: Api<Namespace> = Api::all(world.stage.client.clone());
        until("the namespace is gone", A_MINUTE, async || {
            let left = namespaces.get_opt(&doomed).await?;
            ensure!(left.is_none(), "{:?}", left.and_then(|namespace| namespace.status));
            Ok(())
        })
        .await?;
        ensure!(!etcd.runs(), "an etcd is left");
        Ok(())
    })
}
