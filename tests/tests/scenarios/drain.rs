//! Nodes that are emptied for maintenance. Alone, on a Kubernetes of three nodes.

use std::{process::Output, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use tests::{
    harness::{FORMATION, Outcome, World, scenario_on_nodes, spec, until},
    kube::{Place, node_name},
};

use crate::nodes::{nodes_without_the_operator, spread};

/// `kubectl drain`, for so long.
fn drain(world: &World, node: &str, seconds: u32) -> tokio::task::JoinHandle<std::io::Result<Output>> {
    let mut command = world.stage.kube.kubectl();
    command.args(["drain", node, "--ignore-daemonsets", "--delete-emptydir-data"]);
    command.arg(format!("--timeout={seconds}s"));
    // Only these Pods: the operator and the DNS server are not what this is about.
    command.arg(format!("--pod-selector={}=c", crds::labels::CLUSTER));
    tokio::task::spawn_blocking(move || command.output())
}

fn uncordon(world: &World) -> Result<()> {
    for node in 1..=world.stage.kube.nodes() {
        world.stage.kubectl(&["uncordon", &node_name(node)])?;
    }
    Ok(())
}

#[test]
fn u07_of_two_nodes_drained_at_once_the_second_waits_for_the_first_ones_member() -> Outcome {
    scenario_on_nodes("u07", async |world| {
        // The volumes are local: a member cannot go elsewhere, so the second drain cannot be let through.
        let cluster = world.create("c", &spec::with(spec::disk(3), &spread())).await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let nodes = nodes_without_the_operator(world).await?;
        let [first, second] = nodes[..] else {
            anyhow::bail!("there should be two nodes without the acting operator: {nodes:?}")
        };
        let third = (1..=world.stage.kube.nodes())
            .find(|n| !nodes.contains(n))
            .context("no third node")?;
        let writer = cluster.writer_at(Place::Node(third)).await?;
        let both = [first, second].map(|node| drain(world, &node_name(node), 25));
        let outcome = async {
            let mut done = Vec::new();
            for drained in both {
                done.push(drained.await??);
            }
            let refused: Vec<String> = done
                .iter()
                .filter(|output| !output.status.success())
                .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
                .collect();
            ensure!(refused.len() == 1, "one of the two must be refused: {done:?}");
            ensure!(
                refused[0].contains("disruption budget"),
                "for another reason: {}",
                refused[0]
            );
            let pods = cluster.pods().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(ready == 2, "{ready} Pods are ready");
            let conditions = cluster.status().await?.conditions;
            let available = tests::harness::condition(&conditions, "Available")?;
            ensure!(available.status == "True", "{available:?}");
            Ok(())
        }
        .await;
        uncordon(world)?;
        outcome?;
        cluster.settled(3).await?;
        ensure!(cluster.listed().await? == before, "the member list changed");
        let written = writer.stop().await?;
        println!("longest gap of a writer: {:?}", written.longest_gap);
        written.is_in(&mut cluster.etcd().await?).await
    })
}

fn is_ready(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    ready.is_some_and(|ready| ready.status == "True") && pod.metadata.deletion_timestamp.is_none()
}

#[test]
fn u07_memory_members_move_from_two_drained_nodes_one_after_the_other() -> Outcome {
    scenario_on_nodes("u07-memory", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        let nodes = nodes_without_the_operator(world).await?;
        let third = (1..=world.stage.kube.nodes())
            .find(|n| !nodes.contains(n))
            .context("no third node")?;
        let writer = cluster.writer_at(Place::Node(third)).await?;
        let drains: Vec<_> = nodes.iter().map(|node| drain(world, &node_name(*node), 120)).collect();
        let outcome = async {
            for drained in drains {
                let output = drained.await??;
                ensure!(output.status.success(), "a node was not emptied: {output:?}");
            }
            until("all serve on the third node", FORMATION, async || {
                cluster.is_settled(3).await?;
                let there = node_name(third);
                for pod in cluster.pods().await? {
                    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
                    ensure!(node == Some(&there), "{} is on {node:?}", pod.name_any());
                }
                Ok(())
            })
            .await
        }
        .await;
        uncordon(world)?;
        outcome?;
        let written = writer.stop().await?;
        println!("longest gap of a writer: {:?}", written.longest_gap);
        ensure!(
            written.longest_gap < Duration::from_secs(30),
            "no quorum for {:?}",
            written.longest_gap
        );
        written.is_in(&mut cluster.etcd().await?).await
    })
}
