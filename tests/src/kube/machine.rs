//! The machine that a cluster runs on: the first process of a process, mount and network namespace of their own, which hold
//! all of the cluster. When it dies, for whatever reason, the kernel ends every process, mount and link of the cluster.

use std::{
    collections::BTreeMap,
    fs,
    future::Future,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::{
    mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change},
    process::{Pid, Signal, kill_process},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    process::{Child, Command},
    sync::Mutex as AsyncMutex,
    time::{Instant, sleep, timeout},
};

use super::{
    Config, addons,
    cgroups::Cgroups,
    client, containerd,
    control::{Answer, Request, SOCKET},
    control_plane::{self, Program},
    network,
    paths::Folder,
    program, volumes,
};

/// What the machine says when everything works.
pub(super) const READY: &str = "ready";

struct Machine {
    folder: Folder,
    config: Config,
    /// Nodes that are on, each by its `unshare`, whose one child is the node's first process.
    nodes: AsyncMutex<BTreeMap<u8, Child>>,
    /// Processes of the control plane by name.
    control_plane: Mutex<BTreeMap<&'static str, u32>>,
}

/// Runs the machine. Says on its standard output what it is doing. Returns only with an error.
pub async fn run(folder: Folder) -> Result<()> {
    let config: Config = serde_json::from_slice(&fs::read(folder.join("config.json"))?)?;
    prepare_mounts(&folder)?;
    network::create_control_plane(config.nodes)?;
    let machine = Arc::new(Machine {
        folder,
        config,
        nodes: AsyncMutex::default(),
        control_plane: Mutex::default(),
    });
    let listener = UnixListener::bind(SOCKET)?;
    println!("starting the API server and {} node(s)", machine.config.nodes);
    tokio::select! {
        failed = machine.clone().start() => failed,
        failed = serve(listener, machine) => failed,
    }
}

fn prepare_mounts(folder: &Folder) -> Result<()> {
    mount("run", "/run", "tmpfs", MountFlags::empty(), Some(c"mode=755"))?;
    fs::create_dir_all("/run/netns")?;
    // Shared, so that the nodes' mount namespaces, made later as slaves of this one, see volumes come and go.
    fs::create_dir_all(folder.volumes())?;
    mount(
        "volumes",
        folder.volumes(),
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=755,size=1m"),
    )?;
    mount_change(folder.volumes(), MountPropagationFlags::SHARED)?;
    Ok(())
}

impl Machine {
    async fn start(self: Arc<Self>) -> Result<()> {
        self.keep_running(&control_plane::etcd(&self.folder))?;
        self.keep_running(&control_plane::api_server(&self.folder, &self.config))?;
        for n in 1..=self.config.nodes {
            self.power_on(n).await?;
        }
        let client = client(&self.folder.inner_kubeconfig()).await?;
        eventually("the API server", &self.folder, async || {
            client.apiserver_version().await?;
            Ok(())
        })
        .await?;
        println!("the API server answers");
        fs::write(self.folder.join("api-ready"), "")?;
        self.keep_running(&control_plane::controllers(&self.folder, &self.config))?;
        self.keep_running(&control_plane::scheduler(&self.folder))?;
        eventually("the cluster's add-ons", &self.folder, async || {
            addons::apply(&client, self.config.nodes).await
        })
        .await?;
        let volumes = tokio::spawn(volumes::run(client.clone(), self.folder.clone()));
        eventually("the nodes", &self.folder, async || {
            addons::nodes_ready(&client, self.config.nodes).await
        })
        .await?;
        println!("the node(s) are Ready");
        eventually("CoreDNS", &self.folder, async || addons::dns_ready(&client).await).await?;
        println!("{READY}");
        volumes.await?
    }

    /// Starts a program of the control plane, and again when it ends, as a kubelet does with static Pods.
    fn keep_running(self: &Arc<Self>, program: &Program) -> Result<()> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.log(program.name))?;
        let mut command = Command::new(self.folder.bin(program.name));
        command
            .args(&program.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let (machine, name) = (self.clone(), program.name);
        tokio::spawn(async move {
            loop {
                match command.spawn() {
                    Ok(mut child) => {
                        if let Some(pid) = child.id() {
                            let mut running = machine.control_plane.lock().unwrap_or_else(PoisonError::into_inner);
                            running.insert(name, pid);
                        }
                        let status = child.wait().await;
                        println!("{name} ended ({status:?}); starting it again");
                    }
                    Err(error) => println!("cannot start {name}: {error}"),
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
        Ok(())
    }

    async fn power_on(&self, n: u8) -> Result<()> {
        let mut nodes = self.nodes.lock().await;
        if nodes.contains_key(&n) {
            return Ok(());
        }
        Cgroups::of(self.folder.id()).clear_node(n)?;
        network::create_node(n, self.config.nodes)?;
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.log(&format!("node-{n}")))?;
        let child = Command::new("nsenter")
            .arg(format!("--net={}", network::node_namespace(n).display()))
            .args([
                "unshare",
                "--mount",
                "--propagation",
                "slave",
                "--pid",
                "--fork",
                "--mount-proc",
                "--kill-child",
            ])
            .arg(program()?)
            .args(["node", "--folder"])
            .arg(self.folder.path())
            .args(["--node", &n.to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start nsenter; install util-linux")?;
        nodes.insert(n, child);
        Ok(())
    }

    async fn power_off(&self, n: u8) -> Result<()> {
        let Some(mut child) = self.nodes.lock().await.remove(&n) else {
            return Ok(());
        };
        network::connect_node(n, false)?;
        kill_process(first_process(&child)?, Signal::KILL)?;
        // Its parent ends when the kernel has ended everything in the node.
        child.wait().await?;
        network::remove_node(n)
    }

    async fn load_image(&self, archive: &Path) -> Result<()> {
        let nodes = self.nodes.lock().await;
        let mut imports = vec![];
        for node in nodes.values() {
            let import = Command::new("nsenter")
                .arg(format!("--target={}", first_process(node)?.as_raw_nonzero()))
                .args([
                    "--mount",
                    "ctr",
                    "--address",
                    containerd::SOCKET,
                    "--namespace",
                    "k8s.io",
                    "images",
                    "import",
                ])
                .arg(archive)
                .stdin(Stdio::null())
                .output();
            imports.push(import);
        }
        for output in futures::future::try_join_all(imports).await? {
            if !output.status.success() {
                bail!(
                    "cannot import {}: {}",
                    archive.display(),
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
        Ok(())
    }

    fn signal(&self, program: &str, signal: Signal) -> Result<()> {
        let running = self.control_plane.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = running
            .get(program)
            .with_context(|| format!("{program} is no program of the control plane"))?;
        Ok(kill_process(
            Pid::from_raw(pid.cast_signed()).context("no process")?,
            signal,
        )?)
    }

    async fn carry_out(&self, request: Request) -> Result<()> {
        if let Request::PowerOff(n) | Request::PowerOn(n) | Request::CutOff(n) | Request::Reconnect(n) = request
            && !(1..=self.config.nodes).contains(&n)
        {
            bail!("there is no node {n}; the nodes are 1 to {}", self.config.nodes);
        }
        match request {
            Request::PowerOff(n) => self.power_off(n).await,
            Request::PowerOn(n) => self.power_on(n).await,
            Request::CutOff(n) => network::connect_node(n, false),
            Request::Reconnect(n) => network::connect_node(n, true),
            Request::LoadImage(archive) => self.load_image(&archive).await,
            Request::LoseVolume(volume) => volumes::replace(&self.folder, &volume),
            Request::Freeze(program) => self.signal(&program, Signal::STOP),
            Request::Thaw(program) => self.signal(&program, Signal::CONT),
        }
    }
}

/// The first process of a node, the one child of its `unshare`.
fn first_process(node: &Child) -> Result<Pid> {
    let unshare = node.id().context("the node is off")?;
    let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"))?;
    let first = children
        .split_whitespace()
        .next()
        .context("the node has only just been switched on; try again")?;
    Pid::from_raw(first.parse()?).context("no process")
}

async fn serve(listener: UnixListener, machine: Arc<Machine>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let machine = machine.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(stream, &machine).await {
                println!("a request was not answered: {error:#}");
            }
        });
    }
}

async fn answer(stream: UnixStream, machine: &Machine) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let result: Answer = match serde_json::from_str(&line) {
        Ok(request) => machine.carry_out(request).await.map_err(|error| format!("{error:#}")),
        Err(error) => Err(format!("no request: {error}")),
    };
    let mut line = serde_json::to_vec(&result)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    Ok(())
}

/// Tries until it works, for two minutes.
async fn eventually<F: Future<Output = Result<()>>>(
    what: &str,
    folder: &Folder,
    attempt: impl Fn() -> F,
) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        // A request to a server that has just begun to listen can hang.
        let error = match timeout(Duration::from_secs(5), attempt()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("no answer within 5 s"),
        };
        if Instant::now() > deadline {
            return Err(error.context(format!(
                "{what} did not come up in 120 s; see {}",
                folder.join("logs").display()
            )));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Takes a mount away even if something still uses it.
pub(super) fn detach(path: &Path) -> Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot unmount {}", path.display())),
    }
}
