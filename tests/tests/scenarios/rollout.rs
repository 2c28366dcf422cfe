//! New images of the agent. Alone: what the operator brings to one cluster it brings to all.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;
use tests::harness::{Cluster, FORMATION, Outcome, Process, World, condition, holds, scenario, spec, until};

/// The image of every other scenario.
const USUAL: &str = "etcd-agent:dev";

fn agent_image(pod: &Pod) -> Option<&str> {
    let containers = pod.spec.as_ref()?.init_containers.as_ref()?;
    let agent = containers.iter().find(|container| container.name == "agent")?;
    agent.image.as_deref()
}

fn restarts_of_etcd(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).sum()
}

async fn members_with(cluster: &Cluster<'_>, image: &str) -> Result<Vec<String>> {
    let pods = cluster.pods().await?;
    let with = pods.iter().filter(|pod| agent_image(pod) == Some(image));
    Ok(with.map(ResourceExt::name_any).collect())
}

/// All Pods of the operator's at once, whatever became of the scenario.
async fn back_to_usual(world: &World) -> Result<()> {
    world.stage.operator().set_agent_image(USUAL).await
}

/// etcd's processes, which an agent's image is none of.
async fn etcds(cluster: &Cluster<'_>) -> Result<Vec<Process>> {
    let mut all = Vec::new();
    for member in cluster.member_names().await? {
        all.push(cluster.etcd_process(&member).await?);
    }
    Ok(all)
}

#[test]
fn a_new_agent_image_comes_to_all_in_place_one_after_the_other_and_etcd_runs_on() -> Outcome {
    scenario("agent-image", async |world| {
        let operator = world.stage.operator();
        let disk = world.create("disk", &spec::disk(3)).await?;
        let memory = world.create("memory", &spec::memory(3)).await?;
        // It stays out of it until it is told otherwise.
        let paused = world
            .create(
                "paused",
                &spec::with(spec::memory(1), &json!({ "rollout": { "paused": true } })),
            )
            .await?;
        for (cluster, size) in [(&disk, 3), (&memory, 3), (&paused, 1)] {
            cluster.settled(size).await?;
        }
        let before = (etcds(&disk).await?, etcds(&memory).await?, memory.listed().await?);
        world.stage.agent_image_as("etcd-agent:next").await?;
        let writer = memory.writer().await?;
        let outcome = async {
            operator.set_agent_image("etcd-agent:next").await?;
            until("every agent has it", Duration::from_mins(3), async || {
                for cluster in [&disk, &memory] {
                    let unready = cluster.pods().await?.iter().filter(|pod| !is_ready(pod)).count();
                    assert!(unready <= 1, "{unready} Pods of {} are not ready at once", cluster.name);
                    ensure!(
                        members_with(cluster, "etcd-agent:next").await?.len() == 3,
                        "not all have it"
                    );
                    cluster.is_settled(3).await?;
                }
                Ok(())
            })
            .await?;
            ensure!(
                members_with(&paused, USUAL).await?.len() == 1,
                "the paused cluster was touched"
            );
            paused.patch(json!({ "spec": { "rollout": null } })).await?;
            until("the paused one follows", FORMATION, async || {
                ensure!(members_with(&paused, "etcd-agent:next").await?.len() == 1, "not yet");
                paused.is_settled(1).await
            })
            .await?;
            let after = (etcds(&disk).await?, etcds(&memory).await?, memory.listed().await?);
            ensure!(after == before, "an etcd was restarted, or a member changed");
            for pod in [disk.pods().await?, memory.pods().await?].concat() {
                ensure!(
                    restarts_of_etcd(&pod) == 0,
                    "a container of {} was restarted",
                    pod.name_any()
                );
            }
            Ok(())
        }
        .await;
        back_to_usual(world).await?;
        outcome?;
        let written = writer.stop().await?;
        println!("longest gap of a writer: {:?}", written.longest_gap);
        written.is_in(&mut memory.etcd().await?).await
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    ready.is_some_and(|ready| ready.status == "True")
}

#[test]
fn u23_a_bad_agent_image_stops_at_one_member_and_a_good_one_heals_it() -> Outcome {
    scenario("u23", async |world| {
        let operator = world.stage.operator();
        let one = world.create("one", &spec::memory(3)).await?;
        let two = world.create("two", &spec::memory(3)).await?;
        one.settled(3).await?;
        two.settled(3).await?;
        let before = (etcds(&one).await?, etcds(&two).await?);
        let writers = [one.writer().await?, two.writer().await?];
        let bad = "localhost/no-such-agent:1";
        let outcome = async {
            operator.set_agent_image(bad).await?;
            let hit = until(
                "the rollout is halted, and a condition says so",
                FORMATION,
                async || {
                    for cluster in [&one, &two] {
                        let conditions = cluster.status().await?.conditions;
                        if let Ok(halted) = condition(&conditions, "RolloutHalted") {
                            ensure!(halted.status == "True" && halted.message.contains(bad), "{halted:?}");
                            return Ok(cluster);
                        }
                    }
                    anyhow::bail!("no cluster says RolloutHalted")
                },
            )
            .await?;
            holds(
                "one member of the fleet has it, and etcd serves",
                Duration::from_secs(20),
                async || {
                    let all = [members_with(&one, bad).await?, members_with(&two, bad).await?].concat();
                    ensure!(all.len() == 1, "{all:?} have the bad image");
                    ensure!(
                        hit.client_endpoints().await?.len() == 2,
                        "{:?}",
                        hit.client_endpoints().await?
                    );
                    let conditions = hit.status().await?.conditions;
                    let available = condition(&conditions, "Available")?;
                    ensure!(available.status == "True", "{available:?}");
                    Ok(())
                },
            )
            .await?;
            world.stage.agent_image_as("etcd-agent:good").await?;
            operator.set_agent_image("etcd-agent:good").await?;
            until(
                "a good image heals it, and comes to all",
                Duration::from_mins(3),
                async || {
                    for cluster in [&one, &two] {
                        cluster.is_settled(3).await?;
                        ensure!(
                            members_with(cluster, "etcd-agent:good").await?.len() == 3,
                            "not all have it"
                        );
                        let conditions = cluster.status().await?.conditions;
                        ensure!(
                            condition(&conditions, "RolloutHalted").is_err(),
                            "it still says RolloutHalted"
                        );
                    }
                    Ok(())
                },
            )
            .await
        }
        .await;
        back_to_usual(world).await?;
        outcome?;
        ensure!(
            (etcds(&one).await?, etcds(&two).await?) == before,
            "an etcd was restarted"
        );
        for (writer, cluster) in writers.into_iter().zip([&one, &two]) {
            let written = writer.stop().await?;
            println!("longest gap of a writer: {:?}", written.longest_gap);
            written.is_in(&mut cluster.etcd().await.context("no etcd")?).await?;
        }
        Ok(())
    })
}
