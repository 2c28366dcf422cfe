//! Clients that note all they ask and all they are answered, while everything changes: what they have seen must have been
//! possible with one etcd that never failed. Alone: the operator is killed.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tests::harness::{Cluster, Outcome, World, history, scenario, spec};

/// Enough for reads and writes to meet each other.
const CLIENTS: usize = 6;

/// One member of several is lost, in another way each time; by the number of the change.
async fn lose_a_member(cluster: &Cluster<'_>, number: usize) -> Result<()> {
    let members = cluster.member_names().await?;
    let member = members.get(number % members.len()).context("no members")?;
    match number % 3 {
        0 => cluster.delete_pod(member, true).await,
        1 => cluster.etcd_process(member).await?.kill(),
        _ => cluster.delete_pod(member, false).await,
    }
}

async fn change_everything(world: &World, cluster: &Cluster<'_>) -> Result<()> {
    for (number, size) in [3_u32, 5, 3, 1].into_iter().enumerate() {
        cluster.scale(size).await?;
        // In the middle of the change.
        world.stage.operator().crash().await?;
        cluster.settled(size as usize).await?;
        if size > 1 {
            lose_a_member(cluster, number).await?;
            cluster.settled(size as usize).await?;
        }
    }
    Ok(())
}

fn through_everything(name: &'static str, spec: &Value) -> Outcome {
    scenario(name, async |world| {
        let cluster = world.create("c", spec).await?;
        cluster.settled(1).await?;
        let clients = cluster.clients(CLIENTS, 1).await?;
        let changed = change_everything(world, &cluster).await;
        let operations = clients.stop().await?;
        println!("{name}: {}", history::summary(&operations));
        history::demand(name, &operations)?;
        changed
    })
}

#[test]
fn m02_memory_members_stay_linearizable_through_1_3_5_3_1_lost_members_and_killed_operators() -> Outcome {
    through_everything("m02-history-memory", &spec::memory(1))
}

#[test]
fn m02_disk_members_stay_linearizable_through_1_3_5_3_1_lost_members_and_killed_operators() -> Outcome {
    through_everything(
        "m02-history-disk",
        &spec::with(spec::disk(1), &json!({ "version": "3.7.3" })),
    )
}
