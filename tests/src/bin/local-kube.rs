//! The local Kubernetes by hand. `make kube-up` and `make kube-down` call it; tests use the library.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tests::kube::{Binaries, Config, Folder, Lifetime, LocalKube, Progress, processes};

/// A real Kubernetes on this machine, in namespaces of its own.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build what the cache does not have.
    Build,
    /// Start a cluster and wait until it is ready; it stays until it is taken down.
    Up {
        #[command(flatten)]
        name: Name,
        /// How many nodes, 1 to 3.
        #[arg(long, default_value_t = 1)]
        nodes: u8,
        /// Notice a dead node after 6 s instead of 50 s, and evict its Pods after 3 s more instead of 300 s.
        #[arg(long)]
        quick_node_loss: bool,
    },
    /// Take a cluster down, in whatever state it is.
    Down {
        #[command(flatten)]
        name: Name,
    },
    /// Give images from archives to all nodes.
    Load {
        #[command(flatten)]
        name: Name,
        /// Archives in docker's format.
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// End a node's power.
    PowerOff(Node),
    /// Boot a node.
    PowerOn(Node),
    /// Pull a node's network cable.
    CutOff(Node),
    /// Plug a node's network cable in again.
    Reconnect(Node),
    #[command(hide = true)]
    Guard {
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        config: String,
    },
    #[command(hide = true)]
    Machine {
        #[arg(long)]
        folder: PathBuf,
    },
    #[command(hide = true)]
    Node {
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        node: u8,
    },
    #[command(hide = true)]
    Import {
        #[arg(long)]
        root: PathBuf,
        #[arg(long)]
        archives: PathBuf,
    },
}

#[derive(clap::Args)]
struct Name {
    /// The cluster's name; it lives in the folder `.local/<name>`.
    #[arg(long, default_value = "kube")]
    name: String,
}

#[derive(clap::Args)]
struct Node {
    #[command(flatten)]
    name: Name,
    /// The node's number, from 1.
    node: u8,
}

fn main() -> Result<()> {
    // One thread: a process can only enter namespaces for itself while it has no other, and the kernel ties the end of a
    // child to the thread that started it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(Cli::parse().command))
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Build => Binaries::build(&Progress::stderr()),
        Command::Up {
            name,
            nodes,
            quick_node_loss,
        } => {
            let config = Config {
                name: name.name,
                nodes,
                quick_node_loss,
                lifetime: Lifetime::UntilDown,
            };
            let kube = LocalKube::up(config).await?;
            println!(
                "The local Kubernetes is up. export KUBECONFIG={}",
                kube.kubeconfig().display()
            );
            Ok(())
        }
        Command::Down { name } => LocalKube::take_down(&name.name).await,
        Command::Load { name, archives } => {
            let kube = LocalKube::attach(&name.name)?;
            for archive in archives {
                kube.load_image(&archive).await?;
            }
            Ok(())
        }
        Command::PowerOff(Node { name, node }) => LocalKube::attach(&name.name)?.node_power_off(node).await,
        Command::PowerOn(Node { name, node }) => LocalKube::attach(&name.name)?.node_power_on(node).await,
        Command::CutOff(Node { name, node }) => LocalKube::attach(&name.name)?.cut_off(node).await,
        Command::Reconnect(Node { name, node }) => LocalKube::attach(&name.name)?.reconnect(node).await,
        Command::Guard { folder, config } => {
            processes::guard(Folder::at(folder), serde_json::from_str::<Config>(&config)?).await
        }
        Command::Machine { folder } => processes::machine(Folder::at(folder)).await,
        Command::Node { folder, node } => processes::node(&Folder::at(folder), node),
        Command::Import { root, archives } => processes::import(&root, &archives),
    }
}
