//! The sidecar.

use crate::cli::Paths;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    paths: Paths,
}

/// Serves until SIGTERM.
pub async fn run(args: Args) -> anyhow::Result<()> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?
        .recv()
        .await;
    drop(args.paths);
    Ok(())
}
