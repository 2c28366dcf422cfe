//! Growing, shrinking and repairing.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use tests::harness::{Cluster, FORMATION, Listed, Outcome, holds, scenario, spec, until};

#[test]
fn m01_a_deleted_pod_of_a_disk_member_comes_back_as_the_same_member_with_no_membership_call() -> Outcome {
    scenario("m01", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let before = cluster.listed().await?;
        for member in cluster.member_names().await? {
            let uid = cluster.pod_uid(&member).await?;
            cluster.delete_pod(&member, false).await?;
            until("there is another Pod, and it serves", FORMATION, async || {
                let now = cluster.listed().await.unwrap_or_else(|_| before.clone());
                // An error here would only be the next look's; this one must not pass by.
                assert_eq!(now, before, "the member list changed");
                ensure!(cluster.pod_uid(&member).await? != uid, "the old Pod is still there");
                cluster
                    .etcd_at(&member)
                    .await?
                    .get("before")
                    .await?
                    .context("the key is not there")
            })
            .await?;
            cluster.settled(3).await?;
        }
        ensure!(cluster.listed().await? == before, "the member list changed");
        Ok(())
    })
}

/// Watches the client Service and the member list until it is dropped or something is wrong.
async fn watch_services_and_learners(cluster: &Cluster<'_>, most_learners: usize) -> Result<()> {
    loop {
        // The endpoints first: a learner of the list was one before, too, so its Pod must not have been among them.
        let Ok(endpoints) = cluster.client_endpoints().await else {
            continue;
        };
        let Ok(listed) = cluster.listed().await else { continue };
        let learners: Vec<&Listed> = listed.iter().filter(|member| member.learner).collect();
        ensure!(
            learners.len() <= most_learners,
            "{} learners at once: {listed:?}",
            learners.len()
        );
        for learner in learners {
            ensure!(
                !endpoints.contains(&learner.name),
                "U10: the client Service leads to the learner {}",
                learner.name
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn m02_u10_growing_and_shrinking_lose_no_acknowledged_write_and_no_client_meets_a_learner() -> Outcome {
    scenario("m02", async |world| {
        let cluster = world.create("c", &spec::memory(1)).await?;
        cluster.settled(1).await?;
        let writer = cluster.writer().await?;
        let change = async {
            for size in [3, 5, 3, 1] {
                cluster.scale(size).await?;
                cluster.settled(usize::try_from(size)?).await?;
            }
            Ok::<_, anyhow::Error>(())
        };
        // A lone voter may take all of its learners at once; with more voters it is one at a time.
        tokio::select! {
            changed = change => changed?,
            wrong = watch_services_and_learners(&cluster, 2) => wrong?,
        }
        let written = writer.stop().await?;
        written.is_in(&mut cluster.etcd().await?).await?;
        // That writing never stops for good is what this proves; how long the longest pause is, is a figure.
        ensure!(
            written.longest_gap < Duration::from_secs(30),
            "no write for {:?}",
            written.longest_gap
        );
        Ok(())
    })
}

#[test]
fn m02_etcd_35_takes_one_learner_at_a_time() -> Outcome {
    scenario("m02-35", async |world| {
        let cluster = world
            .create("c", &spec::with(spec::memory(1), &json!({ "version": "3.5.35" })))
            .await?;
        cluster.settled(1).await?;
        cluster.scale(3).await?;
        tokio::select! {
            settled = cluster.settled(3) => settled,
            wrong = watch_services_and_learners(&cluster, 1) => wrong,
        }
    })
}

#[test]
fn m03_a_target_that_is_taken_back_while_it_is_worked_on_leaves_no_orphan() -> Outcome {
    scenario("m03", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        cluster.scale(5).await?;
        until("a fourth member is in etcd's list", FORMATION, async || {
            let listed = cluster.listed().await?;
            ensure!(listed.len() > 3, "{listed:?}");
            Ok(())
        })
        .await?;
        cluster.scale(3).await?;
        cluster.settled(3).await?;
        until("no claim is left over", FORMATION, async || {
            let claims = cluster
                .list::<k8s_openapi::api::core::v1::PersistentVolumeClaim>()
                .await?;
            let claims: BTreeSet<String> = claims.iter().map(ResourceExt::name_any).collect();
            let wanted = cluster
                .member_names()
                .await?
                .iter()
                .map(|member| format!("data-{member}"))
                .collect();
            ensure!(claims == wanted, "claims {claims:?}, wanted {wanted:?}");
            Ok(())
        })
        .await
    })
}

#[test]
fn m05_m06_a_member_that_cannot_be_placed_never_enters_etcd_and_goes_without_an_etcd_call() -> Outcome {
    scenario("m06", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let nowhere = json!({ "spec": { "replicas": 5, "scheduling": { "nodeSelector": { "no-such": "node" } } } });
        cluster.patch(nowhere).await?;
        let within = Duration::from_secs(40);
        cluster
            .says(
                within,
                "Progressing",
                "True",
                &["SpecChanged"],
                &["Unschedulable", "Pod c-"],
            )
            .await?;
        let said = cluster.status().await?;
        let progressing = tests::harness::condition(&said.conditions, "Progressing")?;
        let pods = cluster.pods().await?;
        let placed: BTreeSet<&str> = before.iter().map(|member| member.name.as_str()).collect();
        let waiting = pods
            .iter()
            .map(ResourceExt::name_any)
            .filter(|pod| !placed.contains(pod.as_str()));
        let waiting: Vec<String> = waiting.collect();
        ensure!(waiting.len() == 2, "two Pods should wait: {waiting:?}");
        ensure!(
            waiting.iter().any(|pod| progressing.message.contains(pod)),
            "it names none of {waiting:?}: {progressing:?}"
        );

        let index = cluster.etcd().await?.index().await?;
        holds("etcd knows nothing of it", Duration::from_secs(5), async || {
            ensure!(cluster.listed().await? == before, "the member list changed");
            Ok(())
        })
        .await?;
        cluster
            .says(within, "Available", "True", &["QuorumHealthy"], &[])
            .await?;
        cluster.patch(json!({ "spec": { "replicas": 3 } })).await?;
        cluster.settled(3).await?;
        ensure!(cluster.listed().await? == before, "the member list changed");
        let after = cluster.etcd().await?.index().await?;
        ensure!(
            after == index,
            "etcd was called: its index went from {index} to {after}"
        );
        Ok(())
    })
}

#[test]
fn m07_a_learner_whose_pod_goes_before_it_has_started_does_not_stop_growth() -> Outcome {
    scenario("m07", async |world| {
        let cluster = world.create("c", &spec::memory(1)).await?;
        cluster.settled(1).await?;
        let first = cluster.member_names().await?.remove(0);
        cluster.scale(3).await?;
        let learner = until("there is a learner", FORMATION, async || {
            let listed = cluster.listed().await?;
            ensure!(listed.iter().any(|member| member.learner), "{listed:?}");
            cluster
                .member_names()
                .await?
                .into_iter()
                .find(|name| *name != first)
                .context("no second member")
        })
        .await?;
        cluster.delete_pod(&learner, true).await?;
        cluster.settled(3).await
    })
}

#[test]
fn m19_a_pause_keeps_every_member_and_its_id() -> Outcome {
    scenario("m19", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let before = cluster.listed().await?;
        let id = cluster.status().await?.cluster_id;
        cluster.scale(0).await?;
        until("no Pod is left", FORMATION, async || {
            let pods = cluster.pods().await?.len();
            ensure!(pods == 0, "{pods} Pods");
            Ok(())
        })
        .await?;
        cluster
            .says(Duration::from_secs(20), "Available", "False", &["Paused"], &[])
            .await?;
        cluster.scale(3).await?;
        cluster.settled(3).await?;
        ensure!(cluster.listed().await? == before, "the member list changed");
        ensure!(cluster.status().await?.cluster_id == id, "the cluster ID changed");
        cluster
            .etcd()
            .await?
            .get("before")
            .await?
            .context("the data are gone")?;
        cluster.scale(0).await?;
        cluster
            .says(FORMATION, "Progressing", "False", &["Paused"], &[])
            .await?;
        cluster.scale(1).await?;
        cluster.settled(1).await?;
        cluster
            .etcd()
            .await?
            .get("before")
            .await?
            .context("the data are gone")?;
        Ok(())
    })
}

#[test]
fn m24_a_joiner_of_an_idle_cluster_above_index_5000_serves_and_votes() -> Outcome {
    scenario("m24", async |world| {
        for version in ["3.6.16", "3.7.3"] {
            let name = format!("c{}", version.replace('.', ""));
            let cluster = world
                .create(&name, &spec::with(spec::memory(1), &json!({ "version": version })))
                .await?;
            cluster.settled(1).await?;
            let mut etcd = cluster.etcd().await?;
            etcd.fill("key/", 5500).await?;
            ensure!(etcd.index().await? > 5000, "the index is {}", etcd.index().await?);
            cluster.scale(3).await?;
            cluster.settled(3).await?;
            for member in cluster.member_names().await? {
                let keys = cluster.etcd_at(&member).await?.keys("key/").await?.len();
                ensure!(keys == 5500, "{member} serves {keys} keys");
            }
            // And one that is replaced.
            let member = cluster.member_names().await?.remove(0);
            let id = cluster
                .member(&member)
                .await?
                .status
                .and_then(|status| status.member_id);
            cluster.delete_pod(&member, true).await?;
            until("it has a new ID", FORMATION, async || {
                let now = cluster
                    .member(&member)
                    .await?
                    .status
                    .and_then(|status| status.member_id);
                ensure!(now.is_some() && now != id, "its ID is {now:?}");
                Ok(())
            })
            .await?;
            cluster.settled(3).await?;
            cluster.delete().await?;
        }
        Ok(())
    })
}
