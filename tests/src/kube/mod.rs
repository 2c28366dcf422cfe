//! A real Kubernetes on this machine, from pinned sources, in namespaces of its own.
//!
//! ```text
//! up -> guard (host's namespaces)          proxies the API server, clears away at the end
//!         └ machine (own process, mount    etcd, API server, controllers, scheduler, volumes,
//!           and network namespaces)        the bridge between nodes
//!             ├ node 1 (again its own)     containerd, kubelet, kube-proxy, Pods
//!             └ node 2 ...
//! ```
//!
//! Nothing of it is in the host's network, mounts or process tree but the guard and what the namespaces hang on; when the
//! machine's first process dies, all of it is gone. Several clusters run side by side.

mod addons;
mod cgroups;
mod components;
mod containerd;
mod control;
mod control_plane;
mod forward;
mod guard;
mod image;
mod machine;
mod network;
mod node;
mod paths;
mod pki;
mod volumes;

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::{Deserialize, Serialize};

use control::Request;
use guard::State;

pub use components::{Binaries, CONTROL_PLANE_ETCD, ETCD, KUBERNETES};
pub use forward::Forward;
pub use image::{Image, renamed};
pub use network::node_name;
pub use paths::{Folder, project};

/// What the processes of a cluster run as; for the program `local-kube` only.
pub mod processes {
    pub use super::{containerd::fill as import, guard::run as guard, machine::run as machine, node::run as node};
}

/// How many nodes a cluster can have.
pub const MAX_NODES: u8 = 3;

/// What a cluster is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Its name, which is that of its folder too. One name, one cluster.
    pub name: String,
    /// How many nodes: 1 to [`MAX_NODES`].
    pub nodes: u8,
    /// A dead node is noticed after 6 s and its Pods are evicted 3 s later, instead of 50 s and 300 s.
    pub quick_node_loss: bool,
    /// When it ends.
    pub lifetime: Lifetime,
}

/// When a cluster ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// With the process that started it, however that ends, or when its [`LocalKube`] is dropped.
    Owner,
    /// When it is taken down.
    UntilDown,
}

impl Config {
    /// One node, the usual timings, and an end with this process.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            nodes: 1,
            quick_node_loss: false,
            lifetime: Lifetime::Owner,
        }
    }
}

/// Where lines about the progress of long work go.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    /// To standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self(Arc::new(|line| {
            let _ = writeln!(std::io::stderr(), "{line}");
        }))
    }

    /// To standard output, which its reader may have closed, and to a file.
    fn stdout(log: &Path) -> Result<Self> {
        fs::create_dir_all(log.parent().unwrap_or(Path::new(".")))?;
        let log = File::options().create(true).append(true).open(log)?;
        Ok(Self(Arc::new(move |line| {
            let _ = writeln!(std::io::stdout(), "{line}");
            let _ = writeln!(&log, "{line}");
        })))
    }

    /// Says one line.
    pub fn say(&self, line: &str) {
        (self.0)(line);
    }
}

/// A place in a cluster's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where the API server is: reaches Pods and nodes, but no Service addresses.
    ControlPlane,
    /// On a node: reaches Service addresses too.
    Node(u8),
}

/// A running cluster.
pub struct LocalKube {
    folder: Folder,
    machine: u32,
    nodes: u8,
    // Its guard, and what tells the guard that this process lives; where the cluster ends with this.
    owned: Option<(Child, ChildStdin)>,
}

impl LocalKube {
    /// Builds what is missing, starts the cluster, and waits until its nodes and its DNS work.
    ///
    /// A cluster of that name that is to end with its owner is taken down first; one that is to stay is used if it is of
    /// the same configuration.
    pub async fn up(config: Config) -> Result<Self> {
        tokio::task::spawn_blocking(move || Self::up_blocking(&config)).await?
    }

    fn up_blocking(config: &Config) -> Result<Self> {
        if !(1..=MAX_NODES).contains(&config.nodes) {
            bail!("{} nodes cannot be; use 1 to {MAX_NODES}", config.nodes);
        }
        let folder = Folder::of(&config.name)?;
        let progress = Progress::stderr();
        // Here rather than in the guard, so that a build ends when its caller is interrupted.
        Binaries::build(&progress)?;
        let images = containerd::template(&progress)?;
        // Tests that share a cluster may all want to start it at once.
        let _one_at_a_time = components::lock(&paths::cache()?.join(folder.id()))?;
        if config.lifetime == Lifetime::UntilDown
            && let Ok(found) = Self::attach(&config.name)
            && let State {
                config: ref as_now,
                images: ref images_now,
                ..
            } = State::read(&folder)?
            && (as_now, images_now) == (config, &images)
        {
            return Ok(found);
        }
        guard::take_down(&folder)?;
        fs::create_dir_all(folder.join("logs"))?;
        let log = File::options().create(true).append(true).open(folder.log("guard"))?;
        let mut guard = Command::new(program()?)
            .args(["guard", "--folder"])
            .arg(folder.path())
            .args(["--config", &serde_json::to_string(config)?])
            .stdin(if config.lifetime == Lifetime::Owner {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            // Not the caller's: whoever reads that to its end would wait for the end of the cluster.
            .stderr(log)
            .spawn()
            .context("cannot start the cluster's guard")?;
        let output = guard.stdout.take().context("the guard has no output")?;
        let input = guard.stdin.take();
        for line in BufReader::new(output).lines() {
            let line = line?;
            if line == guard::UP {
                let state = State::read(&folder)?;
                let owned = input.map(|input| (guard, input));
                return Ok(Self {
                    folder,
                    machine: state.machine,
                    nodes: config.nodes,
                    owned,
                });
            }
            progress.say(&format!("{}: {line}", config.name));
        }
        let status = guard.wait()?;
        bail!(
            "the local cluster {} did not start ({status}); see {}",
            config.name,
            folder.join("logs").display()
        )
    }

    /// A cluster that someone else has started.
    pub fn attach(name: &str) -> Result<Self> {
        let folder = Folder::of(name)?;
        let state = State::read(&folder)?;
        // The file may be a dead one's.
        if guard::try_lock(&folder)?.is_some() {
            bail!("the local cluster {name} is dead; take it down, or start it again");
        }
        Ok(Self {
            folder,
            machine: state.machine,
            nodes: state.config.nodes,
            owned: None,
        })
    }

    /// Takes a cluster down, in whatever state it is, half-way up or dead too.
    pub async fn take_down(name: &str) -> Result<()> {
        let folder = Folder::of(name)?;
        tokio::task::spawn_blocking(move || guard::take_down(&folder)).await?
    }

    /// Takes this cluster down. Nothing of it is left.
    pub async fn down(mut self) -> Result<()> {
        let folder = self.folder.clone();
        let owned = self.owned.take();
        tokio::task::spawn_blocking(move || {
            let taken_down = guard::take_down(&folder);
            if let Some((mut guard, _)) = owned {
                guard.wait()?;
            }
            taken_down
        })
        .await?
    }

    /// Where its files are.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// How many nodes it has, on or off.
    #[must_use]
    pub fn nodes(&self) -> u8 {
        self.nodes
    }

    /// The administrator's kubeconfig, for any process of this machine.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.kubeconfig()
    }

    /// A client with all rights.
    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig()).await
    }

    /// `kubectl`, to be given its arguments.
    #[must_use]
    pub fn kubectl(&self) -> Command {
        let mut kubectl = Command::new(self.folder.bin("kubectl"));
        kubectl.env("KUBECONFIG", self.kubeconfig());
        kubectl
    }

    /// Gives the image of an archive (as `Image::write`, or an image builder's `docker-archive:`) to all nodes that are on.
    pub async fn load_image(&self, archive: &Path) -> Result<()> {
        self.request(Request::LoadImage(control::absolute(archive)?)).await
    }

    /// Node `n` loses its power: all in it dies at once, its network too. Its disk and volumes stay.
    pub async fn node_power_off(&self, n: u8) -> Result<()> {
        self.request(Request::PowerOff(n)).await
    }

    /// Node `n` boots.
    pub async fn node_power_on(&self, n: u8) -> Result<()> {
        self.request(Request::PowerOn(n)).await
    }

    /// Node `n`'s network cable is pulled; its Pods run on.
    pub async fn cut_off(&self, n: u8) -> Result<()> {
        self.request(Request::CutOff(n)).await
    }

    /// Node `n`'s network cable is plugged in again.
    pub async fn reconnect(&self, n: u8) -> Result<()> {
        self.request(Request::Reconnect(n)).await
    }

    /// An empty disk takes the place of the one under this `PersistentVolume`. For volumes that no Pod uses at the time.
    pub async fn lose_volume(&self, volume: &str) -> Result<()> {
        self.request(Request::LoseVolume(volume.into())).await
    }

    /// A program of the control plane, such as `kube-apiserver`, stops answering.
    pub async fn freeze(&self, program: &str) -> Result<()> {
        self.request(Request::Freeze(program.into())).await
    }

    /// It goes on.
    pub async fn thaw(&self, program: &str) -> Result<()> {
        self.request(Request::Thaw(program.into())).await
    }

    /// A loopback port of the host that leads to an address in the cluster's network.
    pub fn forward(&self, from: Place, to: SocketAddr) -> Result<Forward> {
        Forward::start(self.namespace(from), to)
    }

    /// A command that runs in the cluster's network, else like any of the host; to be given its arguments.
    pub fn exec_in_netns(&self, place: Place, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", self.namespace(place).display()))
            .arg("--")
            .arg(program);
        command
    }

    /// The network namespace of a place, as a path of the host.
    #[must_use]
    pub fn namespace(&self, place: Place) -> PathBuf {
        match place {
            Place::ControlPlane => format!("/proc/{}/ns/net", self.machine).into(),
            Place::Node(n) => format!("/proc/{}/root{}", self.machine, network::node_namespace(n).display()).into(),
        }
    }

    async fn request(&self, request: Request) -> Result<()> {
        // Imports of large images on a busy machine take longest.
        tokio::time::timeout(Duration::from_mins(2), control::send(self.machine, &request))
            .await
            .with_context(|| format!("{request:?} was not done after 120 s"))?
    }
}

impl Drop for LocalKube {
    fn drop(&mut self) {
        if let Some((mut guard, owner)) = self.owned.take() {
            drop(owner);
            let _ = guard.wait();
        }
    }
}

/// A client for that kubeconfig.
async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// The program `local-kube`: this process's own, or where cargo puts it beside a test's.
fn program() -> Result<PathBuf> {
    let own = env::current_exe()?;
    let folders = own.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join("local-kube"));
    places.find(|path| path.is_file()).with_context(|| {
        format!(
            "local-kube is not beside {}; build it with `cargo build -p tests --bins`",
            own.display()
        )
    })
}
