//! The operator taken away as documented. These run alone: every cluster of the stage has the same operator.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use crds::annotations::MEMBER_FINALIZER;
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::ListParams};
use tests::harness::{FORMATION, OPERATOR_NAMESPACE, Outcome, Process, World, scenario, spec, until};

const A_MINUTE: Duration = Duration::from_mins(1);

/// Runs `deploy/undeploy.sh` as `make undeploy` does.
async fn undeploy(world: &World, all: bool) -> Result<String> {
    let kube = &world.stage.kube;
    let kubectl = kube.kubectl();
    let tools = Path::new(kubectl.get_program())
        .parent()
        .context("kubectl is in no folder")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(tests::kube::project().join("deploy/undeploy.sh"));
    command
        .args(all.then_some("--all"))
        .env("KUBECONFIG", kube.kubeconfig())
        .env("PATH", format!("{}:{path}", tools.display()))
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "undeploy.sh: {}: {said}{errors}",
        output.status
    );
    Ok(said)
}

/// Installs it again, for the scenarios that follow.
async fn deploy(world: &World) -> Result<()> {
    world.stage.apply_manifests()?;
    world.stage.operator().start().await
}

async fn is_gone<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    until(&format!("{name} is gone"), A_MINUTE, async || {
        ensure!(api.get_opt(name).await?.is_none(), "it is still there");
        Ok(())
    })
    .await
}

#[test]
fn u18_without_the_operator_etcd_serves_on_and_nothing_holds_a_namespace_and_it_can_come_back() -> Outcome {
    scenario("u18", async |world| {
        let doomed = format!("{}-doomed", world.namespace);
        world.create_namespace(&doomed).await?;
        let there = world.in_namespace(&doomed);
        let (kept, dropped) = (
            world.create("kept", &spec::disk(3)).await?,
            world.create("dropped", &spec::memory(1)).await?,
        );
        let with_namespace = there.create("c", &spec::disk(1)).await?;
        kept.settled(3).await?;
        dropped.settled(1).await?;
        with_namespace.settled(1).await?;
        let listed = kept.listed().await?;
        let writer = kept.writer().await?;

        undeploy(world, false).await?;
        let outcome = async {
            for member in kept.members().await? {
                ensure!(
                    !member.finalizers().contains(&MEMBER_FINALIZER.to_owned()),
                    "{} is still held",
                    member.name_any()
                );
            }
            // A member that restarts starts by itself.
            let member = kept.member_names().await?.remove(0);
            let uid = kept.pod_uid(&member).await?;
            Process::supervisor(&uid)?.kill()?;
            until("all serve", FORMATION, async || {
                kept.etcd_at(&member).await?.status().await?;
                ensure!(kept.listed().await? == listed, "the member list changed");
                Ok(())
            })
            .await?;
            // Clusters and namespaces can go.
            dropped.delete().await?;
            until("the cluster is gone", A_MINUTE, async || dropped.is_gone().await).await?;
            world.delete_namespace(&doomed).await?;
            is_gone(&Api::<Namespace>::all(world.stage.client.clone()), &doomed).await
        }
        .await;
        deploy(world).await?;
        outcome?;
        kept.settled(3).await?;
        ensure!(kept.listed().await? == listed, "the member list changed");
        until("the members are held again", FORMATION, async || {
            for member in kept.members().await? {
                ensure!(
                    member.finalizers().contains(&MEMBER_FINALIZER.to_owned()),
                    "{} is not",
                    member.name_any()
                );
            }
            Ok(())
        })
        .await?;
        writer.stop().await?.is_in(&mut kept.etcd().await?).await
    })
}

#[test]
fn u18_everything_taken_away_leaves_nothing_also_without_an_operator_to_help() -> Outcome {
    scenario("u18-all", async |world| {
        for operator_is_there in [true, false] {
            let disk = world.create("disk", &spec::disk(3)).await?;
            let memory = world.create("memory", &spec::memory(1)).await?;
            disk.settled(3).await?;
            memory.settled(1).await?;
            let mut processes = Vec::new();
            for pod in disk.pods().await? {
                processes.push(Process::etcd(&pod.uid().unwrap_or_default())?);
            }
            if !operator_is_there {
                world.stage.operator().stop().await?;
            }
            let outcome = async {
                let said = undeploy(world, true).await?;
                ensure!(said.contains("Nothing of the operator is left"), "{said}");
                let crds: Api<CustomResourceDefinition> = Api::all(world.stage.client.clone());
                let left: Vec<String> = crds
                    .list(&ListParams::default())
                    .await?
                    .iter()
                    .map(ResourceExt::name_any)
                    .filter(|name| name.ends_with("etcd-operator.cozystack.io"))
                    .collect();
                ensure!(left.is_empty(), "kinds are left: {left:?}");
                is_gone(&Api::<Namespace>::all(world.stage.client.clone()), OPERATOR_NAMESPACE).await?;
                until("Pods and claims are gone", A_MINUTE, async || {
                    ensure!(
                        disk.pods().await?.is_empty() && memory.pods().await?.is_empty(),
                        "Pods are left"
                    );
                    let claims = disk.list::<k8s_openapi::api::core::v1::PersistentVolumeClaim>().await?;
                    ensure!(claims.is_empty(), "claims are left");
                    Ok(())
                })
                .await?;
                ensure!(processes.iter().all(|process| !process.runs()), "an etcd runs on");
                Ok(())
            }
            .await;
            deploy(world).await?;
            outcome?;
        }
        Ok(())
    })
}
