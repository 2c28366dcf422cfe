//! How clusters form, and what keeps them from it for a while.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Pod, Service},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use tests::harness::{Cluster, FORMATION, Outcome, holds, scenario, spec, until};

/// Its data is there, read through the first member that answers.
async fn works(cluster: &Cluster<'_>) -> Result<()> {
    let mut etcd = cluster.etcd().await?;
    etcd.put("key", &cluster.name).await?;
    ensure!(
        etcd.get("key").await?.as_deref() == Some(cluster.name.as_str()),
        "what was written is not there"
    );
    let status = cluster.status().await?;
    ensure!(
        status.cluster_id == Some(etcd.cluster_id().await?),
        "the status has another cluster ID: {:?}",
        status.cluster_id
    );
    Ok(())
}

#[test]
fn every_size_on_every_medium_forms_with_every_served_minor() -> Outcome {
    scenario("sizes", async |world| {
        // One after the other but for the smallest: seven members at a time are enough for a small machine.
        let version = |spec, version| spec::with(spec, &json!({ "version": version }));
        for (name, size, spec) in [
            ("one-35", 1, version(spec::memory(1), "3.5.35")),
            ("three-35", 3, version(spec::disk(3), "3.5.35")),
            ("five-36", 5, version(spec::disk(5), "3.6.16")),
            ("seven-37", 7, version(spec::memory(7), "3.7.3")),
        ] {
            let cluster = world.create(name, &spec).await?;
            cluster.settled(size).await?;
            works(&cluster).await?;
            cluster.delete().await?;
        }
        Ok(())
    })
}

#[test]
fn clusters_of_several_namespaces_form_at_the_same_time() -> Outcome {
    scenario("several", async |world| {
        let other = format!("{}-other", world.namespace);
        world.create_namespace(&other).await?;
        let elsewhere = world.in_namespace(&other);
        let mut clusters = Vec::new();
        for name in ["a", "b"] {
            clusters.push(world.create(name, &spec::memory(3)).await?);
            clusters.push(elsewhere.create(name, &spec::memory(3)).await?);
        }
        for cluster in &clusters {
            cluster.settled(3).await?;
            works(cluster).await?;
        }
        let mut ids = Vec::new();
        for cluster in &clusters {
            ids.push(cluster.status().await?.cluster_id);
        }
        ids.sort();
        ids.dedup();
        ensure!(ids.len() == 4, "clusters share an ID: {ids:?}");
        world.delete_namespace(&other).await
    })
}

#[test]
fn m18_names_that_services_cannot_have_are_refused_and_similar_ones_do_not_collide() -> Outcome {
    scenario("m18", async |world| {
        for (name, part) in [
            ("a".repeat(63), "56 characters"),
            ("1a".to_owned(), "start with a letter"),
        ] {
            let refused = world.create(&name, &spec::memory(1)).await.err();
            let message = refused.map(|error| format!("{error:#}")).unwrap_or_default();
            ensure!(
                message.contains(part),
                "{name} should be refused with {part:?}: {message:?}"
            );
        }
        let longest = world.create(&"b".repeat(56), &spec::memory(1)).await?;
        let a = world.create("a", &spec::memory(1)).await?;
        a.settled(1).await?;
        // Its headless Service would be the other one's client Service.
        let taken = world.create("a-client", &spec::memory(1)).await?;
        until("the name is said to be taken", Duration::from_secs(20), async || {
            let status = taken.status().await?;
            let said = status.summary.contains("a-client")
                && status.conditions.iter().any(|c| c.message.contains("Service a-client"));
            ensure!(said, "{status:?}");
            Ok(())
        })
        .await?;
        a.is_settled(1).await?;
        a.delete().await?;
        // The name is free now.
        taken.settled(1).await?;
        longest.settled(1).await
    })
}

#[test]
fn m20_a_cluster_that_is_paused_from_birth_makes_nothing_and_forms_when_it_is_resumed() -> Outcome {
    scenario("m20", async |world| {
        let cluster = world.create("c", &spec::disk(0)).await?;
        cluster
            .says(Duration::from_secs(20), "Available", "False", &["Paused"], &[])
            .await?;
        holds("nothing is made", Duration::from_secs(5), async || {
            let members = cluster.members().await?.len();
            let pods = cluster.pods().await?.len();
            let claims = cluster.list::<PersistentVolumeClaim>().await?.len();
            ensure!(
                members + pods + claims == 0,
                "{members} members, {pods} Pods, {claims} claims"
            );
            Ok(())
        })
        .await?;
        cluster.scale(3).await?;
        cluster.settled(3).await
    })
}

#[test]
fn m21_a_version_without_an_image_is_said_and_heals_when_it_is_corrected() -> Outcome {
    scenario("m21", async |world| {
        let cluster = world
            .create("c", &spec::with(spec::memory(3), &json!({ "version": "3.6.99" })))
            .await?;
        let within = Duration::from_mins(1);
        cluster
            .says(
                within,
                "Available",
                "False",
                &["WaitingForSeed"],
                &["ImagePull", "v3.6.99"],
            )
            .await?;
        until("the summary says it, too", within, async || {
            let summary = cluster.status().await?.summary;
            ensure!(summary.contains("ImagePull"), "{summary}");
            Ok(())
        })
        .await?;
        cluster.patch(json!({ "spec": { "version": spec::VERSION } })).await?;
        cluster.settled(3).await
    })
}

#[test]
fn m22_a_seed_that_comes_after_the_deadline_still_forms_the_cluster() -> Outcome {
    scenario("m22", async |world| {
        let class = world.namespace.clone();
        let slow = json!({ "storage": { "storageClassName": class }, "progressDeadlineSeconds": 5 });
        let cluster = world.create("c", &spec::with(spec::disk(3), &slow)).await?;
        let missed = ["DeadlineExceeded", "BootstrapFailed"];
        cluster
            .says(Duration::from_secs(40), "Progressing", "False", &missed, &[])
            .await?;

        let classes: Api<StorageClass> = Api::all(world.stage.client.clone());
        let usual = classes.list(&kube::api::ListParams::default()).await?.items;
        let mut usual = usual
            .into_iter()
            .next()
            .ok_or_else(|| anyhow::anyhow!("there is no StorageClass"))?;
        usual.metadata = kube::api::ObjectMeta {
            name: Some(class.clone()),
            ..Default::default()
        };
        classes.create(&PostParams::default(), &usual).await?;
        let settled = cluster.settled(3).await;
        classes.delete(&class, &DeleteParams::default()).await?;
        settled
    })
}

#[test]
fn what_users_and_dashboards_rely_on_is_on_every_object() -> Outcome {
    scenario("objects", async |world| {
        let cluster = world.create("c", &spec::disk(1)).await?;
        cluster.settled(1).await?;
        let member = cluster.member_names().await?.remove(0);
        ensure!(
            member.starts_with("c-") && member.len() == 7,
            "members are named c-<5 characters>: {member}"
        );
        let labels = |object: &dyn Fn() -> std::collections::BTreeMap<String, String>, what: &str| {
            let labels = object();
            for (key, value) in [
                ("app.kubernetes.io/name", "etcd"),
                ("app.kubernetes.io/instance", "c"),
                ("app.kubernetes.io/managed-by", "etcd-operator"),
                ("etcd-operator.cozystack.io/cluster", "c"),
            ] {
                ensure!(
                    labels.get(key).map(String::as_str) == Some(value),
                    "{what} has no {key}={value}: {labels:?}"
                );
            }
            Ok(labels)
        };
        let pod: Pod = cluster.pod(&member).await?;
        let found = labels(&|| pod.labels().clone(), "the Pod")?;
        ensure!(
            found.get("app.kubernetes.io/component") == Some(&member),
            "the Pod names no member: {found:?}"
        );
        ensure!(
            found
                .get("etcd-operator.cozystack.io/role")
                .is_some_and(|role| role == "voter"),
            "no voter: {found:?}"
        );
        let claims: Api<PersistentVolumeClaim> = world.api();
        let claim = claims.get(&format!("data-{member}")).await?;
        labels(&|| claim.labels().clone(), "the claim")?;
        let services: Api<Service> = world.api();
        for (name, headless) in [("c", true), ("c-client", false)] {
            let service = services.get(name).await?;
            labels(&|| service.labels().clone(), name)?;
            let spec = service.spec.unwrap_or_default();
            ensure!(
                (spec.cluster_ip.as_deref() == Some("None")) == headless,
                "{name}: {spec:?}"
            );
        }
        let status = cluster.status().await?;
        let token = format!(
            "{}-c-{}",
            world.namespace,
            cluster.get().await?.uid().unwrap_or_default()
        );
        ensure!(
            status.cluster_token.as_ref() == Some(&token),
            "the token is {:?}",
            status.cluster_token
        );
        until("the budget is there", FORMATION, async || {
            let budgets = cluster
                .list::<k8s_openapi::api::policy::v1::PodDisruptionBudget>()
                .await?;
            ensure!(budgets.len() == 1, "{} budgets", budgets.len());
            Ok(())
        })
        .await
    })
}
