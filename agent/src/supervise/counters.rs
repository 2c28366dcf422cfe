//! Counts that outlive the supervisor: where the kernel kills a whole container for memory (cgroup v2, as kubelet sets
//! it up), PID 1 goes with etcd and would begin to count anew. Kept in the run volume, which lives as long as the Pod.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::state::Known;
use crate::cli::Paths;

const FILE: &str = "supervisor.json";

/// What is kept. Additive changes only: the program that reads it may be older or newer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Starts of etcd in this Pod.
    pub starts: u32,
    /// Kills of etcd for memory.
    pub oom_kills: u32,
    /// When the etcd that runs was started, milliseconds since 1970; `None` when none does. A supervisor that finds one
    /// here was not there when it ended.
    pub running_since: Option<i64>,
}

impl Counts {
    /// Of what is known now.
    #[must_use]
    pub fn of(known: &Known) -> Self {
        Self {
            starts: known.starts,
            oom_kills: known.oom_kills,
            running_since: known.run.as_ref().map(|run| run.started_at),
        }
    }
}

/// The file, and what it has.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    last: Option<Counts>,
}

impl Kept {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(paths: &Paths) -> Self {
        Self {
            path: paths.run_volume.join(FILE),
            last: None,
        }
    }

    /// What a supervisor before this one has left; zeros in a new Pod.
    pub fn read(&self) -> io::Result<Counts> {
        match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Counts::default()),
            content => Ok(serde_json::from_slice(&at(&self.path, content)?)?),
        }
    }

    /// Writes what has changed. Not made durable: it is to outlive processes, not the node.
    pub fn keep(&mut self, counts: Counts) -> io::Result<()> {
        if self.last.as_ref() == Some(&counts) {
            return Ok(());
        }
        let temporary = self.path.with_extension("json.new");
        let content = serde_json::to_vec(&counts)?;
        // What cannot be written now is written with the next change.
        self.last = Some(counts);
        at(&temporary, fs::write(&temporary, content))?;
        at(&self.path, fs::rename(&temporary, &self.path))
    }
}

fn at<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
