//! Nodes that are cut off or lose their power. Alone, on a Kubernetes of three nodes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use tests::harness::{FORMATION, OPERATOR_NAMESPACE, Outcome, World, scenario_on_nodes, spec, until};

/// One member a node.
pub(crate) fn spread() -> Value {
    json!({ "topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "etcd-operator.cozystack.io/cluster": "c" } },
    }] })
}

/// The node that the operator acts from stays; the other two go.
pub(crate) async fn nodes_without_the_operator(world: &World) -> Result<Vec<u8>> {
    let leader = world.stage.operator().leader().await?;
    let node = leader
        .spec
        .and_then(|spec| spec.node_name)
        .context("the operator has no node")?;
    let all = 1..=world.stage.kube.nodes();
    Ok(all.filter(|n| tests::kube::node_name(*n) != node).collect())
}

pub(crate) async fn nodes_ready(world: &World) -> Result<()> {
    use k8s_openapi::api::core::v1::Node;
    let nodes: kube::Api<Node> = kube::Api::all(world.stage.client.clone());
    for node in nodes.list(&kube::api::ListParams::default()).await? {
        let conditions = node
            .status
            .clone()
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let ready = conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if !ready {
            bail!("{} is not ready", node.name_any());
        }
    }
    Ok(())
}

#[test]
fn quorum_lost_with_two_nodes_cut_off_is_said_and_passes_when_they_are_back() -> Outcome {
    scenario_on_nodes("cut-off", async |world| {
        let kube = &world.stage.kube;
        let cluster = world.create("c", &spec::with(spec::disk(3), &spread())).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let before = cluster.listed().await?;
        let lost = nodes_without_the_operator(world).await?;
        let start = Instant::now();
        for node in &lost {
            kube.cut_off(*node).await?;
        }
        let said = cluster
            .says(Duration::from_secs(30), "Available", "False", &["QuorumLost"], &[])
            .await;
        println!("quorum loss was said after {:.1} s", start.elapsed().as_secs_f32());
        for node in &lost {
            kube.reconnect(*node).await?;
        }
        said?;
        until("the nodes are back", FORMATION, async || nodes_ready(world).await).await?;
        cluster.settled(3).await?;
        ensure!(cluster.listed().await? == before, "the member list changed");
        cluster.has("before").await?;
        Ok(())
    })
}

#[test]
fn the_leaders_node_cut_off_is_no_lost_quorum() -> Outcome {
    scenario_on_nodes("leader-cut", async |world| {
        let kube = &world.stage.kube;
        let cluster = world.create("c", &spec::with(spec::disk(3), &spread())).await?;
        cluster.settled(3).await?;
        let others = nodes_without_the_operator(world).await?;
        // One whose node can be cut off without the operator must lead.
        let (leader, node) = until("a leader elsewhere", FORMATION, async || {
            let leader = cluster.leader().await?;
            let on = cluster.pod(&leader).await?.spec.and_then(|spec| spec.node_name);
            let node = others
                .iter()
                .find(|n| on.as_deref() == Some(&tests::kube::node_name(**n)));
            let Some(node) = node else {
                cluster.etcd_process(&leader).await?.kill()?;
                tokio::time::sleep(Duration::from_secs(3)).await;
                bail!("{leader} leads on the operator's node")
            };
            Ok((leader, *node))
        })
        .await?;
        cluster.settled(3).await?;
        let since = cluster.transition("Available").await?;
        kube.cut_off(node).await?;
        let outcome = cluster
            .says(
                Duration::from_secs(30),
                "Degraded",
                "True",
                &["MembersUnhealthy"],
                &[&leader],
            )
            .await;
        kube.reconnect(node).await?;
        outcome?;
        until("the nodes are back", FORMATION, async || nodes_ready(world).await).await?;
        cluster.settled(3).await?;
        let now = cluster.transition("Available").await?;
        ensure!(now == since, "Available changed at {now:?}");
        Ok(())
    })
}

#[test]
fn d22_n06_after_a_power_cut_of_every_node_disk_members_come_back_with_no_operator() -> Outcome {
    scenario_on_nodes("power", async |world| {
        let kube = &world.stage.kube;
        let operator = world.stage.operator();
        let cluster = world.create("c", &spec::with(spec::disk(3), &spread())).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let before = cluster.listed().await?;
        operator.stop().await?;
        let pods = cluster.pods().await?;
        let outcome = async {
            for node in 1..=kube.nodes() {
                kube.node_power_off(node).await?;
            }
            for node in 1..=kube.nodes() {
                kube.node_power_on(node).await?;
            }
            until("etcd serves again", FORMATION, async || {
                cluster.has("before").await?;
                ensure!(cluster.listed().await? == before, "the member list changed");
                let now = cluster.pods().await?;
                let uids =
                    |pods: &[k8s_openapi::api::core::v1::Pod]| pods.iter().map(ResourceExt::uid).collect::<Vec<_>>();
                ensure!(
                    uids(&now) == uids(&pods),
                    "in {OPERATOR_NAMESPACE} nobody runs, and yet Pods were replaced"
                );
                Ok(())
            })
            .await
        }
        .await;
        operator.start().await?;
        outcome?;
        cluster.settled(3).await
    })
}
