//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use proto::pod;

use crate::{inspect, install, recover, serve, supervise};

/// The agent of one etcd member.
#[derive(Debug, Parser)]
#[command(name = "etcd-agent", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy this binary into the run volume, and end.
    Install(install::Args),
    /// Run as the sidecar: watch the data directory, serve the operator, order etcd's start.
    Serve(serve::Args),
    /// Run as PID 1 of the etcd container: start etcd on the sidecar's word.
    Supervise(supervise::Args),
    /// Go on with the recovery that is ordered on the data volume; the supervisor runs this.
    #[command(hide = true)]
    Recover(recover::Args),
    /// Tell what etcd's data directory holds, and whether etcd can start on it.
    #[command(after_help = inspect::EXIT_CODES)]
    Inspect(inspect::Args),
}

/// Where the Pod has mounted its volumes. The same for sidecar and supervisor.
#[derive(Debug, Clone, Args)]
pub struct Paths {
    /// Where the data volume is mounted.
    #[arg(long, default_value = pod::DATA_VOLUME)]
    pub data_volume: PathBuf,
    /// Where the volume shared by sidecar and supervisor is mounted.
    #[arg(long, default_value = pod::RUN_VOLUME)]
    pub run_volume: PathBuf,
    /// A folder of the data volume that is etcd's data-dir; default: the volume's root.
    #[arg(long, env = pod::env::DATA_SUBPATH, value_parser = one_component, default_value = "", hide_default_value = true)]
    pub data_subpath: String,
}

impl Paths {
    /// etcd's data-dir.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data_volume.join(&self.data_subpath)
    }

    /// The agent's folder on the data volume, beside etcd's `member/`.
    #[must_use]
    pub fn agent_folder(&self) -> PathBuf {
        self.data_volume.join(pod::AGENT_FOLDER)
    }

    /// The socket on which the sidecar listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.run_volume.join("agent.sock")
    }

    /// etcd's configuration file.
    #[must_use]
    pub fn etcd_config(&self) -> PathBuf {
        self.run_volume.join("etcd.yaml")
    }
}

/// A name that stays inside the folder it is joined to.
fn one_component(name: &str) -> Result<String, String> {
    if name.contains('/') || name == "." || name == ".." || name == pod::AGENT_FOLDER {
        return Err(format!(
            "{name:?} must be the name of one folder other than {:?}",
            pod::AGENT_FOLDER
        ));
    }
    Ok(name.to_owned())
}

/// Runs the command to its end. The exit code of `supervise` is etcd's.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Install(args) => install::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Serve(args) => on_one_thread(serve::run(args)).map(|()| ExitCode::SUCCESS),
        Command::Supervise(args) => on_one_thread(supervise::run(args)),
        Command::Recover(args) => recover::job::run(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(anyhow::Error::from),
        Command::Inspect(args) => inspect::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("etcd-agent: {error:#}");
        ExitCode::FAILURE
    })
}

/// One thread: both long-running commands wait nearly always, and each thread costs memory in every Pod.
fn on_one_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    // A look at a disk that hangs never ends; whoever waited for it could be neither stopped nor started again.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn an_end_does_not_wait_for_a_disk_that_hangs() {
        let (disk_wakes, disk) = mpsc::channel::<()>();
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let result = on_one_thread(async move {
                let (began, has_begun) = tokio::sync::oneshot::channel();
                tokio::task::spawn_blocking(move || {
                    began.send(()).unwrap();
                    disk.recv()
                });
                has_begun.await?;
                Ok(7)
            });
            ended.send(result.unwrap()).unwrap();
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(20)), Ok(7));
        drop(disk_wakes);
    }
}
