//! What people do behind the operator's back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{ResourceExt, api::ListParams};
use tests::harness::{Cluster, FORMATION, Outcome, holds, scenario, spec, until};

async fn follower(cluster: &Cluster<'_>) -> Result<(String, String)> {
    let (leader, _) = cluster.etcd().await?.leader().await?;
    let listed = cluster.listed().await?;
    let found = listed.into_iter().find(|member| member.id != leader);
    let found = found.context("there is no follower")?;
    Ok((found.name, found.id))
}

#[test]
fn m11_a_member_deleted_past_the_guard_leaves_etcd_and_is_replaced() -> Outcome {
    scenario("m11-by-hand", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let (name, id) = follower(&cluster).await?;
        cluster
            .delete_members_past_the_guard(std::slice::from_ref(&name))
            .await?;
        until("it is gone and replaced", FORMATION, async || {
            ensure!(!cluster.member_names().await?.contains(&name), "its object is there");
            cluster.is_settled(3).await
        })
        .await?;
        ensure!(
            cluster.listed().await?.iter().all(|member| member.id != id),
            "etcd still lists it"
        );
        until("its claim is gone", FORMATION, async || {
            let claims = cluster.list::<PersistentVolumeClaim>().await?;
            ensure!(claims.len() == 3, "{} claims", claims.len());
            Ok(())
        })
        .await?;
        cluster.has("before").await?;
        Ok(())
    })
}

#[test]
fn m12_all_member_objects_deleted_keeps_every_claim_and_rebuilds_nothing() -> Outcome {
    scenario("m12", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let members = cluster.member_names().await?;
        let before = cluster.list::<PersistentVolumeClaim>().await?;
        let id = cluster.status().await?.cluster_id;
        cluster.delete_members_past_the_guard(&members).await?;
        until("no member and no Pod is left", FORMATION, async || {
            let left = cluster.member_names().await?;
            ensure!(left.is_empty(), "members {left:?}");
            let pods = cluster.pods().await?.len();
            ensure!(pods == 0, "{pods} Pods");
            Ok(())
        })
        .await?;
        let claims: Vec<String> = members.iter().map(|member| format!("data-{member}")).collect();
        let named: Vec<&str> = claims.iter().map(String::as_str).collect();
        cluster
            .says(FORMATION, "Available", "False", &["AllMembersLost"], &named)
            .await?;
        holds(
            "every claim is kept, and nothing is made",
            Duration::from_secs(8),
            async || {
                let now = cluster.list::<PersistentVolumeClaim>().await?;
                ensure!(
                    now.iter().map(ResourceExt::uid).eq(before.iter().map(ResourceExt::uid)),
                    "other claims: {:?}",
                    now.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
                );
                for claim in &now {
                    ensure!(
                        claim
                            .labels()
                            .get(crds::labels::RETAINED)
                            .is_some_and(|value| value == "true"),
                        "{} is not labelled",
                        claim.name_any()
                    );
                    ensure!(
                        claim
                            .owner_references()
                            .iter()
                            .all(|owner| owner.kind != "EtcdMember" && owner.controller != Some(true)),
                        "{} still has an owner: {:?}",
                        claim.name_any(),
                        claim.owner_references()
                    );
                    ensure!(claim.metadata.deletion_timestamp.is_none(), "it is going");
                }
                ensure!(cluster.member_names().await?.is_empty(), "a member was made");
                let status = cluster.status().await?;
                ensure!(status.cluster_id == id, "another history was begun");
                ensure!(status.summary.starts_with("All members lost"), "{}", status.summary);
                Ok(())
            },
        )
        .await?;
        // Only the end of the cluster lets the disks go.
        cluster.delete().await?;
        until("nothing is left", Duration::from_mins(1), async || {
            cluster.is_gone().await
        })
        .await
    })
}

#[test]
fn m13_a_member_removed_with_etcdctl_comes_back_as_the_same_object_on_a_clean_directory() -> Outcome {
    scenario("m13", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let (name, id) = follower(&cluster).await?;
        let (object, pod) = (cluster.member(&name).await?.uid(), cluster.pod_uid(&name).await?);
        // etcd refuses changes until all have been connected for 5 s.
        until("it is removed by hand", FORMATION, async || {
            cluster.etcd().await?.remove_member(&id).await
        })
        .await?;
        let start = Instant::now();
        until("it is a voter with another ID", FORMATION, async || {
            let listed = cluster.listed().await?;
            let entry = listed.iter().find(|member| member.name == name).context("not listed")?;
            ensure!(entry.id != id && !entry.learner, "{entry:?}");
            Ok(())
        })
        .await?;
        println!("it voted again after {:.1} s", start.elapsed().as_secs_f32());
        cluster.settled(3).await?;
        ensure!(cluster.member(&name).await?.uid() == object, "it is another object");
        ensure!(cluster.pod_uid(&name).await? == pod, "it is another Pod");
        cluster
            .etcd_at(&name)
            .await?
            .get("before")
            .await?
            .context("its data are not there")?;
        Ok(())
    })
}

#[test]
fn m14_a_member_that_somebody_else_added_is_reported_and_stays() -> Outcome {
    scenario("m14", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        // etcd refuses changes until all have been connected for 5 s.
        let id = until("it is added by hand", FORMATION, async || {
            cluster.etcd().await?.add_learner("http://by-hand.example:2380").await
        })
        .await?;
        // No process of the cluster tells of an entry that never starts; it is seen with the next look, which comes every
        // five minutes, or with any event.
        let look = async || {
            let now = format!("{:?}", Instant::now());
            cluster
                .patch(serde_json::json!({ "metadata": { "annotations": { "example.com/look": now } } }))
                .await
        };
        look().await?;
        cluster
            .says(
                FORMATION,
                "Degraded",
                "True",
                &["MembersUnhealthy"],
                &[&id, "by-hand.example"],
            )
            .await?;
        until("the summary names it", FORMATION, async || {
            let summary = cluster.status().await?.summary;
            ensure!(summary.contains(&id), "{summary}");
            Ok(())
        })
        .await?;
        holds("it stays", Duration::from_secs(5), async || {
            let listed = cluster.listed().await?;
            ensure!(listed.iter().any(|member| member.id == id), "{listed:?}");
            ensure!(listed.len() == 4, "{listed:?}");
            Ok(())
        })
        .await?;
        cluster
            .says(FORMATION, "Available", "True", &["QuorumHealthy"], &[])
            .await?;
        cluster.etcd().await?.remove_member(&id).await?;
        look().await?;
        cluster
            .says(Duration::from_secs(40), "Degraded", "False", &["QuorumHealthy"], &[])
            .await?;
        cluster.settled(3).await?;
        let events = world
            .api::<k8s_openapi::api::events::v1::Event>()
            .list(&ListParams::default())
            .await?;
        let removed = events
            .iter()
            .any(|event| event.reason.as_deref() == Some("MemberRemoved"));
        ensure!(!removed, "the operator removed a member");
        Ok(())
    })
}
