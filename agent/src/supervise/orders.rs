//! What the agent asks for.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use proto::supervisor::{
    Done, LogLines, RemoveTree, Start, Stop, ToSupervisor, start, to_agent, to_supervisor::Message,
};
use rustix::process::Signal;
use serde_json::json;

use super::handover;
use super::link::Event;
use super::rules::{Kind, is_first_start, once_key};
use super::running::Handles;
use super::state::Phase;
use super::supervisor::Supervisor;
use super::tail::MAX_LINES;

/// How long the answer to an `Upgrade` is given to leave.
const ANSWER_TIME: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Something has happened on the socket.
    pub(super) async fn on_link(&mut self, event: Event) {
        match event {
            Event::Up(agent) => {
                if let Phase::BackingOff(restart) = &mut self.phase {
                    restart.agent_up(Instant::now());
                }
                self.greet(agent);
            }
            Event::Down(error) => {
                if let Some(error) = error {
                    self.say(
                        "warn",
                        "the agent's socket failed; connecting again",
                        &json!(error.to_string()),
                    );
                }
                self.agent = None;
                // Request numbers belong to a connection.
                self.stops.clear();
                if let Phase::BackingOff(restart) = &mut self.phase {
                    restart.agent_down();
                }
            }
            Event::Request(ToSupervisor { request, message }) => self.obey(request, message).await,
        }
    }

    async fn obey(&mut self, request: u64, message: Option<Message>) {
        let result = match message {
            Some(Message::Start(start)) => self.start(&start),
            Some(Message::Stop(stop)) => return self.stop(request, &stop),
            Some(Message::WriteFile(file)) => self.may_write(&file.name).and_then(|()| {
                self.folder
                    .write_for_agent(&file.name, &file.content)
                    .map_err(|error| error.to_string())
            }),
            Some(Message::MoveAside(aside)) => self.while_stopped().and_then(|()| {
                let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
                let place = self
                    .folder
                    .set_aside(&aside.label, &time)
                    .map_err(|error| error.to_string())?;
                self.say("info", "data directory set aside", &json!(place));
                Ok(())
            }),
            Some(Message::RemoveQuarantined(aside)) => {
                self.say("info", "what was set aside is deleted", &json!(aside.name));
                self.folder
                    .remove_quarantined(&aside.name)
                    .map_err(|error| error.to_string())
            }
            Some(Message::RemoveTree(remove)) => self.while_stopped().and_then(|()| self.remove_tree(&remove)),
            Some(Message::Logs(logs)) => {
                let lines = self.tail.lock().last(usize::try_from(logs.lines).unwrap_or(MAX_LINES));
                self.send(to_agent::Message::Logs(LogLines { lines }));
                Ok(())
            }
            Some(Message::Upgrade(upgrade)) => return self.upgrade(request, Path::new(&upgrade.binary)).await,
            Some(Message::SetRepeatable(set)) => self.set_repeatable(&set.config),
            Some(Message::Recover(recover)) => self.recover(&recover),
            Some(Message::Watchdog(watchdog)) => {
                if let Some(handles) = &mut self.handles {
                    handles
                        .watchdog
                        .suspend(Instant::now(), Duration::from_secs(watchdog.suspend_seconds.into()));
                }
                Ok(())
            }
            None => Err("this supervisor does not know the request; upgrade it first".to_owned()),
        };
        self.done(request, result);
    }

    /// Answers a request. The state as it is by then goes first.
    pub(super) fn done(&mut self, request: u64, result: Result<(), String>) {
        self.publish();
        let error = result.err().unwrap_or_default();
        self.send(to_agent::Message::Done(Done { request, error }));
    }

    fn start(&mut self, start: &Start) -> Result<(), String> {
        self.while_stopped()?;
        if self.terminating {
            return Err("the container is stopping".to_owned());
        }
        let kind = match start.kind() {
            start::Kind::Once => Kind::Once {
                order: start.order,
                first: is_first_start(text(&start.config)?),
            },
            start::Kind::Repeatable => Kind::Repeatable,
            start::Kind::Unspecified => return Err("the order says neither Once nor Repeatable".to_owned()),
        };
        let config = match kind {
            Kind::Once { .. } => text(&start.config)?,
            Kind::Repeatable => repeatable(&start.config)?,
        };
        let identity = &start.identity;
        self.judge(kind, !identity.is_empty())
            .map_err(|error| format!("cannot judge the data directory: {error}"))?
            .map_err(|refusal| refusal.to_string())?;
        // Whose data they are, then that the order is used, then its use: a crash in between leaves an order that may
        // be sent again, never one that could be used twice.
        let recorded = if identity.is_empty() {
            Ok(())
        } else {
            self.folder.write_identity(identity)
        };
        recorded
            .and_then(|()| match kind {
                Kind::Once { order, .. } => self.folder.write_used(order),
                Kind::Repeatable => Ok(()),
            })
            .map_err(|error| format!("cannot record the order: {error}"))?;
        self.known.order = start.order;
        self.known.repeatable = matches!(kind, Kind::Repeatable).then(|| config.to_owned());
        self.launch(config).map_err(|error| {
            let error = format!("cannot start etcd: {error}");
            self.wait_for(&error);
            error
        })
    }

    fn stop(&mut self, request: u64, stop: &Stop) {
        self.known.repeatable = None;
        self.known.waiting_for.clone_from(&stop.reason);
        if self.known.run.is_none() {
            if !matches!(self.phase, Phase::Working(_)) {
                self.phase = Phase::Waiting;
            }
            return self.done(request, Ok(()));
        }
        self.stops.push(request);
        if self.terminating {
            return;
        }
        self.signal_etcd(Signal::TERM);
        self.phase = Phase::Stopping {
            kill_at: Some(Instant::now() + Duration::from_secs(stop.grace_seconds.into())),
        };
    }

    fn set_repeatable(&mut self, config: &[u8]) -> Result<(), String> {
        if !matches!(self.phase, Phase::Running) {
            return Err("etcd does not run; send a Repeatable Start".to_owned());
        }
        self.known.repeatable = Some(repeatable(config)?.to_owned());
        Ok(())
    }

    fn remove_tree(&self, remove: &RemoveTree) -> Result<(), String> {
        let ground = self.folder.ground();
        // What the agent saw may be old: an order may have waited for a slow disk, and etcd may have run since.
        if remove.unborn_only
            && ground
                .map_err(|error| format!("cannot judge the data directory: {error}"))?
                .wal
        {
            return Err("etcd has saved data there; look at the directory again".to_owned());
        }
        self.say("info", "data directory deleted", &json!(remove.reason));
        self.folder.delete().map_err(|error| error.to_string())
    }

    async fn upgrade(&mut self, request: u64, binary: &Path) {
        if let Err(error) = self.may_upgrade(binary).await {
            return self.done(request, Err(error));
        }
        // The connection ends with this program, so the answer goes first. That it worked, the next `Hello` tells.
        self.done(request, Ok(()));
        if let Some(agent) = &self.agent {
            agent.flush(ANSWER_TIME).await;
        }
        self.successor = Some(binary.to_owned());
    }

    /// Becomes another program. Returns only when that has failed.
    pub(super) fn give_way(&self, binary: &Path) {
        self.say("info", "supervisor replaced", &json!(binary));
        let handover = self.hand_over();
        let pipes = self.handles.as_ref().map(Handles::pipes).unwrap_or_default();
        let error = handover::become_binary(binary, &handover, &pipes);
        self.say("error", "supervisor not replaced", &json!(error.to_string()));
    }

    async fn may_upgrade(&self, binary: &Path) -> Result<(), String> {
        match self.phase {
            Phase::Stopping { .. } => return Err("etcd is stopping; ask again when it has ended".to_owned()),
            Phase::Working(_) => return Err("a recovery is under way; ask again when it has ended".to_owned()),
            Phase::Waiting | Phase::Running | Phase::BackingOff(_) => {}
        }
        if !binary.is_absolute() {
            return Err(format!("{} is no absolute path", binary.display()));
        }
        handover::try_binary(binary).await.map_err(|error| error.to_string())
    }

    pub(super) fn while_stopped(&self) -> Result<(), String> {
        match (&self.known.run, &self.phase) {
            (Some(run), _) => Err(format!("etcd runs (process {}); send Stop first", run.pid)),
            (None, Phase::Working(job)) => Err(format!("a recovery is under way (process {job})")),
            (None, Phase::Waiting | Phase::Running | Phase::Stopping { .. } | Phase::BackingOff(_)) => Ok(()),
        }
    }
}

fn text(config: &[u8]) -> Result<&str, String> {
    match std::str::from_utf8(config) {
        Ok("") => Err("the order has no configuration".to_owned()),
        Ok(text) => Ok(text),
        Err(error) => Err(format!("the configuration is no text: {error}")),
    }
}

fn repeatable(config: &[u8]) -> Result<&str, String> {
    let config = text(config)?;
    match once_key(config) {
        Some(key) => Err(format!(
            "{key} has no place in a Repeatable configuration; send a Once order"
        )),
        None => Ok(config),
    }
}
