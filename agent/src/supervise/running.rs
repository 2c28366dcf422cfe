//! etcd's start, its life and its end.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::task::JoinHandle;

use super::exit::{self, Circumstances, Class, End};
use super::oom;
use super::output::Intake;
use super::probe::{self, Beat};
use super::rules::{Kind, Refusal, Restart, may_start};
use super::state::{Ended, Known, Phase, Run};
use super::supervisor::Supervisor;
use super::tail::Stream;
use super::watchdog::{Act, Watchdog};

/// What belongs to one run of etcd.
#[derive(Debug)]
pub(super) struct Handles {
    /// stdout, stderr.
    pub(super) intakes: [Intake; 2],
    pub(super) watchdog: Watchdog,
    #[expect(dead_code, reason = "held for as long as the run lasts")]
    probe: Option<Probe>,
    /// When to look next whether etcd has written its WAL.
    look_at: Instant,
    began: Instant,
}

impl Handles {
    /// The reading ends of etcd's outputs.
    pub(super) fn pipes(&self) -> Vec<BorrowedFd<'_>> {
        self.intakes.iter().map(Intake::pipe).collect()
    }
}

/// The task that asks etcd whether it answers; ends when this is dropped.
#[derive(Debug)]
struct Probe(JoinHandle<()>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How often it is looked whether etcd has written its WAL: often at first, when it is about to.
const LOOK_EARLY: Duration = Duration::from_millis(20);
const LOOK_LATER: Duration = Duration::from_millis(250);
const LOOK_EARLY_TIME: Duration = Duration::from_secs(10);
/// How long the last lines of an etcd that has ended are waited for.
const LAST_LINES: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Starts etcd with this configuration. What must be recorded before is recorded.
    pub(super) fn launch(&mut self, config: &str) -> io::Result<()> {
        let file = self.args.paths.etcd_config();
        let temporary = file.with_extension("new");
        fs::write(&temporary, config)
            .and_then(|()| fs::rename(&temporary, &file))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
        let (stdout, etcd_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, etcd_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut command = Command::new(&self.args.etcd);
        command
            .arg("--config-file")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(etcd_stdout)
            .stderr(etcd_stderr);
        // The file is all that counts; etcd would warn of variables that it does not know.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_foreign_to_etcd(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        let oom_before = oom::kills();
        let child = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.args.etcd.display())))?;
        // Our ends of what etcd writes to, or its pipes would never end.
        drop(command);
        let run = Run {
            pid: child.id().cast_signed(),
            started_at: now(),
            config: config.to_owned(),
            oom_before,
            ..Run::default()
        };
        self.tail.lock().begin_run();
        self.known.starts = self.known.starts.saturating_add(1);
        self.known.run = Some(run.clone());
        self.known.waiting_for.clear();
        self.phase = Phase::Running;
        self.say(
            "info",
            "etcd started",
            &json!({ "pid": run.pid, "order": self.known.order }),
        );
        if let Err(error) = self.watch(&run, [stdout, stderr]) {
            // Nobody reads what it writes. Its end is seen as any other, and it is started again.
            self.say("error", "cannot watch etcd: it is ended", &json!(error.to_string()));
            self.signal_etcd(Signal::KILL);
        }
        Ok(())
    }

    /// Begins to read what this etcd writes and to ask whether it answers.
    pub(super) fn watch(&mut self, run: &Run, [stdout, stderr]: [OwnedFd; 2]) -> io::Result<()> {
        let patience = Duration::from_secs(self.args.watchdog_patience.into());
        let mut watchdog = Watchdog::new(patience);
        let now = Instant::now();
        if run.served {
            watchdog.heard(now);
        }
        let [out, err] = &self.outlets;
        let intakes = [
            Intake::new(stdout, Stream::Stdout, self.tail.clone(), out)?,
            Intake::new(stderr, Stream::Stderr, self.tail.clone(), err)?,
        ];
        let probe = probe::address(&run.config)
            .map(|address| probe::watch(run.pid, address, patience, run.served, self.beats.clone()))
            .map(|watch| Probe(tokio::spawn(watch)));
        self.handles = Some(Handles {
            intakes,
            watchdog,
            probe,
            look_at: now,
            began: now,
        });
        Ok(())
    }

    /// When [`on_time`](Self::on_time) has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Waiting | Phase::Running | Phase::Working(_) => None,
            Phase::Stopping { kill_at } => *kill_at,
            Phase::BackingOff(restart) => Some(restart.at()),
        };
        let wal_noted = self.known.run.as_ref().is_none_or(|run| run.wal_noted);
        let look = self
            .handles
            .as_ref()
            .filter(|_| !wal_noted)
            .map(|handles| handles.look_at);
        let watchdog = self.handles.as_ref().and_then(|handles| handles.watchdog.deadline());
        [phase, look, watchdog].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self) {
        let now = Instant::now();
        match &mut self.phase {
            Phase::BackingOff(restart) if restart.at() <= now => self.restart(),
            Phase::Stopping { kill_at } if kill_at.is_some_and(|at| at <= now) => {
                *kill_at = None;
                self.signal_etcd(Signal::KILL);
            }
            Phase::Waiting | Phase::Running | Phase::Stopping { .. } | Phase::BackingOff(_) | Phase::Working(_) => {}
        }
        self.look_for_wal(now);
        self.obey_watchdog(now);
    }

    /// etcd has answered or not.
    pub(super) fn on_beat(&mut self, beat: Beat) {
        let now = Instant::now();
        let (Some(run), Some(handles)) = (&mut self.known.run, &mut self.handles) else {
            return;
        };
        if run.pid != beat.pid {
            return;
        }
        if beat.heard {
            run.served = true;
            handles.watchdog.heard(now);
        } else {
            handles.watchdog.missed();
        }
        self.obey_watchdog(now);
    }

    fn obey_watchdog(&mut self, now: Instant) {
        let Some(handles) = &mut self.handles else { return };
        // An etcd that stops answers no more and may take its time: whoever stops it sees to that.
        if !matches!(self.phase, Phase::Running) && !handles.watchdog.has_acted() {
            return;
        }
        match handles.watchdog.due(now) {
            None => {}
            Some(Act::Dump) => {
                let patience = self.args.watchdog_patience;
                self.say(
                    "warn",
                    "etcd does not answer: it is told to dump and end",
                    &json!({ "seconds": patience }),
                );
                self.signal_etcd(Signal::CONT);
                self.signal_etcd(Signal::QUIT);
            }
            Some(Act::Kill) => self.signal_etcd(Signal::KILL),
        }
    }

    /// From here on the directory is no longer unborn, and no order for an unborn one may meet it again.
    fn look_for_wal(&mut self, now: Instant) {
        let (Some(run), Some(handles)) = (&mut self.known.run, &mut self.handles) else {
            return;
        };
        if run.wal_noted || now < handles.look_at {
            return;
        }
        let early = now.duration_since(handles.began) < LOOK_EARLY_TIME;
        handles.look_at = now + if early { LOOK_EARLY } else { LOOK_LATER };
        match self.folder.note_saved() {
            Ok(noted) => run.wal_noted = noted,
            Err(error) => {
                handles.look_at = now + Duration::from_secs(5);
                self.say(
                    "error",
                    "cannot record that etcd has started here",
                    &json!(error.to_string()),
                );
            }
        }
    }

    pub(super) fn signal_etcd(&self, signal: Signal) {
        // It is our child and not yet collected, so the ID is its own.
        if let Some(run) = &self.known.run {
            self.signal(run.pid, signal);
        }
    }

    pub(super) fn signal(&self, pid: i32, signal: Signal) {
        if let Some(pid) = Pid::from_raw(pid)
            && let Err(error) = kill_process(pid, signal)
        {
            self.say("error", "cannot send a signal", &json!(error.to_string()));
        }
    }

    /// A process below us has ended: etcd, or an orphan that PID 1 has inherited.
    pub(super) async fn ended(&mut self, pid: i32, end: End) {
        if matches!(self.phase, Phase::Working(job) if job == pid) {
            return self.job_ended(end);
        }
        let Some(run) = self.known.run.take_if(|run| run.pid == pid) else {
            return;
        };
        if let Err(error) = self.folder.note_started() {
            self.say(
                "error",
                "cannot record that etcd has started here",
                &json!(error.to_string()),
            );
        }
        let (mut by_watchdog, mut ran) = (false, Duration::ZERO);
        if let Some(handles) = self.handles.take() {
            ran = handles.began.elapsed();
            by_watchdog = handles.watchdog.has_acted();
            for intake in handles.intakes {
                intake.finish(LAST_LINES).await;
            }
        }
        let oom_kills = oom::kills()
            .zip(run.oom_before)
            .map_or(0, |(after, before)| after.saturating_sub(before));
        let circumstances = Circumstances {
            by_watchdog,
            asked_to_stop: matches!(self.phase, Phase::Stopping { .. }),
            oom_killed: oom_kills > 0,
        };
        let (class, lines) = {
            let mut tail = self.tail.lock();
            tail.close();
            (exit::classify(end, circumstances, &tail.evidence()), tail.report())
        };
        if class == Class::OutOfMemory {
            self.known.oom_kills = self.known.oom_kills.saturating_add(1);
        }
        self.say(
            "info",
            "etcd ended",
            &json!({ "pid": pid, "code": end.code(), "class": class.to_string() }),
        );
        self.known.ended = Some(Ended::new(end, class, lines, now()));
        self.after_end(ran, end);
        for request in std::mem::take(&mut self.stops) {
            self.done(request, Ok(()));
        }
    }

    fn after_end(&mut self, ran: Duration, end: End) {
        if self.terminating {
            self.phase = Phase::Waiting;
            self.finish(end);
        } else if matches!(self.phase, Phase::Stopping { .. }) {
            // Why it was stopped is what it waits for.
            self.phase = Phase::Waiting;
        } else if self.known.repeatable.is_some() {
            let wait = self.backoff.next(ran);
            self.phase = Phase::BackingOff(Restart::after_end(Instant::now(), wait, self.agent.is_some()));
        } else {
            self.wait_for("the agent's order: a Once order is never started again by itself");
        }
    }

    pub(super) fn wait_for(&mut self, what: &str) {
        what.clone_into(&mut self.known.waiting_for);
        self.phase = Phase::Waiting;
    }

    /// Starts etcd again by itself, if the rules allow it.
    fn restart(&mut self) {
        let Known {
            repeatable: Some(config),
            ..
        } = &self.known
        else {
            return self.wait_for("the agent's order");
        };
        let config = config.clone();
        // An order's directory was read by the agent; nobody has read this one.
        let refusal = self.judge(Kind::Repeatable, false).and_then(|verdict| match verdict {
            Err(refusal) => Ok(Some(refusal.to_string())),
            Ok(()) => Ok(self.folder.damage()?.map(|damage| format!("the agent; {damage}"))),
        });
        let launched = refusal.and_then(|refusal| match refusal {
            Some(refusal) => Ok(Some(refusal)),
            None => self.launch(&config).map(|()| None),
        });
        match launched {
            Ok(None) => {}
            Ok(Some(refusal)) => self.wait_for(&refusal),
            Err(error) => {
                // Not known is not absent: it is tried again.
                self.say("error", "cannot start etcd again yet", &json!(error.to_string()));
                let wait = self.backoff.next(Duration::ZERO);
                self.phase = Phase::BackingOff(Restart::after_end(Instant::now(), wait, false));
            }
        }
    }

    /// What the rules say on what is on the volume now.
    pub(super) fn judge(&self, kind: Kind, with_identity: bool) -> io::Result<Result<(), Refusal>> {
        self.folder.note_started()?;
        Ok(may_start(kind, with_identity, self.folder.ground()?))
    }
}

/// Variables with etcd's prefix, ours among them; one is a switch that only the environment has.
fn is_foreign_to_etcd(name: &str) -> bool {
    name.starts_with("ETCD_") && name != "ETCD_UNSUPPORTED_ARCH"
}

fn now() -> i64 {
    Timestamp::now().as_millisecond()
}
