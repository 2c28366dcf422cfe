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
        // Every boundary between two steps is searched in the model; here are some, and the one that matters most.
        for moment in [50, 700, 1_800, 3_000] {
            cluster.scale(5).await?;
            tokio::time::sleep(Duration::from_millis(moment)).await;
            cluster.scale(3).await?;
            cluster.settled(3).await?;
        }
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
            ensure!(cluster.pods().await?.len() == 3, "a Pod is left over");
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
fn m08_a_dead_voter_is_repaired_before_the_cluster_grows() -> Outcome {
    scenario("m08", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let (leader, _) = cluster.etcd().await?.leader().await?;
        let dead = before
            .iter()
            .find(|member| member.id != leader)
            .context("no follower")?;
        cluster.delete_pod(&dead.name, true).await?;
        cluster.scale(5).await?;
        // Whoever gets a new ID first was the first to be admitted.
        let first = until("somebody is admitted", FORMATION, async || {
            let listed = cluster.listed().await?;
            let new = listed
                .into_iter()
                .find(|member| !before.iter().any(|known| known.id == member.id));
            let new = new.context("nobody yet")?;
            ensure!(!new.name.is_empty(), "it has not started yet");
            Ok(new)
        })
        .await?;
        ensure!(
            first.name == dead.name,
            "{} joined before {} was repaired",
            first.name,
            dead.name
        );
        until("it is repaired before there are more voters", FORMATION, async || {
            let listed = cluster.listed().await?;
            let repaired = listed.iter().any(|member| member.name == dead.name && !member.learner);
            assert!(repaired || listed.len() <= 3, "growth overtakes repair: {listed:?}");
            ensure!(repaired, "not yet");
            Ok(())
        })
        .await?;
        cluster.settled(5).await
    })
}

#[test]
fn m09_of_those_that_could_go_the_unhealthy_one_goes() -> Outcome {
    scenario("m09", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        // The oldest, which would stay if it were well.
        let members = cluster.members().await?;
        let oldest = members
            .iter()
            .min_by_key(|member| (member.creation_timestamp().map(|time| time.0), member.name_any()));
        let sick = oldest.context("no member")?.name_any();
        cluster.etcd_process(&sick).await?.stop()?;
        cluster
            .says(FORMATION, "Degraded", "True", &["MembersUnhealthy"], &[&sick])
            .await?;
        cluster.scale(1).await?;
        until("one is left, and not that one", FORMATION, async || {
            let left = cluster.member_names().await?;
            ensure!(left.len() == 1, "{left:?}");
            assert!(!left.contains(&sick), "the sick one was kept");
            cluster.is_settled(1).await
        })
        .await
    })
}

#[test]
fn m10_the_youngest_stays_when_it_leads_and_no_client_meets_an_election() -> Outcome {
    scenario("m10", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        let members = cluster.members().await?;
        let youngest = members
            .iter()
            .max_by_key(|member| (member.creation_timestamp().map(|time| time.0), member.name_any()));
        let youngest = youngest.context("no member")?.name_any();
        let lead = async |name: &str| {
            until(&format!("{name} leads"), FORMATION, async || {
                let listed = cluster.listed().await?;
                let wanted = listed
                    .iter()
                    .find(|member| member.name == name)
                    .context("not listed")?
                    .clone();
                let (leader, _) = cluster.etcd().await?.leader().await?;
                if leader != wanted.id {
                    let leads = listed.iter().find(|member| member.id == leader).context("no leader")?;
                    cluster.etcd_at(&leads.name).await?.move_leader(&wanted.id).await?;
                }
                let (leader, term) = cluster.etcd_at(name).await?.leader().await?;
                ensure!(leader == wanted.id, "{leader} leads");
                Ok(term)
            })
            .await
        };
        let term = lead(&youngest).await?;
        cluster.settled(3).await?;
        let writer = cluster.writer().await?;
        cluster.scale(1).await?;
        cluster.settled(1).await?;
        ensure!(
            cluster.member_names().await? == [youngest.clone()],
            "the leader was let go"
        );
        let (_, after) = cluster.etcd().await?.leader().await?;
        ensure!(after == term, "there was an election: term {term} became {after}");

        // And when the leader must go, it hands over first.
        cluster.scale(3).await?;
        cluster.settled(3).await?;
        let (leader, term) = cluster.etcd().await?.leader().await?;
        let leader = cluster
            .listed()
            .await?
            .into_iter()
            .find(|member| member.id == leader)
            .context("no leader")?
            .name;
        cluster
            .delete_members_past_the_guard(std::slice::from_ref(&leader))
            .await?;
        until("it has gone", FORMATION, async || {
            ensure!(!cluster.member_names().await?.contains(&leader), "it is there");
            cluster.is_settled(3).await
        })
        .await?;
        let (_, after) = cluster.etcd().await?.leader().await?;
        ensure!(after == term + 1, "more than a hand-over: term {term} became {after}");
        let written = writer.stop().await?;
        written.is_in(&mut cluster.etcd().await?).await?;
        println!(
            "{} writes, longest gap {:?}",
            written.acknowledged.len(),
            written.longest_gap
        );
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
