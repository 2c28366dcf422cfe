//! Members that hold different data and serve: found by their hashes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::harness::{Cluster, FORMATION, Outcome, Process, change, condition, holds, places, scenario, spec, until};

const KEY: &str = "d19";
const GOOD: &str = "what-was-acknowledged-by-a-quorum";
const BAD: [&str; 2] = ["what-nobody-has-ever-written-here", "what-nobody-else-has-written-here"];

/// Writes the key, and waits until it is in the databases of all members, so that no log brings it back.
async fn write(cluster: &Cluster<'_>) -> Result<()> {
    cluster.etcd().await?.put(KEY, GOOD).await?;
    for member in cluster.member_names().await? {
        let db = cluster.volume(&member).await?.database();
        until("the key is in the database", FORMATION, async || {
            ensure!(!places(&db, GOOD.as_bytes())?.is_empty(), "not yet");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Ends the members' etcds, changes the value of the key in their databases, and lets them start again. Nobody starts etcd
/// meanwhile: supervisor and agent stand still.
async fn corrupt(cluster: &Cluster<'_>, members: &[String]) -> Result<()> {
    let mut still = Vec::new();
    for member in members {
        let pod = cluster.pod_uid(member).await?;
        for process in [Process::agent(&pod)?, Process::supervisor(&pod)?] {
            process.stop()?;
            still.push(process);
        }
        let etcd = Process::etcd(&pod)?;
        etcd.kill()?;
        until("etcd has ended", FORMATION, async || {
            ensure!(!etcd.runs(), "it runs");
            Ok(())
        })
        .await?;
    }
    for (member, bad) in members.iter().zip(BAD) {
        let db = cluster.volume(member).await?.database();
        change(&db, GOOD.as_bytes(), bad.as_bytes())?;
    }
    for process in still {
        process.go_on()?;
    }
    Ok(())
}

async fn ids(cluster: &Cluster<'_>) -> Result<Vec<(String, String)>> {
    let listed = cluster.listed().await?;
    Ok(listed.into_iter().map(|member| (member.name, member.id)).collect())
}

/// The member comes back with another ID and the right value; all others stay who they are.
async fn is_replaced(cluster: &Cluster<'_>, bad: &str, before: &[(String, String)]) -> Result<()> {
    until("the bad one is replaced", Duration::from_secs(150), async || {
        let now = ids(cluster).await?;
        for member in before {
            ensure!(now.contains(member) == (member.0 != bad), "listed are {now:?}");
        }
        cluster.is_settled(3).await
    })
    .await?;
    let value = cluster.etcd_at(bad).await?.get_here(KEY).await?;
    ensure!(value.as_deref() == Some(GOOD), "it holds {value:?}");
    Ok(())
}

#[test]
fn d19_a_member_whose_data_differ_silently_is_found_and_replaced() -> Outcome {
    scenario("d19", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        write(&cluster).await?;
        let before = ids(&cluster).await?;
        let bad = before.first().context("no member")?.0.clone();
        let start = std::time::Instant::now();
        corrupt(&cluster, std::slice::from_ref(&bad)).await?;
        // Found and confirmed it is replaced at once: the condition may be over before anybody looks.
        is_replaced(&cluster, &bad, &before).await?;
        println!("replaced after {:.1} s", start.elapsed().as_secs_f32());
        until("the condition goes", FORMATION, async || {
            ensure!(
                condition(&cluster.status().await?.conditions, "DataDiverged").is_err(),
                "it stands"
            );
            Ok(())
        })
        .await
    })
}

#[test]
fn d19_members_of_whom_no_majority_holds_the_same_are_told_of_and_left_alone() -> Outcome {
    scenario("d19-all", async |world| {
        let cluster = world
            .create("c", &spec::with(spec::disk(3), &json!({ "version": "3.7.3" })))
            .await?;
        cluster.settled(3).await?;
        write(&cluster).await?;
        let before = ids(&cluster).await?;
        let members = cluster.member_names().await?;
        corrupt(&cluster, &members[1..]).await?;
        cluster
            .says(
                Duration::from_mins(2),
                "DataDiverged",
                "True",
                &["NoMajority"],
                &[&members[0], &members[1], &members[2]],
            )
            .await?;
        holds("nobody is touched", Duration::from_secs(20), async || {
            ensure!(ids(&cluster).await? == before, "the list changed");
            Ok(())
        })
        .await
    })
}

#[test]
fn d19_a_corrupt_alarm_leads_to_the_bad_member_and_not_to_the_one_it_names() -> Outcome {
    scenario("d19-alarm", async |world| {
        let cluster = world
            .create("c", &spec::with(spec::disk(3), &json!({ "version": "3.5.35" })))
            .await?;
        cluster.settled(3).await?;
        // One that nothing lies behind goes by itself, once the members were found equal.
        let named = cluster.listed().await?.first().context("no member")?.id.clone();
        cluster.etcd().await?.raise_corrupt(&named).await?;
        until("writes are taken again", FORMATION, async || {
            cluster.etcd().await?.put("after", "1").await
        })
        .await?;
        write(&cluster).await?;
        let before = ids(&cluster).await?;
        let bad = before.last().context("no member")?.0.clone();
        corrupt(&cluster, std::slice::from_ref(&bad)).await?;
        cluster.etcd().await?.raise_corrupt(&before[0].1).await?;
        is_replaced(&cluster, &bad, &before).await?;
        until("writes are taken again", FORMATION, async || {
            cluster.etcd().await?.put("after", "2").await
        })
        .await
    })
}
