//! Faults for as long as one likes, one round after another, while clients note what they see: at the end every cluster
//! must be whole, and what the clients have seen must be linearizable.

#![allow(clippy::large_futures, reason = "there is one, and it is all that the process does")]

mod faults;
mod schedule;

use std::{
    collections::BTreeMap,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    harness::{
        Cluster, Stage, World,
        history::{self, Clients, Operation},
        spec,
    },
    kube::Config,
};

pub use schedule::{Fault, Round, Schedule};

/// The clusters, each with three members at first: name, version, and whether they are in memory.
pub const CLUSTERS: [(&str, &str, bool); 2] = [("disk", "3.6.16", false), ("memory", "3.7.3", true)];

const CLIENTS: usize = 4;
const NAMESPACE: &str = "soak";

/// Longest time until a cluster must be whole after a round.
const RECOVERY: Duration = Duration::from_mins(4);

/// Runs rounds of faults for that long.
pub async fn run(seed: u64, length: Duration) -> Result<()> {
    let stage = Stage::up(Config {
        nodes: 3,
        ..Config::new(NAMESPACE)
    })
    .await?;
    let world = World {
        stage: Arc::new(stage),
        namespace: NAMESPACE.into(),
    };
    world.create_namespace(NAMESPACE).await?;
    let outcome = on(&world, seed, length).await;
    if outcome.is_err() {
        let digest = world.digest().await;
        let _ = writeln!(std::io::stderr(), "{digest}");
    }
    outcome
}

async fn on(world: &World, seed: u64, length: Duration) -> Result<()> {
    let mut clusters = Vec::new();
    for (name, version, memory) in CLUSTERS {
        let base = if memory { spec::memory(3) } else { spec::disk(3) };
        let spec = spec::with(
            base,
            &json!({ "version": version, "topologySpreadConstraints": spread(name) }),
        );
        clusters.push(world.create(name, &spec).await?);
    }
    let mut clients = Vec::new();
    for cluster in &clusters {
        cluster.settled(3).await?;
        clients.push(cluster.clients(CLIENTS, seed).await?);
    }
    let begin = Instant::now();
    let rounds = rounds(world, &clusters, seed, length, begin).await;
    let mut summary: Vec<String> = rounds
        .iter()
        .flatten()
        .map(|(what, n)| format!("{what}: {n}"))
        .collect();
    for (cluster, clients) in clusters.iter().zip(clients) {
        let operations = stop(cluster, clients, rounds.is_ok()).await?;
        summary.push(format!("cluster {}: {}", cluster.name, history::summary(&operations)));
        history::demand(&format!("soak-{}", cluster.name), &operations)
            .with_context(|| format!("cluster {}, SEED={seed}", cluster.name))?;
    }
    rounds.with_context(|| format!("SEED={seed}"))?;
    let _ = write!(
        std::io::stdout(),
        "soak: {:.1} minutes with SEED={seed}, every cluster is whole, every history is linearizable\n  {}\n",
        begin.elapsed().as_secs_f32() / 60.0,
        summary.join("\n  ")
    );
    Ok(())
}

/// The clients' history; with its last look only when the cluster can be expected to answer.
async fn stop(cluster: &Cluster<'_>, clients: Clients, whole: bool) -> Result<Vec<Operation>> {
    if whole {
        let stopped = clients.stop().await;
        return stopped.with_context(|| format!("clients of {}", cluster.name));
    }
    Ok(clients.so_far())
}

async fn rounds(
    world: &World,
    clusters: &[Cluster<'_>],
    seed: u64,
    length: Duration,
    begin: Instant,
) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    let mut sizes = CLUSTERS.map(|_| 3);
    let mut slowest = Duration::ZERO;
    for (number, round) in Schedule::new(seed).enumerate() {
        if begin.elapsed() >= length {
            break;
        }
        say(begin, &format!("round {number}: {round}"));
        let start = Instant::now();
        for fault in &round.faults {
            *counts.entry(fault.kind().to_owned()).or_default() += 1;
            if let Fault::Scale { cluster, to } = fault {
                sizes[*cluster] = *to;
            }
            faults::inflict(world, clusters, fault)
                .await
                .with_context(|| format!("round {number}: {fault}"))?;
        }
        for (cluster, size) in clusters.iter().zip(sizes) {
            cluster
                .settled_within(usize::try_from(size)?, RECOVERY)
                .await
                .with_context(|| format!("round {number}: {round}"))?;
        }
        slowest = slowest.max(start.elapsed());
    }
    *counts.entry("slowest round in seconds".into()).or_default() = usize::try_from(slowest.as_secs())?;
    Ok(counts)
}

/// Members of one cluster on all nodes alike.
fn spread(cluster: &str) -> Value {
    json!([{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": { "etcd-operator.cozystack.io/cluster": cluster } },
    }])
}

fn say(begin: Instant, line: &str) {
    let _ = writeln!(std::io::stdout(), "[{:>4} s] {line}", begin.elapsed().as_secs());
}
