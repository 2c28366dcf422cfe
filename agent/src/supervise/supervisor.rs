//! The loop: what happens, one thing after the other.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use proto::supervisor::{ProcessState, to_agent};
use rustix::process::Signal;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

use super::Args;
use super::counters::{Counts, Kept};
use super::exit::{Class, End};
use super::folder::Folder;
use super::handover::{self, Handover, HeldBack};
use super::link::{self, Agent};
use super::output::{Outlet, SharedTail};
use super::probe::Beat;
use super::reaper::Reaper;
use super::rules::{Backoff, Restart};
use super::running::Handles;
use super::state::{self, Ended, Known, Phase};

/// How long the last messages and the last lines are given at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A signal that has come is told within this time.
const SIGNAL_TIME: Duration = Duration::from_millis(2);
/// With nothing due there is nothing to wake up for.
const NOTHING_DUE: Duration = Duration::from_hours(1);

/// All that PID 1 of the etcd container holds.
#[derive(Debug)]
pub struct Supervisor {
    pub(super) args: Args,
    pub(super) folder: Folder,
    pub(super) known: Known,
    pub(super) phase: Phase,
    pub(super) backoff: Backoff,
    pub(super) tail: SharedTail,
    /// stdout, stderr.
    pub(super) outlets: [Outlet; 2],
    /// What belongs to [`Known::run`].
    pub(super) handles: Option<Handles>,
    pub(super) agent: Option<Agent>,
    /// `Stop` requests of the connected agent that are answered when etcd has ended.
    pub(super) stops: Vec<u64>,
    /// SIGTERM has come.
    pub(super) terminating: bool,
    /// The program to become.
    pub(super) successor: Option<PathBuf>,
    pub(super) beats: mpsc::UnboundedSender<Beat>,
    kept: Kept,
    sent: Option<ProcessState>,
    finished: Option<ExitCode>,
}

/// Supervises until SIGTERM; the exit code is etcd's.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut reaper = Reaper::new().context("cannot listen for SIGCHLD")?;
    let (handed_over, pipes) = if args.resume {
        let handed_over = handover::take_over().context("cannot take over from the program before")?;
        HeldBack::release().context("cannot let signals through")?;
        handed_over
    } else {
        (
            Handover {
                known: first_look(&args),
                pending: Default::default(),
            },
            Vec::new(),
        )
    };

    let (event_sender, mut events) = mpsc::channel(1);
    let (beat_sender, mut beats) = mpsc::unbounded_channel();
    let link = tokio::spawn(link::keep(args.paths.socket(), event_sender));
    let mut supervisor =
        Supervisor::new(args, handed_over, pipes, beat_sender).context("cannot set up etcd's output")?;
    if !supervisor.args.resume {
        supervisor.inherit();
    }
    supervisor.clean_up();
    for (pid, end) in Reaper::collect() {
        supervisor.ended(pid, end).await;
    }
    let code = loop {
        supervisor.keep_counts();
        supervisor.publish();
        if let Some(code) = supervisor.finished {
            break code;
        }
        if let Some(successor) = supervisor.successor.take() {
            let held_back = HeldBack::new().context("cannot hold signals back")?;
            // What came before that is told now; what comes later waits for the successor.
            let told = timeout(SIGNAL_TIME, async {
                tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
            });
            if told.await.is_ok() {
                supervisor.terminate();
            } else {
                supervisor.give_way(&successor);
            }
            drop(held_back);
            continue;
        }
        let due = supervisor.deadline().unwrap_or_else(|| Instant::now() + NOTHING_DUE);
        tokio::select! {
            biased;
            _ = terminate.recv() => supervisor.terminate(),
            _ = interrupt.recv() => supervisor.terminate(),
            () = reaper.wait() => {
                for (pid, end) in Reaper::collect() {
                    supervisor.ended(pid, end).await;
                }
            }
            Some(event) = events.recv() => supervisor.on_link(event).await,
            Some(beat) = beats.recv() => supervisor.on_beat(beat),
            () = sleep_until(due.into()) => supervisor.on_time(),
        }
    };
    if let Some(agent) = &supervisor.agent {
        agent.flush(LAST_WORDS).await;
    }
    for outlet in &supervisor.outlets {
        outlet.flush(LAST_WORDS).await;
    }
    link.abort();
    Ok(code)
}

impl Supervisor {
    fn new(
        args: Args,
        handed_over: Handover,
        pipes: Vec<OwnedFd>,
        beats: mpsc::UnboundedSender<Beat>,
    ) -> io::Result<Self> {
        let Handover {
            mut known,
            pending: [stdout, stderr],
        } = handed_over;
        let outlets = [
            Outlet::new(io::stdout().as_fd().try_clone_to_owned()?, stdout),
            Outlet::new(io::stderr().as_fd().try_clone_to_owned()?, stderr),
        ];
        let tail = SharedTail::new(std::mem::take(&mut known.tail));
        let (folder, kept) = (Folder::new(&args.paths), Kept::new(&args.paths));
        let mut supervisor = Self {
            args,
            folder,
            known,
            phase: Phase::Waiting,
            backoff: Backoff::default(),
            tail,
            outlets,
            handles: None,
            agent: None,
            stops: Vec::new(),
            terminating: false,
            successor: None,
            beats,
            kept,
            sent: None,
            finished: None,
        };
        if let (Some(run), Ok([stdout, stderr])) = (supervisor.known.run.clone(), <[OwnedFd; 2]>::try_from(pipes)) {
            supervisor.watch(&run, [stdout, stderr])?;
            supervisor.phase = Phase::Running;
        } else if supervisor.known.repeatable.is_some() {
            let wait = supervisor.backoff.next(Duration::ZERO);
            supervisor.phase = Phase::BackingOff(Restart::after_end(Instant::now(), wait, false));
        }
        Ok(supervisor)
    }

    /// Ends what a supervisor before this one was killed in.
    fn clean_up(&self) {
        if let Err(error) = self.folder.finish_deleting() {
            self.say(
                "error",
                "cannot delete the rest of a deleted data directory",
                &json!(error.to_string()),
            );
        }
    }

    /// Goes on counting where the supervisor before this one has stopped. One that did not see its etcd end was killed
    /// with all of the container, and that was an end of etcd too.
    fn inherit(&mut self) {
        let counts = self.kept.read().unwrap_or_else(|error| {
            self.say(
                "error",
                "cannot read what was counted before",
                &json!(error.to_string()),
            );
            Counts::default()
        });
        self.known.starts = counts.starts;
        self.known.oom_kills = counts.oom_kills;
        if let Some(since) = counts.running_since {
            let lines = vec!["the container has ended, and etcd with it".to_owned()];
            let end = End::Signal(Signal::KILL.as_raw());
            let at = Timestamp::now().as_millisecond();
            self.known.ended = Some(Ended::new(end, Class::Vanished, lines, at));
            let since = Timestamp::from_millisecond(since).map(|since| since.to_string());
            self.say(
                "warn",
                "etcd ended with the container before this one",
                &json!({ "started": since.unwrap_or_default() }),
            );
        }
    }

    fn keep_counts(&mut self) {
        if let Err(error) = self.kept.keep(Counts::of(&self.known)) {
            self.say("error", "cannot keep what is counted", &json!(error.to_string()));
        }
    }

    /// Tells the agent what has changed since it was last told.
    pub(super) fn publish(&mut self) {
        let process = state::process(&self.known, &self.phase);
        if self.agent.is_some() && self.sent.as_ref() != Some(&process) {
            self.sent = Some(process.clone());
            self.send(to_agent::Message::Process(process));
        }
    }

    /// The agent is there: it is told all there is.
    pub(super) fn greet(&mut self, agent: Agent) {
        let process = state::process(&self.known, &self.phase);
        self.agent = Some(agent);
        self.sent = Some(process.clone());
        self.send(to_agent::Message::Hello(state::hello(&self.known, process)));
    }

    pub(super) fn send(&mut self, message: to_agent::Message) {
        if self.agent.as_ref().is_some_and(|agent| !agent.send(message)) {
            // Its connection is closed with it; it connects again and is told all there is.
            self.agent = None;
        }
    }

    /// SIGTERM goes on to etcd at once, which hands its leadership over; we end when it has ended.
    fn terminate(&mut self) {
        self.terminating = true;
        self.known.repeatable = None;
        if self.known.run.is_some() {
            self.signal_etcd(Signal::TERM);
            "the end of etcd: the container is stopping".clone_into(&mut self.known.waiting_for);
            // kubelet sees to a hung one when the Pod's grace period is over.
            self.phase = Phase::Stopping { kill_at: None };
        } else if let Phase::Working(job) = self.phase {
            // It goes on from its journal in the next container.
            self.signal(job, Signal::KILL);
            self.finished = Some(ExitCode::SUCCESS);
        } else {
            self.finished = Some(ExitCode::SUCCESS);
        }
    }

    /// To be called when etcd has ended while we are terminating.
    pub(super) fn finish(&mut self, end: End) {
        // Not being PID 1 itself, etcd ends by the signal after a clean stop.
        let code = if end == End::Signal(Signal::TERM.as_raw()) {
            0
        } else {
            end.code()
        };
        self.finished = Some(u8::try_from(code).unwrap_or(u8::MAX).into());
    }

    /// A line of our own in the container's log, in the form of etcd's lines. Never blocks.
    pub(super) fn say(&self, level: &str, message: &str, details: &serde_json::Value) {
        let ts = Timestamp::now().to_string();
        let line = json!({ "level": level, "ts": ts, "caller": "etcd-agent", "msg": message, "details": details });
        let [_, stderr] = &self.outlets;
        stderr.push(format!("{line}\n").as_bytes());
    }

    /// What is to be handed over to the program that replaces this one.
    pub(super) fn hand_over(&self) -> Handover {
        let tail = self.tail.lock().clone();
        let [stdout, stderr] = &self.outlets;
        Handover {
            known: Known {
                tail,
                ..self.known.clone()
            },
            pending: [stdout.pending(), stderr.pending()],
        }
    }
}

/// A first look at the image: which etcd is it?
fn first_look(args: &Args) -> Known {
    let mut known = Known {
        waiting_for: "the agent's order".to_owned(),
        ..Known::default()
    };
    match etcd_version(args) {
        Ok(version) => known.etcd_version = version,
        Err(error) => known.etcd_version_error = error,
    }
    known
}

fn etcd_version(args: &Args) -> Result<String, String> {
    let etcd = args.etcd.display();
    let output = Command::new(&args.etcd)
        .arg("--version")
        .stdin(File::open("/dev/null").map_err(|error| format!("/dev/null: {error}"))?)
        .output()
        .map_err(|error| format!("{etcd}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .find_map(|line| line.strip_prefix("etcd Version: "))
        .map(|version| version.trim().to_owned())
        .ok_or_else(|| format!("{etcd} --version does not tell its version ({})", output.status))
}
