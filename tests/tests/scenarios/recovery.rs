//! A lost quorum that is recovered from what is left on disks.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use crds::{EtcdRecovery, EtcdRecoverySpec, EtcdRecoveryStatus, etcdrecovery::RecoveryPhase};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use tests::harness::{Cluster, FORMATION, Outcome, Process, World, empty, scenario, spec, until};

/// What is on a member's volume is lost, and the container with it.
async fn wipe(cluster: &Cluster<'_>, member: &str) -> Result<()> {
    let supervisor = Process::supervisor(&cluster.pod_uid(member).await?)?;
    empty(&supervisor.path(proto::pod::DATA_VOLUME))?;
    supervisor.kill()
}

fn recoveries(world: &World) -> Api<EtcdRecovery> {
    world.api()
}

async fn recover(world: &World, name: &str, spec: Value) -> Result<()> {
    let mut whole = json!({ "clusterRef": { "name": "c" } });
    if let (Value::Object(whole), Value::Object(more)) = (&mut whole, spec) {
        whole.extend(more);
    }
    let spec: EtcdRecoverySpec = serde_json::from_value(whole)?;
    let recovery = EtcdRecovery::new(name, spec);
    recoveries(world).create(&PostParams::default(), &recovery).await?;
    Ok(())
}

async fn status(world: &World, name: &str) -> Result<EtcdRecoveryStatus> {
    let recovery = recoveries(world).get(name).await?;
    recovery.status.with_context(|| format!("{name} has no status yet"))
}

async fn reaches(world: &World, name: &str, phase: RecoveryPhase, words: &str) -> Result<EtcdRecoveryStatus> {
    until(&format!("{name} is {phase:?}"), FORMATION, async || {
        let status = status(world, name).await?;
        let said: Vec<&str> = status.conditions.iter().map(|c| c.message.as_str()).collect();
        ensure!(status.phase == Some(phase), "it is {:?}: {said:?}", status.phase);
        ensure!(said.iter().any(|said| said.contains(words)), "it says {said:?}");
        Ok(status)
    })
    .await
}

async fn says_who_holds_what(cluster: &Cluster<'_>, survivor: &str) -> Result<()> {
    cluster
        .says(Duration::from_secs(30), "Available", "False", &["QuorumLost"], &[])
        .await?;
    let holds = format!("{survivor} holds a log to entry");
    cluster
        .says(
            Duration::from_secs(30),
            "RecoveryPending",
            "True",
            &["WaitingForDecision"],
            &[&holds, "a directory that is Unborn"],
        )
        .await
}

/// Three members whose volumes have room for a second history beside the first.
fn roomy(more: &serde_json::Value) -> serde_json::Value {
    let room = spec::with(spec::disk(3), &json!({ "storage": { "size": "1Gi" } }));
    spec::with(room, more)
}

#[test]
fn d13_two_lost_disks_are_said_and_a_person_recovers_from_the_third() -> Outcome {
    scenario("d13", async |world| {
        let cluster = world.create("c", &roomy(&json!({}))).await?;
        cluster.settled(3).await?;
        recover(world, "early", json!({ "fromMember": { "best": true } })).await?;
        reaches(world, "early", RecoveryPhase::Failed, "quorum stands").await?;
        let writer = cluster.writer().await?;
        until("writes", Duration::from_secs(20), async || {
            let etcd = cluster.etcd().await?.index().await?;
            ensure!(etcd > 100, "index {etcd}");
            Ok(())
        })
        .await?;
        let written = writer.stop().await?;
        let before = cluster.status().await?;
        let members = cluster.member_names().await?;
        for member in &members[..2] {
            wipe(&cluster, member).await?;
        }
        let survivor = &members[2];
        says_who_holds_what(&cluster, survivor).await?;

        recover(world, "night", json!({ "fromMember": { "name": survivor } })).await?;
        let done = reaches(world, "night", RecoveryPhase::Complete, "3 members vote").await?;
        ensure!(done.member.as_deref() == Some(survivor.as_str()), "{done:?}");
        ensure!(
            done.incarnation == Some(2) && done.mode.as_deref() == Some("Copy"),
            "{done:?}"
        );
        ensure!(
            done.candidates
                .iter()
                .filter(|candidate| candidate.why_not.is_none())
                .count()
                == 1,
            "{:?}",
            done.candidates
        );
        cluster.settled(3).await?;
        let after = cluster.status().await?;
        ensure!(after.cluster_id != before.cluster_id, "it has the old cluster ID");
        ensure!(after.incarnation == Some(2), "{:?}", after.incarnation);
        for member in cluster.member_names().await? {
            written.is_in(&mut cluster.etcd_at(&member).await?).await?;
        }
        let old: Vec<_> = before.members.iter().filter_map(|member| member.id.clone()).collect();
        let new: Vec<_> = after.members.iter().filter_map(|member| member.id.clone()).collect();
        ensure!(old.iter().all(|id| !new.contains(id)), "an old ID is there again");
        println!("{} writes kept", written.acknowledged.len());
        Ok(())
    })
}

#[test]
fn d27_a_recovery_goes_on_when_operator_agent_and_etcd_are_killed_in_it() -> Outcome {
    scenario("d27", async |world| {
        let cluster = world.create("c", &roomy(&json!({}))).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.fill("k", 50).await?;
        let members = cluster.member_names().await?;
        for member in &members[..2] {
            wipe(&cluster, member).await?;
        }
        says_who_holds_what(&cluster, &members[2]).await?;
        recover(world, "night", json!({ "fromMember": { "best": true } })).await?;
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            let pod = cluster.pod_uid(&members[2]).await?;
            // Either may be starting just now.
            let _ = Process::supervisor(&pod).and_then(Process::kill);
            let _ = Process::agent(&pod).and_then(Process::kill);
        }
        reaches(world, "night", RecoveryPhase::Complete, "3 members vote").await?;
        cluster.settled(3).await?;
        ensure!(cluster.etcd().await?.keys("k").await?.len() == 50, "keys are lost");
        ensure!(cluster.status().await?.incarnation == Some(2), "it was done twice");
        Ok(())
    })
}

#[test]
fn d30_automatic_recovers_when_the_others_are_provably_gone() -> Outcome {
    scenario("d30", async |world| {
        let automatic = json!({ "recovery": { "quorumLoss": "Automatic", "settleSeconds": 0 } });
        let cluster = world.create("c", &roomy(&automatic)).await?;
        cluster.settled(3).await?;
        cluster.etcd().await?.fill("k", 50).await?;
        let members = cluster.member_names().await?;
        for member in &members[..2] {
            wipe(&cluster, member).await?;
        }
        until("its own recovery", FORMATION, async || {
            let all = recoveries(world).list(&ListParams::default()).await?;
            ensure!(all.items.len() == 1, "{} recoveries", all.items.len());
            Ok(())
        })
        .await?;
        reaches(world, "c-2", RecoveryPhase::Complete, "3 members vote").await?;
        cluster.settled(3).await?;
        ensure!(cluster.etcd().await?.keys("k").await?.len() == 50, "keys are lost");
        Ok(())
    })
}
