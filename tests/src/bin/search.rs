//! The full search of the planner: states, depth and time of each part, and the figures `search-states` and
//! `search-seconds`. `make search` calls it.

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Instant};

use clap::Parser;
use tests::{
    bench::report,
    model::{
        planners::Real,
        search::{PROFILES, Search},
    },
};

/// Searches every reachable state of small clusters.
#[derive(Parser)]
struct Args {
    /// Only parts whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Stops a part after so many states; it is then not complete.
    #[arg(long)]
    most: Option<usize>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let started = Instant::now();
    let mut states = 0;
    println!("{:<44} {:>10} {:>6} {:>8}", "part", "states", "depth", "seconds");
    for profile in PROFILES.iter().filter(|profile| profile.name.contains(&args.only)) {
        let outcome = Search::new(*profile, Arc::new(Real)).run(args.threads, args.most);
        states += outcome.states;
        println!(
            "{:<44} {:>10} {:>6} {:>8.1}{}",
            profile.name,
            outcome.states,
            outcome.depth,
            outcome.took.as_secs_f64(),
            if outcome.complete { "" } else { "  (not complete)" }
        );
        if let Some(found) = outcome.found {
            println!("{found}");
            return ExitCode::FAILURE;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{:<44} {states:>10} {:>6} {seconds:>8.1}", "all", "");
    if !args.only.is_empty() || args.most.is_some() {
        return ExitCode::SUCCESS;
    }
    #[allow(clippy::cast_precision_loss, reason = "a few millions")]
    let runs = [("search-states", states as f64), ("search-seconds", seconds)];
    let figures: BTreeMap<_, _> = runs
        .into_iter()
        .filter_map(|(id, value)| Some((id.to_owned(), report::summarize(id, &[value])?)))
        .collect();
    print!("\n{}", report::table(&figures));
    match report::keep(&report::file(), &figures) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
