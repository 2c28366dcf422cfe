//! The one process of a cluster in the host's own namespaces: it starts the machine, lets the host reach the API server,
//! and clears away what the machine leaves on the host when it ends: cgroups and the folder.
//!
//! The machine cannot outlive its guard: the kernel kills it with it. What a killed guard did not clear away, the next `up`
//! or `down` of that name does.

use std::{
    fs::{self, File},
    io::{self, Write},
    net::SocketAddr,
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, setsid};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::unix::pipe,
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

use super::{
    Config, Lifetime, Progress,
    cgroups::Cgroups,
    components::{Binaries, CONTROL_PLANE_ETCD},
    containerd,
    forward::Forward,
    machine::READY,
    network::CONTROL_PLANE,
    node,
    paths::Folder,
    pki, program,
};

/// What others need to know about a running cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// A process in the machine's mount and network namespaces.
    pub machine: u32,
    /// What the cluster was asked to be.
    pub config: Config,
    /// The images that its nodes started with; their name tells the versions of everything in it.
    pub images: PathBuf,
}

impl State {
    /// That of the cluster in the folder, once it is ready.
    pub(super) fn read(folder: &Folder) -> Result<Self> {
        let state = fs::read(folder.join("state.json"))
            .with_context(|| format!("no local cluster is up in {}", folder.path().display()))?;
        Ok(serde_json::from_slice(&state)?)
    }
}

/// Takes the lock of a cluster's folder, if no living guard has it. The file says whose it is.
pub(super) fn try_lock(folder: &Folder) -> Result<Option<File>> {
    loop {
        fs::create_dir_all(folder.path()).with_context(|| format!("cannot create {}", folder.path().display()))?;
        let path = folder.join("lock");
        let file = match File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
        {
            // Its last owner has just removed the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.with_context(|| format!("cannot open {}", path.display()))?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error).context("cannot lock the cluster's folder"),
        }
        // Or has removed it between the two lines above: then this lock is one on nothing.
        if fs::metadata(&path).is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino())) {
            file.set_len(0)?;
            (&file).write_all(std::process::id().to_string().as_bytes())?;
            return Ok(Some(file));
        }
    }
}

/// Takes down the cluster in that folder, in whatever state it is, and all that a dead one has left.
pub(super) fn take_down(folder: &Folder) -> Result<()> {
    if !folder.path().exists() && Cgroups::of(folder.id()).present()?.is_empty() && processes(folder)?.is_empty() {
        return Ok(());
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut asked = false;
    let lock = loop {
        if let Some(lock) = try_lock(folder)? {
            break lock;
        }
        if !asked {
            asked = true;
            if let Some(guard) = fs::read_to_string(folder.join("lock"))?
                .trim()
                .parse()
                .ok()
                .and_then(Pid::from_raw)
                && processes(folder)?.contains(&guard)
            {
                let _ = kill_process(guard, Signal::TERM);
            }
        }
        if Instant::now() > deadline {
            kill_all(folder)?;
        }
        if Instant::now() > deadline + Duration::from_secs(10) {
            bail!(
                "the lock of {} is not given up; see who holds it with `fuser`",
                folder.path().display()
            );
        }
        thread::sleep(Duration::from_millis(20));
    };
    clear(folder)?;
    remove_folder(folder)?;
    drop(lock);
    Ok(())
}

/// Kills what still runs of a cluster whose guard is dead, and removes its cgroups.
fn clear(folder: &Folder) -> Result<()> {
    kill_all(folder)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !processes(folder)?.is_empty() {
        if Instant::now() > deadline {
            bail!(
                "processes of {} do not end: {:?}",
                folder.path().display(),
                processes(folder)?
            );
        }
        thread::sleep(Duration::from_millis(10));
    }
    Cgroups::of(folder.id()).remove()
}

fn kill_all(folder: &Folder) -> Result<()> {
    for process in processes(folder)? {
        // It may have ended by itself.
        let _ = kill_process(process, Signal::KILL);
    }
    Ok(())
}

/// The guard, the machine and their wrappers: processes that were started with `--folder` and this folder. Those alone:
/// everything else of the cluster ends with the machine.
fn processes(folder: &Folder) -> Result<Vec<Pid>> {
    let wanted = [b"--folder\0", folder.path().as_os_str().as_encoded_bytes(), b"\0"].concat();
    let mut found = vec![];
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
            .and_then(Pid::from_raw)
        else {
            continue;
        };
        if pid == rustix::process::getpid() {
            continue;
        }
        // A zombie's command line is empty; a process that is gone has none.
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        if line.windows(wanted.len()).any(|window| window == wanted) {
            found.push(pid);
        }
    }
    Ok(found)
}

fn remove_folder(folder: &Folder) -> Result<()> {
    match fs::remove_dir_all(folder.path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.path().display()))
        }
        _ => Ok(()),
    }
}

/// The guard's life. Says on standard output what it is doing, at last that the cluster is ready.
pub async fn run(folder: Folder, config: Config) -> Result<()> {
    // Not to be ended with the terminal of the one who started it.
    let _ = setsid();
    let Some(lock) = try_lock(&folder)? else {
        bail!(
            "a local cluster in {} is up or coming up; take it down first",
            folder.path().display()
        );
    };
    let progress = Progress::stdout(&folder.log("guard"))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let tied = config.lifetime == Lifetime::Owner;
    let result = tokio::select! {
        result = live(&folder, &config, &progress) => result,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        gone = owner_gone(), if tied => gone,
    };
    // Dropping the future above has sent the machine its end; this waits for it.
    clear(&folder)?;
    match &result {
        Ok(()) => remove_folder(&folder)?,
        // The logs are for whoever looks into it.
        Err(error) => {
            progress.say(&format!("failed: {error:#}"));
            for entry in fs::read_dir(folder.path())? {
                let entry = entry?;
                if entry.file_name() != "logs" && entry.file_name() != "lock" {
                    let _ = if entry.file_type()?.is_dir() {
                        fs::remove_dir_all(entry.path())
                    } else {
                        fs::remove_file(entry.path())
                    };
                }
            }
        }
    }
    drop(lock);
    result
}

/// Ends when the process at the other end of standard input has.
async fn owner_gone() -> Result<()> {
    let mut input = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    while input.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
    Ok(())
}

async fn live(folder: &Folder, config: &Config, progress: &Progress) -> Result<()> {
    let images = containerd::template(progress)?;
    prepare(folder, config, &images)?;

    let mut machine = start_machine(folder)?;
    let mut lines = BufReader::new(machine.stdout.take().context("the machine has no output")?).lines();
    let first = machine.id().context("the machine ended at once")?;
    let mut api = None;
    while let Some(line) = lines.next_line().await? {
        progress.say(&line);
        if api.is_none() {
            // Its first word tells that it is in its namespaces.
            let target: SocketAddr = format!("{CONTROL_PLANE}:6443").parse()?;
            api = Some(Forward::start(format!("/proc/{first}/ns/net").into(), target)?);
        }
        if let (READY, Some(api)) = (line.as_str(), &api) {
            let state = State {
                machine: first,
                config: config.clone(),
                images: images.clone(),
            };
            fs::write(folder.join("state.json"), serde_json::to_vec_pretty(&state)?)?;
            pki::write_host_kubeconfig(folder, api.address())?;
            progress.say(&format!("kubeconfig: {}", folder.kubeconfig().display()));
            progress.say(UP);
        }
    }
    let status = machine.wait().await?;
    bail!(
        "the machine of the local cluster ended ({status}); see {}",
        folder.join("logs").display()
    )
}

/// What the guard says last when the cluster is up.
pub(super) const UP: &str = "up";

fn prepare(folder: &Folder, config: &Config, images: &Path) -> Result<()> {
    for mount_point in ["/var/lib/kubelet", "/var/lib/cni"] {
        fs::create_dir_all(mount_point)?;
    }
    fs::write(folder.join("config.json"), serde_json::to_vec_pretty(config)?)?;
    pki::write(folder, config.nodes)?;
    link_programs(folder)?;
    for n in 1..=config.nodes {
        node::create_disk(folder, config, n, images)?;
    }
    Cgroups::of(folder.id()).create(config.nodes)
}

fn link_programs(folder: &Folder) -> Result<()> {
    fs::create_dir_all(folder.join("bin"))?;
    let link = |program: &str, target: &Path| symlink(target, folder.bin(program));
    for name in [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    ] {
        link(name, &Binaries::kubernetes(name)?)?;
    }
    link("etcd", &Binaries::etcd(CONTROL_PLANE_ETCD)?)?;
    link("etcdctl", &Binaries::etcdctl(CONTROL_PLANE_ETCD)?)?;
    Ok(())
}

fn start_machine(folder: &Folder) -> Result<Child> {
    let log = File::options().create(true).append(true).open(folder.log("machine"))?;
    // The chain that ends the machine with this process: the kernel kills `unshare` when the guard dies, and its child, the
    // machine, when `unshare` does. Namespaces end with their first process.
    Command::new("setpriv")
        .args([
            "--pdeathsig",
            "KILL",
            "unshare",
            "--net",
            "--mount",
            "--propagation",
            "private",
        ])
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(program()?)
        .args(["machine", "--folder"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start setpriv; install util-linux")
}
