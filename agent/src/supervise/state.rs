//! What the supervisor knows, and how it is told to the agent. Pure.

use std::time::{Duration, Instant};

use prost_types::Timestamp;
use proto::supervisor::{Exit, Hello, ProcessState, process_state};
use serde::{Deserialize, Serialize};

use super::exit::{Class, End};
use super::rules::Restart;
use super::tail::Tail;

/// Outlives an `execve` of the supervisor. Additive changes only: the program that reads it may be older or newer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Version of etcd in this container, without "v"; empty when it could not be told.
    pub etcd_version: String,
    /// Why it could not be told.
    pub etcd_version_error: String,
    /// The etcd that runs.
    pub run: Option<Run>,
    /// The configuration with which etcd is started again by itself.
    pub repeatable: Option<String>,
    /// The order that etcd runs under or last ran under.
    pub order: u64,
    /// Starts of etcd in this container.
    pub starts: u32,
    /// Kills of etcd for memory.
    pub oom_kills: u32,
    /// How etcd last ended.
    pub ended: Option<Ended>,
    /// What is waited for while nothing runs and nothing is due.
    pub waiting_for: String,
    /// The last lines etcd wrote.
    pub tail: Tail,
}

/// One run of etcd.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Its process ID, in our PID namespace.
    pub pid: i32,
    /// Milliseconds since 1970.
    pub started_at: i64,
    /// The configuration it was started with.
    pub config: String,
    /// It has answered.
    pub served: bool,
    /// The cgroup's count of kills for memory at its start.
    pub oom_before: Option<u64>,
    /// That it has written its WAL is recorded.
    pub wal_noted: bool,
}

/// An end of etcd.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    code: i32,
    signal: i32,
    class: String,
    last_lines: Vec<String>,
    at: i64,
}

impl Ended {
    /// An end at this moment (milliseconds since 1970).
    #[must_use]
    pub fn new(end: End, class: Class, last_lines: Vec<String>, at: i64) -> Self {
        Self {
            code: end.code(),
            signal: end.signal(),
            class: class.to_string(),
            last_lines,
            at,
        }
    }
}

/// What goes on.
#[derive(Debug)]
pub enum Phase {
    /// Nothing runs and nothing is due: see [`Known::waiting_for`].
    Waiting,
    /// etcd runs.
    Running,
    /// etcd was asked to stop.
    Stopping {
        /// When it is killed; `None`: somebody else sees to that (kubelet).
        kill_at: Option<Instant>,
    },
    /// etcd has ended and is started again.
    BackingOff(Restart),
    /// A job works on the data directory: the process with this ID.
    Working(i32),
}

/// The state as it is told to the agent.
#[must_use]
pub fn process(known: &Known, phase: &Phase) -> ProcessState {
    let (phase, waiting_for) = match phase {
        Phase::Waiting => (process_state::Phase::Waiting, known.waiting_for.as_str()),
        Phase::Running => (process_state::Phase::Running, ""),
        Phase::Stopping { .. } => (process_state::Phase::Stopping, known.waiting_for.as_str()),
        Phase::BackingOff(_) => (process_state::Phase::BackingOff, "the pause before the next start"),
        Phase::Working(_) => (process_state::Phase::Working, "the end of a recovery"),
    };
    ProcessState {
        phase: phase.into(),
        pid: known.run.as_ref().map_or(0, |run| run.pid),
        started_at: known.run.as_ref().map(|run| timestamp(run.started_at)),
        restarts: known.starts.saturating_sub(1),
        oom_kills: known.oom_kills,
        order: known.order,
        exit: known.ended.as_ref().map(|ended| Exit {
            code: ended.code,
            signal: ended.signal,
            class: ended.class.clone(),
            last_lines: ended.last_lines.clone(),
            at: Some(timestamp(ended.at)),
        }),
        waiting_for: waiting_for.to_owned(),
        served: known.run.as_ref().is_some_and(|run| run.served),
        repeatable: known.repeatable.is_some(),
    }
}

/// The first message on every connection.
#[must_use]
pub fn hello(known: &Known, process: ProcessState) -> Hello {
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        features: Vec::new(),
        etcd_version: known.etcd_version.clone(),
        etcd_version_error: known.etcd_version_error.clone(),
        process: Some(process),
    }
}

fn timestamp(milliseconds: i64) -> Timestamp {
    let nanos = Duration::from_millis(milliseconds.rem_euclid(1000).unsigned_abs()).subsec_nanos();
    Timestamp {
        seconds: milliseconds.div_euclid(1000),
        nanos: i32::try_from(nanos).unwrap_or_default(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_with_its_class_and_its_last_lines() {
        let ended = Ended::new(End::Signal(9), Class::OutOfMemory, vec!["last".to_owned()], 1_500);
        let known = Known {
            starts: 3,
            oom_kills: 1,
            ended: Some(ended),
            ..Known::default()
        };
        let state = process(&known, &Phase::Waiting);
        assert_eq!((state.restarts, state.oom_kills, state.pid), (2, 1, 0));
        let exit = state.exit.unwrap();
        assert_eq!((exit.code, exit.signal, exit.class.as_str()), (137, 9, "OutOfMemory"));
        assert_eq!(
            exit.at,
            Some(Timestamp {
                seconds: 1,
                nanos: 500_000_000
            })
        );
    }

    #[test]
    fn what_an_older_program_hands_over_is_taken_with_defaults_for_the_rest() {
        let known: Known = serde_json::from_str(r#"{"run":{"pid":7},"order":4,"unknown":1}"#).unwrap();
        assert_eq!((known.run.unwrap().pid, known.order, known.starts), (7, 4, 0));
    }
}
