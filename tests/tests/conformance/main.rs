//! The model of etcd against real etcds: random traces of membership calls, stops, starts and cut networks must come out
//! the same, with the same refusals. What happens is chosen by a seed, which is printed; `CONFORMANCE_SEED` replays it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod call;
mod choose;
mod network;
mod process;
mod run;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use run::Run;
use tests::harness::{Failed, Outcome};
use tokio::time::Instant;

/// One trace begins no further step after this time.
const TRACE: Duration = Duration::from_secs(50);

/// Traces of one version, two at a time; `CONFORMANCE_TRACES` for more.
const TRACES: u64 = 2;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

async fn trace(version: &str, seed: u64) -> Result<BTreeMap<String, usize>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let start = Instant::now();
    let mut run = Run::new(version).await?;
    let outcome = async {
        while start.elapsed() < TRACE {
            run.random_step(&mut random).await?;
        }
        run.end().await
    }
    .await;
    println!("etcd {version}, seed {seed}:\n  {}", run.story.join("\n  "));
    outcome.with_context(|| format!("etcd {version}, CONFORMANCE_SEED={seed}"))?;
    Ok(run.steps)
}

fn conforms(version: &str) -> Outcome {
    all(version).map_err(Failed::from)
}

fn all(version: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let seeds: Vec<u64> = if let Some(seed) = number("CONFORMANCE_SEED") {
        vec![seed]
    } else {
        let first = fastrand::u64(..1 << 32);
        (first..first + number("CONFORMANCE_TRACES").unwrap_or(TRACES)).collect()
    };
    let steps = runtime.block_on(async {
        let mut steps = BTreeMap::<String, usize>::new();
        for pair in seeds.chunks(2) {
            for counted in futures::future::join_all(pair.iter().map(|seed| trace(version, *seed))).await {
                for (answer, count) in counted? {
                    *steps.entry(answer).or_default() += count;
                }
            }
        }
        Ok::<_, anyhow::Error>(steps)
    })?;
    println!("etcd {version}, {} traces, answers: {steps:?}", seeds.len());
    Ok(())
}

#[test]
fn the_model_and_etcd_3_5_answer_the_same() -> Outcome {
    conforms("3.5.35")
}

#[test]
fn the_model_and_etcd_3_6_answer_the_same() -> Outcome {
    conforms("3.6.16")
}

#[test]
fn the_model_and_etcd_3_7_answer_the_same() -> Outcome {
    conforms("3.7.3")
}
