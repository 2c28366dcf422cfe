//! containerd: its configuration, its start, and images in it.
//!
//! Every node starts with the built-in images in its containerd. They are imported once into a folder of the cache; a node
//! gets that folder as hard links, which takes a moment and no room. Safe, since layers and blobs are never written again;
//! only containerd's two databases are, and those are copied.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::{
    mount::{MountFlags, mount},
    process::{Pid, Signal, kill_process},
};
use sha2::{Digest, Sha256};

use super::{
    Progress,
    components::{beside, key_of_all, lock},
    image::Image,
    paths::{cache, hex},
    program,
};

/// Where containerd listens, in a node's own `/run`.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// Starts containerd and waits until it listens. `/run` must be the caller's own.
pub(super) fn start(config: &Path, log: &Path) -> Result<Child> {
    let log_file = fs::File::options().create(true).append(true).open(log)?;
    let mut child = Command::new("containerd")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(log_file.try_clone()?)
        .stderr(log_file)
        .spawn()
        .context("cannot start containerd; install it")?;
    let deadline = Instant::now() + Duration::from_mins(1);
    while UnixStream::connect(SOCKET).is_err() {
        if let Some(status) = child.try_wait()? {
            bail!("containerd ended at its start ({status}); see {}", log.display());
        }
        if Instant::now() > deadline {
            bail!("containerd does not listen after 60 s; see {}", log.display());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(child)
}

/// The configuration of a node's containerd, with `root` and the CNI configuration in these folders.
pub(super) fn node_config(root: &Path, cni: &Path) -> String {
    format!(
        r#"{}
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
# Lowering a score needs a capability that not every machine gives.
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#,
        config(root, ""),
        cni.display()
    )
}

fn config(root: &Path, disabled: &str) -> String {
    format!(
        r#"version = 2
root = "{}"
state = "/run/containerd/state"
disabled_plugins = [{disabled}"io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{SOCKET}"
"#,
        root.display()
    )
}

/// Imports archives into the containerd that this process sees.
pub(super) fn import(archives: &[PathBuf]) -> Result<()> {
    for archive in archives {
        let output = Command::new("ctr")
            .args(["--address", SOCKET, "--namespace", "k8s.io", "images", "import"])
            .arg(archive)
            .output()
            .context("cannot start ctr; install containerd")?;
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

/// The cached containerd folder with the built-in images; made if not there.
pub(super) fn template(progress: &Progress) -> Result<PathBuf> {
    let version = Command::new("containerd")
        .arg("--version")
        .output()
        .context("cannot start containerd; install it")?;
    let mut key = Sha256::new();
    key.update(key_of_all()?);
    key.update(version.stdout);
    key.update(include_bytes!("image.rs"));
    let folder = cache()?.join(format!("images-{}", &hex(&key.finalize())[..16]));
    if folder.exists() {
        return Ok(folder);
    }
    let _lock = lock(&folder)?;
    if folder.exists() {
        return Ok(folder);
    }
    progress.say("importing the built-in images into containerd (once)");
    let unfinished = beside(&folder, "unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(&unfinished)?;
    let archives = beside(&folder, "archives");
    fs::create_dir_all(&archives)?;
    for (index, image) in Image::built_in()?.iter().enumerate() {
        image.write(&archives.join(format!("{index}.tar")))?;
    }
    let status = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ])
        .arg(program()?)
        .args(["import", "--root"])
        .arg(&unfinished)
        .arg("--archives")
        .arg(&archives)
        .stdin(Stdio::null())
        .status()
        .context("cannot start unshare; install util-linux")?;
    if !status.success() {
        bail!("importing the built-in images failed; see above");
    }
    fs::remove_dir_all(&archives)?;
    fs::rename(&unfinished, &folder)?;
    Ok(folder)
}

/// Fills a containerd folder from a folder of archives. For a process alone in its mount and process namespaces.
pub fn fill(root: &Path, archives: &Path) -> Result<()> {
    mount("run", "/run", "tmpfs", MountFlags::empty(), None)?;
    fs::create_dir_all("/run/containerd")?;
    let config_file = Path::new("/run/containerd.toml");
    // Nothing but the image store runs, so that nothing listens in the host's network.
    fs::write(config_file, config(root, "\"io.containerd.grpc.v1.cri\", "))?;
    let mut daemon = start(config_file, Path::new("/run/containerd.log"))?;
    let mut files = fs::read_dir(archives)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let imported = import(&files);
    if imported.is_err() {
        io::copy(&mut fs::File::open("/run/containerd.log")?, &mut io::stderr())?;
    }
    imported?;
    if let Some(pid) = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::TERM)?;
    }
    daemon.wait()?;
    Ok(())
}

/// Makes `to` a node's containerd folder with the built-in images.
pub(super) fn populate(template: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(
        to,
        fs::Permissions::from_mode(fs::metadata(template)?.permissions().mode()),
    )?;
    for entry in fs::read_dir(template)? {
        let entry = entry?;
        let (from, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            populate(&from, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &target)?;
        } else if from.extension().is_some_and(|extension| extension == "db") {
            fs::copy(&from, &target)?;
        } else if fs::hard_link(&from, &target).is_err() {
            // The cache is on another file system.
            fs::copy(&from, &target)?;
        }
    }
    Ok(())
}
