//! `etcd-agent supervise`: PID 1 of the etcd container. It starts etcd on the sidecar's word, passes its output on, and
//! reports how it fares; it ends only when it is told to by SIGTERM.
//!
//! | module | what it is |
//! |---|---|
//! | [`rules`], [`exit`], [`watchdog`], [`tail`], [`state`] | pure: when etcd may start, what an end means, when it hangs, what it last wrote, what is told |
//! | [`folder`], [`counters`] | the data volume, what is counted over restarts of the supervisor itself |
//! | [`output`], [`reaper`], [`probe`], [`oom`], [`link`] | etcd's pipes, ends of processes, the question whether it answers, kills for memory, the socket |
//! | [`handover`] | taking a newer binary without etcd noticing |
//! | [`supervisor`], `running`, `orders`, `recovery` | the loop that ties them together |

pub mod counters;
pub mod exit;
pub mod folder;
pub mod handover;
pub mod link;
pub mod oom;
mod orders;
pub mod output;
pub mod probe;
pub mod reaper;
mod recovery;
pub mod rules;
mod running;
pub mod state;
pub mod supervisor;
pub mod tail;
pub mod watchdog;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::Paths;
pub use tail::MAX_LINE_BYTES;

/// Arguments of `supervise`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    paths: Paths,
    /// The etcd to run.
    #[arg(long, default_value = "/usr/local/bin/etcd")]
    etcd: PathBuf,
    /// Seconds without any HTTP answer after which a running etcd counts as hung.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    watchdog_patience: u16,
    /// Take over from the program that this one has replaced.
    #[arg(long = "resume", hide = true)]
    resume: bool,
}

/// Supervises until SIGTERM; the exit code is etcd's.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    supervisor::run(args).await
}
