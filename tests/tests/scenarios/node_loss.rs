//! Nodes that die for good or for a while, and what becomes of the members on them. Alone, on a Kubernetes of three nodes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tests::{
    harness::{Cluster, FORMATION, Listed, Outcome, World, Written, holds, scenario_on_nodes, spec, until},
    kube::{Place, node_name},
};

use crate::nodes::{nodes_ready, nodes_without_the_operator, spread};

/// So long is a dead node waited for here; Kubernetes notices it after 6 s.
const PATIENCE: u32 = 5;

/// One member a node if that is possible, so that there is room for a new one when a node is gone.
fn apart() -> Value {
    json!({
        "recovery": { "nodeLossSeconds": PATIENCE },
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": { "matchLabels": { "etcd-operator.cozystack.io/cluster": "c" } },
            },
        }] } },
    })
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// A node with just one member, where the operator does not act from: its number, and the member.
async fn victim(world: &World, cluster: &Cluster<'_>) -> Result<(u8, String)> {
    let pods = cluster.pods().await?;
    for node in nodes_without_the_operator(world).await? {
        let name = node_name(node);
        let there: Vec<_> = pods.iter().filter(|pod| node_of(pod) == Some(&name)).collect();
        if let [pod] = there[..] {
            return Ok((node, pod.name_any()));
        }
    }
    bail!("every node without the operator has no member, or several")
}

fn another_than(world: &World, node: u8) -> Place {
    Place::Node(if node == world.stage.kube.nodes() { 1 } else { node + 1 })
}

/// The member is out, another one votes in its place, and the rest is as it was.
async fn is_replaced(cluster: &Cluster<'_>, before: &[Listed], lost: &str) -> Result<Vec<Listed>> {
    cluster.is_settled(3).await?;
    let now = cluster.listed().await?;
    ensure!(
        now.iter().all(|member| member.name != lost),
        "{lost} is still a member: {now:?}"
    );
    // What was read first may be older than the loss: asking a dead member takes its time.
    ensure!(
        now.len() == 3 && now.iter().all(|member| !member.learner),
        "not three voters: {now:?}"
    );
    let stay: Vec<_> = before.iter().filter(|member| member.name != lost).collect();
    ensure!(
        stay.iter().all(|member| now.contains(member)),
        "others changed: {before:?} became {now:?}"
    );
    Ok(now)
}

/// The object and the Pod are on their way out, and not by force: the dead node has not said that the Pod is gone.
async fn waits_for_its_pod(cluster: &Cluster<'_>, lost: &str, uid: &str) -> Result<()> {
    let member = cluster.member(lost).await?;
    ensure!(
        member.metadata.deletion_timestamp.is_some(),
        "{lost} is not on its way out"
    );
    let pod = cluster.pod(lost).await?;
    ensure!(pod.uid().as_deref() == Some(uid), "another Pod");
    ensure!(
        pod.metadata
            .deletion_grace_period_seconds
            .is_some_and(|seconds| seconds > 0),
        "the Pod is deleted by force"
    );
    Ok(())
}

async fn is_gone(cluster: &Cluster<'_>, lost: &str) -> Result<()> {
    let names = cluster.member_names().await?;
    ensure!(!names.contains(&lost.to_owned()), "the object {lost} is still there");
    let pods = cluster.pods().await?;
    ensure!(
        pods.iter().all(|pod| pod.name_any() != lost),
        "the Pod {lost} is still there"
    );
    Ok(())
}

/// N01, N02: power is lost, and the data with it or out of reach.
async fn replaced_when_its_node_dies(world: &World, base: Value) -> Result<()> {
    let kube = &world.stage.kube;
    let cluster = world.create("c", &spec::with(base, &apart())).await?;
    cluster.settled(3).await?;
    let before = cluster.listed().await?;
    let (node, lost) = victim(world, &cluster).await?;
    let uid = cluster.pod_uid(&lost).await?;
    let writer = cluster.writer_at(another_than(world, node)).await?;
    let start = Instant::now();
    kube.node_power_off(node).await?;
    let outcome = async {
        let now = until(
            "another member has taken its place",
            Duration::from_mins(2),
            async || is_replaced(&cluster, &before, &lost).await,
        )
        .await?;
        println!("{lost} was replaced after {:.1} s", start.elapsed().as_secs_f32());
        ensure!(start.elapsed() >= Duration::from_secs(PATIENCE.into()), "too early");
        waits_for_its_pod(&cluster, &lost, &uid).await?;
        let written = writer.stop().await?;
        println!("longest gap of a writer: {:?}", written.longest_gap);
        all_there(&cluster, &written).await?;
        Ok::<_, anyhow::Error>(now)
    }
    .await;
    kube.node_power_on(node).await?;
    until("the node is back", FORMATION, async || nodes_ready(world).await).await?;
    let now = outcome?;
    until("the old member ends", FORMATION, async || {
        is_gone(&cluster, &lost).await
    })
    .await?;
    cluster.settled(3).await?;
    let after = cluster.listed().await?;
    ensure!(
        after == now,
        "the member list changed when the node was back: {now:?} became {after:?}"
    );
    Ok(())
}

#[test]
fn n01_a_memory_member_whose_node_died_is_replaced_by_a_new_one_elsewhere() -> Outcome {
    scenario_on_nodes("n01", async |world| {
        replaced_when_its_node_dies(world, spec::memory(3)).await
    })
}

#[test]
fn n02_a_member_on_a_local_volume_whose_node_died_is_replaced_by_a_new_one_elsewhere() -> Outcome {
    scenario_on_nodes("n02", async |world| {
        replaced_when_its_node_dies(world, spec::disk(3)).await
    })
}

#[test]
fn n03_a_member_whose_volume_can_move_comes_back_on_another_node_as_itself() -> Outcome {
    scenario_on_nodes("n03", async |world| {
        let kube = &world.stage.kube;
        let shared = json!({ "storage": { "storageClassName": "shared" } });
        let cluster = world
            .create("c", &spec::with(spec::with(spec::disk(3), &shared), &apart()))
            .await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.put("before", "1").await?;
        let before = cluster.listed().await?;
        let (node, moved) = victim(world, &cluster).await?;
        let name = node_name(node);
        kube.node_power_off(node).await?;
        let outcome = async {
            cluster
                .says(
                    FORMATION,
                    "Progressing",
                    "True",
                    &["SpecChanged"],
                    &[&name, &moved, "out-of-service"],
                )
                .await?;
            let patience = Duration::from_secs(u64::from(PATIENCE) + 5);
            holds("nobody is replaced", patience, async || {
                ensure!(cluster.listed().await? == before, "the member list changed");
                Ok(())
            })
            .await?;
            world.stage.kubectl(&[
                "taint",
                "node",
                &name,
                "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
            ])?;
            until("it serves on another node", Duration::from_mins(2), async || {
                cluster.is_settled(3).await?;
                let pod = cluster.pod(&moved).await?;
                ensure!(node_of(&pod).is_some_and(|there| there != name), "still on {name}");
                Ok(())
            })
            .await?;
            ensure!(cluster.listed().await? == before, "another member, or another ID");
            cluster
                .etcd_at(&moved)
                .await?
                .get("before")
                .await?
                .context("the data are gone")
        }
        .await;
        kube.node_power_on(node).await?;
        until("the node is back", FORMATION, async || nodes_ready(world).await).await?;
        // It is there only when the scenario got so far.
        let _ = world
            .stage
            .kubectl(&["taint", "node", &name, "node.kubernetes.io/out-of-service-"]);
        outcome?;
        cluster.settled(3).await
    })
}

#[test]
fn n04_a_replaced_member_whose_node_comes_back_ends_and_nothing_else_happens() -> Outcome {
    scenario_on_nodes("n04", async |world| {
        let kube = &world.stage.kube;
        // Its Pod is not evicted, so its etcd runs when the node is back.
        let stays = json!({ "scheduling": tolerant() });
        let cluster = world
            .create("c", &spec::with(spec::with(spec::memory(3), &apart()), &stays))
            .await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let (node, lost) = victim(world, &cluster).await?;
        let etcd = cluster.etcd_process(&lost).await?;
        kube.cut_off(node).await?;
        let replaced = until(
            "another member has taken its place",
            Duration::from_mins(2),
            async || is_replaced(&cluster, &before, &lost).await,
        )
        .await;
        let ran = etcd.runs();
        kube.reconnect(node).await?;
        let now = replaced?;
        ensure!(ran, "its etcd had ended before the node was back");
        until("the old member ends", FORMATION, async || {
            ensure!(!etcd.runs(), "its etcd runs on");
            is_gone(&cluster, &lost).await
        })
        .await?;
        until("the node is back", FORMATION, async || nodes_ready(world).await).await?;
        holds("nothing else happens", Duration::from_secs(10), async || {
            ensure!(cluster.listed().await? == now, "the member list changed");
            Ok(())
        })
        .await?;
        cluster.settled(3).await
    })
}

/// Pods stay on a node that is not heard, as with Kubernetes' usual 300 s.
fn tolerant() -> Value {
    let tolerate = |key: &str| {
        json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300 })
    };
    json!({ "tolerations": [tolerate("not-ready"), tolerate("unreachable")] })
}

#[test]
fn n05_the_leaders_node_cut_off_for_a_minute_costs_no_member_and_no_write() -> Outcome {
    scenario_on_nodes("n05", async |world| {
        let kube = &world.stage.kube;
        let changes = json!({ "scheduling": tolerant() });
        let cluster = world
            .create("c", &spec::with(spec::with(spec::memory(3), &spread()), &changes))
            .await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let leader = leader(&cluster).await?;
        let pod = cluster.pod(&leader).await?;
        let node = (1..=kube.nodes())
            .find(|n| node_of(&pod) == Some(&node_name(*n)))
            .context("the leader has no node")?;
        let pods: Vec<_> = cluster.pods().await?.iter().map(ResourceExt::uid).collect();
        let writer = cluster.writer_at(another_than(world, node)).await?;
        kube.cut_off(node).await?;
        let others: Vec<String> = cluster
            .member_names()
            .await?
            .into_iter()
            .filter(|m| *m != leader)
            .collect();
        let apart = holds_for_a_minute(&cluster, &others, &leader, &before).await;
        kube.reconnect(node).await?;
        apart?;
        until("the node is back", FORMATION, async || nodes_ready(world).await).await?;
        cluster.settled(3).await?;
        ensure!(cluster.listed().await? == before, "the member list changed");
        let now: Vec<_> = cluster.pods().await?.iter().map(ResourceExt::uid).collect();
        ensure!(now == pods, "a Pod was replaced");
        let written = writer.stop().await?;
        println!("longest gap of a writer: {:?}", written.longest_gap);
        all_there(&cluster, &written).await
    })
}

/// No acknowledged write is lost. Reading all of them may take a busy machine more than one try.
async fn all_there(cluster: &Cluster<'_>, written: &Written) -> Result<()> {
    until("every acknowledged write is there", FORMATION, async || {
        written.is_in(&mut cluster.etcd().await?).await
    })
    .await
}

async fn holds_for_a_minute(cluster: &Cluster<'_>, others: &[String], former: &str, before: &[Listed]) -> Result<()> {
    let start = Instant::now();
    until("the others have another leader", Duration::from_secs(20), async || {
        let mut etcd = cluster.etcd_at(&others[0]).await?;
        let leader = etcd.status().await?.leader();
        let id = format!("{leader:016x}");
        let former = before.iter().find(|member| member.name == former);
        ensure!(
            leader != 0 && former.is_some_and(|former| former.id != id),
            "still {id}"
        );
        Ok(())
    })
    .await?;
    println!("the others had a leader after {:.1} s", start.elapsed().as_secs_f32());
    let left = Duration::from_mins(1).saturating_sub(start.elapsed());
    holds("nobody is replaced", left, async || {
        let now = cluster.etcd_at(&others[0]).await?.members().await?;
        ensure!(now == before, "the member list changed: {now:?}");
        Ok(())
    })
    .await
}

/// The member that leads, by its own word.
async fn leader(cluster: &Cluster<'_>) -> Result<String> {
    for member in cluster.member_names().await? {
        let status = cluster.etcd_at(&member).await?.status().await?;
        let own = status.header().context("an answer without a header")?.member_id();
        if status.leader() == own {
            return Ok(member);
        }
    }
    bail!("nobody leads")
}

#[test]
fn a_member_that_is_annotated_gets_another_volume() -> Outcome {
    scenario_on_nodes("replace", async |world| {
        let cluster = world.create("c", &spec::with(spec::disk(3), &apart())).await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let old = before[0].name.clone();
        let patch = json!({ "metadata": { "annotations": { "etcd-operator.cozystack.io/replace": "true" } } });
        world
            .api::<crds::EtcdMember>()
            .patch(&old, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        until("another member has taken its place", FORMATION, async || {
            is_replaced(&cluster, &before, &old).await?;
            is_gone(&cluster, &old).await
        })
        .await
    })
}
