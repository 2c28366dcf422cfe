//! The cgroups of one cluster: one folder of its own in each hierarchy, one folder a node below it. Works with cgroup v1
//! (each controller its own hierarchy) and with v2.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

const ROOT: &str = "/sys/fs/cgroup";

/// The cgroups of one cluster.
#[derive(Clone, Debug)]
pub(super) struct Cgroups {
    id: String,
}

impl Cgroups {
    /// Those of the cluster with that id; see `Folder::id`.
    pub(super) fn of(id: String) -> Self {
        Self { id }
    }

    /// The kubelet's `cgroupRoot` of node `n`.
    pub(super) fn node_root(&self, n: u8) -> String {
        format!("/{}/n{n}", self.id)
    }

    /// Makes the folders of nodes `1..=nodes` in all hierarchies.
    pub(super) fn create(&self, nodes: u8) -> Result<()> {
        let v2 = is_v2();
        for hierarchy in hierarchies()? {
            let cluster = hierarchy.join(&self.id);
            fs::create_dir_all(&cluster).with_context(|| format!("cannot create the cgroup {}", cluster.display()))?;
            if v2 {
                delegate(&hierarchy)?;
                delegate(&cluster)?;
            }
            inherit_cpuset(&cluster)?;
            for n in 1..=nodes {
                let node = cluster.join(format!("n{n}"));
                fs::create_dir_all(&node)?;
                if v2 {
                    delegate(&node)?;
                }
                inherit_cpuset(&node)?;
            }
        }
        Ok(())
    }

    /// Removes what the containers of a node that is off have left: the kubelet takes seconds over each stale one.
    pub(super) fn clear_node(&self, n: u8) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        for hierarchy in hierarchies()? {
            remove_tree(&hierarchy.join(&self.id).join(format!("n{n}/kubepods")), deadline)?;
        }
        Ok(())
    }

    /// Removes all of them. Processes in them must be dead or dying.
    pub(super) fn remove(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        for hierarchy in hierarchies()? {
            remove_tree(&hierarchy.join(&self.id), deadline)?;
        }
        Ok(())
    }

    /// Those that are there.
    pub(super) fn present(&self) -> Result<Vec<PathBuf>> {
        Ok(hierarchies()?
            .into_iter()
            .map(|hierarchy| hierarchy.join(&self.id))
            .filter(|path| path.exists())
            .collect())
    }
}

fn is_v2() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

fn hierarchies() -> Result<Vec<PathBuf>> {
    if is_v2() {
        return Ok(vec![PathBuf::from(ROOT)]);
    }
    let mut found = vec![];
    for entry in fs::read_dir(ROOT).context("cannot read /sys/fs/cgroup; mount the cgroup hierarchies there")? {
        let entry = entry?;
        // Links lead to hierarchies that are listed under their full name ("cpu,cpuacct").
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// cgroup v2: lets the children have the controllers that a kubelet wants.
fn delegate(cgroup: &Path) -> Result<()> {
    let available = fs::read_to_string(cgroup.join("cgroup.controllers"))?;
    for controller in available.split_whitespace() {
        if ["cpu", "cpuset", "io", "memory", "pids", "hugetlb"].contains(&controller) {
            let file = cgroup.join("cgroup.subtree_control");
            fs::write(&file, format!("+{controller}"))
                .with_context(|| format!("cannot enable {controller} in {}", file.display()))?;
        }
    }
    Ok(())
}

/// cgroup v1: a new cpuset is empty and takes no process until it is filled.
fn inherit_cpuset(cgroup: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = cgroup.join(file);
        if is_v2() || !own.exists() || !fs::read_to_string(&own)?.trim().is_empty() {
            continue;
        }
        let parent = fs::read_to_string(cgroup.parent().unwrap_or(Path::new(ROOT)).join(file))?;
        fs::write(&own, parent.trim()).with_context(|| format!("cannot write {}", own.display()))?;
    }
    Ok(())
}

fn remove_tree(cgroup: &Path, deadline: Instant) -> Result<()> {
    let entries = match fs::read_dir(cgroup) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", cgroup.display())),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path(), deadline)?;
        }
    }
    loop {
        match fs::remove_dir(cgroup) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // Busy until the last process in it is gone for good.
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
            Err(error) => bail!(
                "cannot remove the cgroup {}: {error}; look into its cgroup.procs",
                cgroup.display()
            ),
        }
    }
}
