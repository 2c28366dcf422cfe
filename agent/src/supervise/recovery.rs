//! The job that makes a new history of the data directory: a process of its own, this very program.

use std::path::Path;
use std::process::{Command, Stdio};

use proto::supervisor::Recover;
use serde_json::json;

use super::exit::End;
use super::rules::may_recover;
use super::state::Phase;
use super::supervisor::Supervisor;
use crate::recover::journal::{FILE, Journal, Order};
use crate::serve::directory::name;

impl Supervisor {
    /// Begins a recovery, or goes on with it.
    pub(super) fn recover(&mut self, recover: &Recover) -> Result<(), String> {
        self.while_stopped()?;
        if self.terminating {
            return Err("the container is stopping".to_owned());
        }
        let order: Order =
            serde_json::from_slice(&recover.order).map_err(|error| format!("the order cannot be read: {error}"))?;
        if order.number != recover.number {
            return Err(format!(
                "the order says number {}, the request {}",
                order.number, recover.number
            ));
        }
        let ground = |error: std::io::Error| format!("cannot judge the data directory: {error}");
        let begun = self.folder.recovery().map_err(ground)?;
        let open = begun.as_ref().filter(|journal| journal.is_open());
        let number = open.map(|journal| journal.order.number);
        if let Some(earlier) = open.filter(|earlier| earlier.is_decided() && earlier.order.number != order.number) {
            let earlier = earlier.order.number;
            self.begin_job()?;
            return Err(format!(
                "recovery {earlier} was about to be done and comes to its end first"
            ));
        }
        may_recover(order.number, number, self.folder.ground().map_err(ground)?)
            .map_err(|refusal| refusal.to_string())?;
        if number != Some(order.number) {
            let record = |error: std::io::Error| format!("cannot record the order: {error}");
            // What an earlier one has moved or made is taken over: in place, its working directory is the only one.
            let mode = open.and_then(|journal| journal.mode);
            let journal = Journal {
                mode,
                ..Journal::new(order)
            };
            let content = serde_json::to_vec_pretty(&journal).map_err(|error| error.to_string())?;
            // The journal first: with it the number may be sent again, without it never.
            self.folder.write_journal(FILE, &content).map_err(record)?;
            self.folder.write_used(recover.number).map_err(record)?;
        }
        self.begin_job()
    }

    fn begin_job(&mut self) -> Result<(), String> {
        // Also when a newer binary has taken its name.
        let program = Path::new("/proc/self/exe");
        let paths = &self.args.paths;
        let mut command = Command::new(program);
        command
            .arg("recover")
            .arg("--data-volume")
            .arg(&paths.data_volume)
            .arg("--run-volume")
            .arg(&paths.run_volume)
            .arg("--etcd")
            .arg(&self.args.etcd)
            .stdin(Stdio::null());
        if !paths.data_subpath.is_empty() {
            command.arg("--data-subpath").arg(&paths.data_subpath);
        }
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start the recovery ({}): {error}", program.display()))?;
        let pid = child.id().cast_signed();
        self.known.repeatable = None;
        self.phase = Phase::Working(pid);
        self.say("info", "recovery goes on", &json!({ "pid": pid }));
        Ok(())
    }

    /// The job is at its end, or failed: its journal says which.
    pub(super) fn job_ended(&mut self, end: End) {
        self.say("info", "recovery job ended", &json!({ "code": end.code() }));
        self.wait_for("the agent's order");
    }

    /// What the job itself writes is not written under its hands.
    pub(super) fn may_write(&self, file: &str) -> Result<(), String> {
        let of_the_job = [name::NONCE, name::IDENTITY, name::FENCE];
        match self.phase {
            Phase::Working(_) if of_the_job.contains(&file) => {
                Err(format!("a recovery is under way; {file} is its own meanwhile"))
            }
            Phase::Working(_) | Phase::Waiting | Phase::Running | Phase::Stopping { .. } | Phase::BackingOff(_) => {
                Ok(())
            }
        }
    }
}
