//! Measures the figures. `make bench` calls it.

use std::{
    collections::BTreeMap,
    io::Write,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use clap::Parser;
use tests::bench::{
    experiment::Experiment,
    figures::{FIGURES, find},
    report::{self, Measurements},
    stand::Stand,
    timeline::Timeline,
};

/// Measures the figures, prints a table, and keeps them in target/bench/figures.json.
#[derive(Parser)]
struct Cli {
    /// Only these figures.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How often each experiment is run; the median counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Print what happens in the namespace, and when: for finding out where time goes.
    #[arg(long)]
    timeline: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run(Cli::parse())).await {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<ExitCode> {
    let experiments = selected(&cli.only)?;
    let begin = Instant::now();
    let mut measurements = Measurements::new();
    let mut failed = 0;
    for nodes in [0, 1, 3] {
        let here: Vec<Experiment> = experiments.iter().copied().filter(|e| e.nodes() == nodes).collect();
        if here.is_empty() {
            continue;
        }
        let stand = if nodes == 0 {
            None
        } else {
            Some(Stand::up(nodes).await?)
        };
        for experiment in here {
            match Box::pin(measure(experiment, stand.as_ref(), &cli, begin)).await {
                Ok(measured) => {
                    report::keep(&report::file(), &measured)?;
                    measurements.extend(measured);
                }
                Err(error) => {
                    failed += 1;
                    say(begin, &format!("{} failed: {error:#}", experiment.figures().join(", ")));
                }
            }
        }
        if let Some(stand) = stand {
            stand.down().await?;
        }
    }
    if !cli.only.is_empty() {
        measurements.retain(|id, _| cli.only.contains(id));
    }
    println!("\n{}", report::table(&measurements));
    println!("kept in {}", report::file().display());
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn selected(only: &[String]) -> Result<Vec<Experiment>> {
    if let Some(id) = only.iter().find(|id| find(id).is_none()) {
        let known: Vec<&str> = FIGURES.iter().map(|figure| figure.id).collect();
        bail!("there is no figure {id}; the figures are {}", known.join(", "));
    }
    let asked = |experiment: &Experiment| {
        let mut figures = experiment.figures().iter();
        only.is_empty() || figures.any(|id| only.iter().any(|asked| asked == id))
    };
    Ok(Experiment::ALL.iter().copied().filter(asked).collect())
}

async fn measure(experiment: Experiment, stand: Option<&Stand>, cli: &Cli, begin: Instant) -> Result<Measurements> {
    let mut runs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let warm_up = usize::from(experiment.has_warm_up());
    for number in 0..warm_up + experiment.runs(cli.runs) {
        let timeline = match stand {
            Some(stand) if cli.timeline => Some(Timeline::start(stand)),
            _ => None,
        };
        let readings = Box::pin(experiment.run(stand, number)).await;
        if let Some(timeline) = timeline {
            print!("{}", timeline.stop().await);
        }
        let counted = number >= warm_up;
        for (id, value) in readings? {
            say(
                begin,
                &format!(
                    "{id}: {value:.3}{}",
                    if counted { "" } else { " (warm-up, not counted)" }
                ),
            );
            if counted {
                runs.entry(id).or_default().push(value);
            }
        }
    }
    Ok(runs
        .iter()
        .filter_map(|(id, runs)| Some(((*id).to_owned(), report::summarize(id, runs)?)))
        .collect())
}

/// One line of progress, with the time since the start.
fn say(begin: Instant, line: &str) {
    let since = Duration::from_secs(begin.elapsed().as_secs());
    let _ = writeln!(std::io::stdout(), "[{:>4} s] {line}", since.as_secs());
}
