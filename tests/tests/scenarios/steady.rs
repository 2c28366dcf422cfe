//! A steady state costs nothing: no write, no log line, no Pod replaced. Alone, because others' clusters are logged, too.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Result, ensure};
use crds::{EtcdCluster, EtcdMember};
use k8s_openapi::{
    api::{
        core::v1::{PersistentVolumeClaim, Pod, Secret, Service},
        policy::v1::PodDisruptionBudget,
    },
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt, api::ListParams, core::NamespaceResourceScope};
use serde::de::DeserializeOwned;
use tests::harness::{Outcome, World, holds, scenario, spec};

/// Kind and name → UID and resource version, of everything of ours in the namespace.
async fn versions(world: &World) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    add::<EtcdCluster>(world, &mut all).await?;
    add::<EtcdMember>(world, &mut all).await?;
    add::<Pod>(world, &mut all).await?;
    add::<PersistentVolumeClaim>(world, &mut all).await?;
    add::<Service>(world, &mut all).await?;
    add::<PodDisruptionBudget>(world, &mut all).await?;
    add::<Secret>(world, &mut all).await?;
    add::<k8s_openapi::api::events::v1::Event>(world, &mut all).await?;
    Ok(all)
}

async fn add<K>(world: &World, all: &mut BTreeMap<String, String>) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    for object in world.api::<K>().list(&ListParams::default()).await? {
        let version = object.resource_version().unwrap_or_default();
        all.insert(
            format!("{} {}", K::kind(&()), object.name_any()),
            format!("{:?} {version}", object.uid()),
        );
    }
    Ok(())
}

fn changed<'a>(before: &'a BTreeMap<String, String>, after: &'a BTreeMap<String, String>) -> Vec<&'a String> {
    let names = before.keys().chain(after.keys());
    let changed: BTreeSet<_> = names.filter(|name| before.get(*name) != after.get(*name)).collect();
    changed.into_iter().collect()
}

#[test]
fn u21_a_steady_operator_writes_and_logs_nothing_and_neither_does_its_successor() -> Outcome {
    scenario("steady", async |world| {
        let disk = world.create("disk", &spec::disk(3)).await?;
        let memory = world.create("memory", &spec::memory(1)).await?;
        disk.settled(3).await?;
        memory.settled(1).await?;
        // What follows from the last change is written a moment later: by Kubernetes' own controllers (Pod status, budget),
        // and by agents, which look at the size of the data every half minute.
        let mut before = versions(world).await?;
        let mut quiet_since = tokio::time::Instant::now();
        while quiet_since.elapsed() < Duration::from_secs(32) {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = versions(world).await?;
            if now != before {
                (before, quiet_since) = (now, tokio::time::Instant::now());
            }
        }

        let since = Timestamp::now();
        holds("nothing is written", Duration::from_secs(30), async || {
            let now = versions(world).await?;
            ensure!(now == before, "changed: {:?}", changed(&before, &now));
            Ok(())
        })
        .await?;
        let log = world.stage.operator().logs_since(since).await?;
        ensure!(log.is_empty(), "a steady operator logs:\n{log}");

        world.stage.operator().restart().await?;
        holds(
            "U21: the new operator writes nothing",
            Duration::from_secs(10),
            async || {
                let now = versions(world).await?;
                ensure!(now == before, "changed: {:?}", changed(&before, &now));
                Ok(())
            },
        )
        .await?;
        // It does work, though.
        memory.scale(3).await?;
        memory.settled(3).await
    })
}
