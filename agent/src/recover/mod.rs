//! A new history of a data directory whose quorum is lost (design: agent.md, "Recovery of a lost quorum").
//!
//! A job of the supervisor's: a process of its own, which goes step by step and notes in a journal on the data volume what
//! is done. Killed anywhere, it is started again and goes on; no step is done twice where twice would matter.
//!
//! | module | what it is |
//! |---|---|
//! | [`journal`] | what was ordered, and how far it is |
//! | [`job`] | the steps, one after the other |
//! | [`space`] | how much room they take |
//! | [`isolated`] | an etcd that nobody can reach |
//! | [`tools`] | `etcdutl` |
//! | [`swap`] | the new directory takes the old one's place |

pub mod isolated;
pub mod job;
pub mod journal;
pub mod space;
pub mod swap;
pub mod tools;

use std::path::PathBuf;

use crate::cli::Paths;

/// Arguments of `recover`, which the supervisor alone runs.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(crate) paths: Paths,
    /// The etcd to run.
    #[arg(long, default_value = "/usr/local/bin/etcd")]
    pub(crate) etcd: PathBuf,
    /// The etcdutl to run; default: beside etcd.
    #[arg(long)]
    pub(crate) etcdutl: Option<PathBuf>,
}

impl Args {
    /// The job for these paths.
    #[must_use]
    pub fn new(paths: Paths, etcd: PathBuf) -> Self {
        Self {
            paths,
            etcd,
            etcdutl: None,
        }
    }

    fn etcdutl(&self) -> PathBuf {
        self.etcdutl
            .clone()
            .unwrap_or_else(|| self.etcd.with_file_name("etcdutl"))
    }
}

/// Why a step was not done. The job is started again, and begins with that step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something on the volume.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Nothing was ordered, or what was cannot be read.
    #[error("the journal of the recovery: {0}")]
    Journal(String),
    /// The log cannot be read to its end.
    #[error("the log of {path}: {detail}", path = path.display())]
    Log {
        /// Where.
        path: PathBuf,
        /// Why.
        detail: String,
    },
    /// The isolated etcd.
    #[error("the isolated etcd {0}; its own words are in the log of the container")]
    Isolated(String),
    /// `etcdutl`.
    #[error("{program} {what}: {detail}", program = program.display())]
    Tool {
        /// Its path.
        program: PathBuf,
        /// What it was to do.
        what: &'static str,
        /// How it ended.
        detail: String,
    },
    /// The result is not what it must be; it is made anew.
    #[error("{0}; it is made anew")]
    NotProven(String),
}
