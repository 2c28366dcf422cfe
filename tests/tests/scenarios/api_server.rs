//! A Kubernetes API that is away, or full of what is not ours. Alone: it is everybody's.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{ResourceExt, api::PostParams};
use serde_json::json;
use tests::harness::{FORMATION, Outcome, Process, World, scenario, spec, until};

/// Long enough for the Lease to end and for every call to run into its deadline; the nodes are not lost yet.
const AWAY: Duration = Duration::from_secs(30);

#[test]
fn u12_etcd_goes_on_while_the_api_server_is_away_and_the_operator_resumes() -> Outcome {
    scenario("u12", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        let listed = cluster.listed().await?;
        let mut before = Vec::new();
        for member in cluster.member_names().await? {
            let uid = cluster.pod_uid(&member).await?;
            before.push((uid.clone(), Process::etcd(&uid)?, Process::agent(&uid)?));
        }
        let writer = cluster.writer().await?;
        // What is asked for just before is taken up afterwards.
        world.stage.kube.freeze("kube-apiserver").await?;
        tokio::time::sleep(AWAY).await;
        let still = before.iter().all(|(_, etcd, agent)| etcd.runs() && agent.runs());
        world.stage.kube.thaw("kube-apiserver").await?;
        ensure!(still, "a process of a member has ended");
        let start = Instant::now();
        until("the API server answers", FORMATION, async || cluster.get().await).await?;
        cluster.scale(1).await?;
        until("the operator acts again", FORMATION, async || {
            cluster.is_settled(1).await
        })
        .await?;
        println!(
            "the operator had done its work {:.1} s after the API server was back",
            start.elapsed().as_secs_f32()
        );
        let written = writer.stop().await?;
        println!(
            "{} writes, longest gap {:?}",
            written.acknowledged.len(),
            written.longest_gap
        );
        // etcd itself was never disturbed while the API was away; shrinking moves no leader either.
        ensure!(
            written.longest_gap < Duration::from_secs(10),
            "no write for {:?}",
            written.longest_gap
        );
        written.is_in(&mut cluster.etcd().await?).await?;
        let left = cluster.listed().await?;
        ensure!(
            left.len() == 1 && listed.contains(&left[0]),
            "{listed:?} became {left:?}"
        );
        let survivor = cluster.member_names().await?.remove(0);
        let uid = cluster.pod_uid(&survivor).await?;
        ensure!(
            before.iter().any(|(pod, etcd, _)| *pod == uid && etcd.runs()),
            "its Pod or its etcd is another one"
        );
        Ok(())
    })
}

/// Resident memory of the acting operator, in KiB.
async fn memory(world: &World) -> Result<u64> {
    let pod = world.stage.operator().leader().await?;
    let process = Process::operator(&pod.uid().context("a Pod without a UID")?)?;
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

const FOREIGN: usize = 5000;

#[test]
fn u14_five_thousand_foreign_secrets_and_pods_cost_the_operator_no_memory() -> Outcome {
    scenario("u14", async |world| {
        let cluster = world.create("c", &spec::memory(1)).await?;
        cluster.settled(1).await?;
        let crowded = format!("{}-crowded", world.namespace);
        world.create_namespace(&crowded).await?;
        let there = world.in_namespace(&crowded);
        let before = memory(world).await?;
        let start = Instant::now();
        let (secrets, pods) = (there.api::<Secret>(), there.api::<Pod>());
        let params = PostParams::default();
        let data = "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4".repeat(8);
        let made = stream::iter(0..FOREIGN).map(|number| {
            let (secrets, pods, params, data) = (&secrets, &pods, &params, &data);
            async move {
                let secret = json!({ "metadata": { "name": format!("s{number}") }, "data": { "x": data } });
                secrets.create(params, &serde_json::from_value(secret)?).await?;
                // Nobody places them.
                let pod = json!({ "metadata": { "name": format!("p{number}") }, "spec": { "schedulerName": "nobody",
                    "containers": [{ "name": "x", "image": "localhost/busybox:1" }] } });
                pods.create(params, &serde_json::from_value(pod)?).await?;
                Ok::<_, anyhow::Error>(())
            }
        });
        made.buffer_unordered(48).try_collect::<Vec<()>>().await?;
        println!("made in {:.0} s", start.elapsed().as_secs_f32());
        // It works all the same, and a process that has listed them all anew holds none of them either.
        cluster.scale(3).await?;
        cluster.settled(3).await?;
        let after = memory(world).await?;
        world.stage.operator().restart().await?;
        cluster.scale(1).await?;
        cluster.settled(1).await?;
        let anew = memory(world).await?;
        println!("operator: {before} KiB before, {after} KiB after, {anew} KiB restarted");
        world.delete_namespace(&crowded).await?;
        // 10,000 objects would be some 40 MiB.
        ensure!(
            after < before + 4096 && anew < before + 4096,
            "{before} KiB became {after} KiB, restarted {anew} KiB"
        );
        Ok(())
    })
}
