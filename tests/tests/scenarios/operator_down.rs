//! The operator killed, absent, or two of it. These run alone: every cluster of the stage has the same operator.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kube::ResourceExt;
use serde_json::json;
use tests::harness::{FORMATION, Outcome, Process, scenario, spec, until};

/// Moments after a change at which the operator is killed, in milliseconds: all through what it takes.
const MOMENTS: [u64; 6] = [150, 400, 800, 1_300, 2_000, 3_000];

#[test]
fn m04_m23_an_operator_killed_at_any_moment_of_formation_and_growth_ends_in_the_same_state() -> Outcome {
    scenario("m23", async |world| {
        let operator = world.stage.operator();
        for (round, moment) in MOMENTS.into_iter().enumerate() {
            // etcd 3.5 admits its learners one by one, so that there are more steps to be killed between.
            let version = if round % 2 == 0 { spec::VERSION } else { "3.5.35" };
            let name = format!("c{round}");
            let cluster = world
                .create(&name, &spec::with(spec::memory(3), &json!({ "version": version })))
                .await?;
            tokio::time::sleep(Duration::from_millis(moment)).await;
            operator.crash().await?;
            tokio::time::sleep(Duration::from_millis(1_000 + moment)).await;
            operator.crash().await?;
            cluster.settled(3).await?;
            let first = cluster.listed().await?;

            cluster.scale(5).await?;
            tokio::time::sleep(Duration::from_millis(moment)).await;
            operator.crash().await?;
            cluster.settled(5).await?;
            let grown = cluster.listed().await?;
            // M04, M05: nobody was added twice, nobody who was there had to be added again.
            ensure!(
                first.iter().all(|member| grown.contains(member)),
                "{first:?} became {grown:?}"
            );
            cluster.delete().await?;
        }
        Ok(())
    })
}

#[test]
fn u11_the_second_operator_takes_over_within_twenty_seconds() -> Outcome {
    scenario("u11", async |world| {
        let operator = world.stage.operator();
        let running = world.create("running", &spec::memory(3)).await?;
        running.settled(3).await?;
        let before = running.listed().await?;
        ensure!(operator.pods().await?.len() == 2, "there should be two operators");
        let leader = operator.leader().await?.name_any();
        let start = Instant::now();
        operator.kill_leader().await?;
        let next = world.create("next", &spec::memory(1)).await?;
        until("another one leads", Duration::from_secs(40), async || {
            let now = operator.leader().await?.name_any();
            ensure!(now != leader, "{now} still holds the Lease");
            Ok(())
        })
        .await?;
        let handover = start.elapsed();
        println!("the other operator led after {:.1} s", handover.as_secs_f32());
        ensure!(handover <= Duration::from_secs(20), "it took {handover:?}");
        next.settled(1).await?;
        running.settled(3).await?;
        ensure!(running.listed().await? == before, "the member list changed");
        Ok(())
    })
}

#[test]
fn u11_an_operator_that_is_told_to_end_hands_over_at_once() -> Outcome {
    scenario("u11-polite", async |world| {
        let operator = world.stage.operator();
        let leader = until("the operator leads", FORMATION, async || operator.leader().await)
            .await?
            .name_any();
        until("there are two", FORMATION, async || {
            ensure!(operator.pods().await?.len() == 2, "there should be two operators");
            Ok(())
        })
        .await?;
        let start = Instant::now();
        operator.end_leader().await?;
        until("another one leads", Duration::from_secs(40), async || {
            let now = operator.leader().await?.name_any();
            ensure!(now != leader, "{now} still holds the Lease");
            Ok(())
        })
        .await?;
        let handover = start.elapsed();
        println!("the other operator led after {:.1} s", handover.as_secs_f32());
        // Well below what an expired Lease takes (15 s).
        ensure!(handover <= Duration::from_secs(6), "it took {handover:?}");
        let next = world.create("next", &spec::memory(1)).await?;
        next.settled(1).await
    })
}

#[test]
fn u11_a_frozen_operator_that_goes_on_finds_its_turn_over_and_does_nothing() -> Outcome {
    scenario("u11-frozen", async |world| {
        let operator = world.stage.operator();
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        let pod = operator.leader().await?;
        let (old, uid) = (pod.name_any(), pod.uid().context("a Pod without a UID")?);
        let process = Process::operator(&uid)?;
        process.stop()?;
        let start = Instant::now();
        let outcome = async {
            // What it would find to do, had it not been for the other one.
            cluster.scale(5).await?;
            until("another one leads", Duration::from_secs(40), async || {
                let now = operator.leader().await?.name_any();
                ensure!(now != old, "{now} still holds the Lease");
                Ok(())
            })
            .await?;
            let handover = start.elapsed();
            println!("the other operator led after {:.1} s", handover.as_secs_f32());
            ensure!(handover <= Duration::from_secs(20), "it took {handover:?}");
            cluster.settled(5).await?;
            cluster.scale(3).await?;
            Ok::<_, anyhow::Error>(())
        }
        .await;
        // While the other one is at it.
        let woken = k8s_openapi::jiff::Timestamp::now();
        process.go_on()?;
        outcome?;
        until("it ends", FORMATION, async || {
            ensure!(!process.runs(), "it runs on");
            Ok(())
        })
        .await?;
        let log = until("its log is there", FORMATION, async || {
            operator.log_before_restart(&old).await
        })
        .await?;
        let done: Vec<&str> = log.lines().filter(|line| is_step_after(line, woken)).collect();
        ensure!(done.is_empty(), "it acted after its turn: {done:?}");
        ensure!(log.contains("is held by"), "it does not say why it ended: {log}");
        cluster.settled(3).await
    })
}

/// The line tells of a step that was carried out after that moment, by the second.
fn is_step_after(line: &str, moment: k8s_openapi::jiff::Timestamp) -> bool {
    let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else {
        return false;
    };
    let time = line["timestamp"].as_str().and_then(|time| time.parse().ok());
    let later = time.is_none_or(|time: k8s_openapi::jiff::Timestamp| time.as_second() >= moment.as_second());
    later && line["step"].is_string()
}

#[test]
fn d22_members_restart_by_themselves_while_there_is_no_operator() -> Outcome {
    scenario("d22", async |world| {
        let operator = world.stage.operator();
        let disk = world.create("disk", &spec::disk(3)).await?;
        let memory = world.create("memory", &spec::memory(1)).await?;
        disk.settled(3).await?;
        memory.settled(1).await?;
        disk.etcd().await?.put("before", "1").await?;
        let (listed, lone) = (disk.listed().await?, memory.listed().await?);
        operator.stop().await?;
        let outcome = async {
            let mut old = Vec::new();
            for cluster in [&disk, &memory] {
                for pod in cluster.pods().await? {
                    let uid = pod.uid().context("a Pod without a UID")?;
                    old.push(Process::etcd(&uid)?);
                    Process::supervisor(&uid)?.kill()?;
                    Process::agent(&uid)?.kill()?;
                }
            }
            until("they serve again", FORMATION, async || {
                ensure!(old.iter().all(|process| !process.runs()), "an old process runs");
                disk.etcd().await?.get("before").await?.context("the data are gone")?;
                ensure!(disk.listed().await? == listed, "the member list changed");
                ensure!(memory.listed().await? == lone, "the member list changed");
                Ok(())
            })
            .await
        }
        .await;
        operator.start().await?;
        outcome?;
        disk.settled(3).await?;
        memory.settled(1).await
    })
}
