//! `make soak`: faults from a seed on real clusters, and clients whose history is checked at the end.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Parser;

/// Faults for as long as one likes.
#[derive(Parser)]
struct Cli {
    /// How long new rounds of faults begin.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// What happens; the same number, the same faults in the same order. One is chosen and printed where none is given.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let seed = cli.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("soak: {} minutes with SEED={seed}", cli.minutes);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(tests::soak::run(seed, Duration::from_mins(cli.minutes)));
    Ok(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak failed: {error:#}");
            ExitCode::FAILURE
        }
    })
}
