//! The API as people meet it.

use std::time::Duration;

use anyhow::{Result, ensure};
use crds::{EtcdDefrag, EtcdDefragPolicy, EtcdSnapshot, EtcdSnapshotPolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::PostParams;
use serde_json::json;
use tests::harness::{FORMATION, Outcome, World, condition, scenario, spec, until};
use tests::kube::project;

#[test]
fn every_sample_is_accepted() -> Outcome {
    scenario("samples", async |world| {
        let samples = project().join("deploy/samples");
        let arguments = ["apply", "--dry-run=server", "-f", &samples.to_string_lossy()];
        let said = world
            .stage
            .kubectl(&[&["-n", &world.namespace], &arguments[..]].concat())?;
        let count = std::fs::read_dir(samples)?.count();
        ensure!(said.lines().count() >= count, "{said}");
        Ok(())
    })
}

#[test]
fn printer_columns_say_whether_it_is_well_and_if_not_why() -> Outcome {
    scenario("columns", async |world| {
        let well = world.create("well", &spec::memory(1)).await?;
        let nowhere = json!({ "scheduling": { "nodeSelector": { "no-such": "node" } } });
        let ill = world.create("ill", &spec::with(spec::memory(3), &nowhere)).await?;
        well.settled(1).await?;
        ill.says(
            FORMATION,
            "Progressing",
            "True",
            &["WaitingForSeed"],
            &["Unschedulable"],
        )
        .await?;
        let table = world.stage.kubectl(&["-n", &world.namespace, "get", "etcdclusters"])?;
        println!("{table}");
        let row = |name: &str| {
            table
                .lines()
                .find(|line| line.starts_with(&format!("{name} ")))
                .unwrap_or_default()
                .to_owned()
        };
        ensure!(table.starts_with("NAME"), "{table}");
        ensure!(
            row("well").contains(spec::VERSION) && row("well").contains("1 of 1 voters healthy"),
            "{table}"
        );
        ensure!(
            row("ill").contains("Forming") && row("ill").contains("Unschedulable"),
            "{table}"
        );
        let members = world
            .stage
            .kubectl(&["-n", &world.namespace, "get", "etcdmembers", "-o", "wide"])?;
        println!("{members}");
        ensure!(
            members
                .lines()
                .any(|line| line.starts_with("well-") && line.contains("Leader")),
            "{members}"
        );
        Ok(())
    })
}

#[test]
fn kubectl_scale_changes_the_number_of_members_and_formation_is_told_by_events() -> Outcome {
    scenario("scale", async |world| {
        let cluster = world.create("c", &spec::memory(1)).await?;
        cluster.settled(1).await?;
        let namespace = &world.namespace;
        world
            .stage
            .kubectl(&["-n", namespace, "scale", "etcdcluster/c", "--replicas=3"])?;
        cluster.settled(3).await?;
        let told = until("events tell of it", FORMATION, async || {
            let events = world.stage.kubectl(&[
                "-n",
                namespace,
                "get",
                "events.events.k8s.io",
                "--field-selector=regarding.kind=EtcdCluster",
                "-o",
                "custom-columns=REASON:.reason,NOTE:.note",
                "--no-headers",
            ])?;
            for reason in ["ClusterFormed", "LearnerAdded", "QuorumHealthy"] {
                ensure!(events.contains(reason), "no event {reason}: {events}");
            }
            Ok(events)
        })
        .await?;
        let formed = told.lines().filter(|line| line.starts_with("ClusterFormed")).count();
        ensure!(formed == 1, "the same is told {formed} times: {told}");
        Ok(())
    })
}

#[test]
fn the_operators_pages_are_where_they_are_expected() -> Outcome {
    scenario("operator-http", async |world| {
        let operator = world.stage.operator();
        for pod in operator.pods().await? {
            operator.get(&pod, 8081, "/healthz").await?;
            operator.get(&pod, 8081, "/readyz").await?;
            let metrics = operator.get(&pod, 8080, "/metrics").await?;
            let parsed = openmetrics_parser::openmetrics::parse_openmetrics(&metrics)
                .map_err(|error| anyhow::anyhow!("{error}: {metrics}"))?;
            ensure!(!parsed.families.is_empty(), "no metrics: {metrics}");
        }
        Ok(())
    })
}

#[test]
fn what_is_not_acted_on_yet_is_said() -> Outcome {
    scenario("not-yet", async |world| {
        let later = json!({ "recovery": { "restoreFrom": { "snapshotRef": { "name": "latest" } } } });
        let cluster = world.create("c", &spec::with(spec::memory(1), &later)).await?;
        let parts = ["spec.recovery.restoreFrom"];
        cluster
            .says(FORMATION, "NotImplemented", "True", &["NotImplemented"], &parts)
            .await?;
        cluster.settled(1).await?;

        let posted = PostParams::default();
        let destination = json!({ "pvc": { "claimName": "backup", "subPath": "x" } });
        let cluster_ref = json!({ "name": "c" });
        let object = |spec: serde_json::Value| json!({ "metadata": { "name": "x" }, "spec": spec });
        let snapshot = object(json!({ "clusterRef": cluster_ref, "destination": destination }));
        world.api::<EtcdSnapshot>().create(&posted, &typed(snapshot)?).await?;
        let schedule = json!({ "clusterRef": cluster_ref, "schedule": "0 3 * * *", "destination": destination });
        world
            .api::<EtcdSnapshotPolicy>()
            .create(&posted, &typed(object(schedule))?)
            .await?;
        world
            .api::<EtcdDefrag>()
            .create(&posted, &typed(object(json!({ "clusterRef": cluster_ref })))?)
            .await?;
        let schedule = json!({ "clusterRef": cluster_ref, "schedule": "0 3 * * *" });
        world
            .api::<EtcdDefragPolicy>()
            .create(&posted, &typed(object(schedule))?)
            .await?;

        said(world, "EtcdSnapshot", async || {
            Ok(world
                .api::<EtcdSnapshot>()
                .get("x")
                .await?
                .status
                .unwrap_or_default()
                .conditions)
        })
        .await?;
        said(world, "EtcdSnapshotPolicy", async || {
            Ok(world
                .api::<EtcdSnapshotPolicy>()
                .get("x")
                .await?
                .status
                .unwrap_or_default()
                .conditions)
        })
        .await?;
        said(world, "EtcdDefrag", async || {
            Ok(world
                .api::<EtcdDefrag>()
                .get("x")
                .await?
                .status
                .unwrap_or_default()
                .conditions)
        })
        .await?;
        said(world, "EtcdDefragPolicy", async || {
            Ok(world
                .api::<EtcdDefragPolicy>()
                .get("x")
                .await?
                .status
                .unwrap_or_default()
                .conditions)
        })
        .await
    })
}

fn typed<K: serde::de::DeserializeOwned + kube::Resource<DynamicType = ()>>(
    mut object: serde_json::Value,
) -> Result<K> {
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    Ok(serde_json::from_value(object)?)
}

async fn said(_: &World, kind: &str, mut conditions: impl AsyncFnMut() -> Result<Vec<Condition>>) -> Result<()> {
    until(
        &format!("the {kind} says NotImplemented"),
        Duration::from_secs(20),
        async || {
            let all = conditions().await?;
            let found = condition(&all, "NotImplemented")?;
            ensure!(found.status == "True" && found.reason == "NotImplemented", "{found:?}");
            Ok(())
        },
    )
    .await
}
