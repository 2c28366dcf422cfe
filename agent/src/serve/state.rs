//! All that the agent knows, and what follows from it. No I/O; the one task that owns it is [`super::actor`].

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proto::agent as wire;
use proto::supervisor::process_state::Phase as WirePhase;
use proto::supervisor::{Hello, ProcessState};

use super::act::{Circumstances, Phase};
use super::backoff::Backoff;
use super::decide::{self, Decision, Facts, LastExit, Recorded, Why, decide};
use super::directory::{Directory, State as DirectoryState, foreign};
use super::etcd_config::{self, Minor};
use super::identity::Identity;
use super::poll::Pace;
use super::quarantine;
use super::settings::Args;
use super::space::{Level, Space};
use super::standing::{Fence, Moment, Standing, StandingRecovery, StandingStart};
use super::supervisor::{ConnectionId, Supervisor};
use crate::recover::journal::{Journal, Order as RecoveryOrder, Phase as Step};

/// The oldest etcd that is served.
const OLDEST: Minor = Minor(3, 5);

/// A connected supervisor.
#[derive(Debug)]
pub struct Link {
    /// Which connection.
    pub id: ConnectionId,
    /// The handle.
    pub supervisor: Supervisor,
    /// What it said of itself; the process is kept in [`State::process`].
    pub hello: Hello,
    /// The configuration it holds for restarts, as far as it was given it on this connection.
    pub config: Option<String>,
}

/// The state of the agent.
#[derive(Debug)]
pub struct State {
    /// What the Pod gives.
    pub args: Args,
    /// etcd's data-dir.
    pub data_dir: PathBuf,
    /// On which addresses etcd listens.
    pub listen: IpAddr,
    /// The supervisor.
    pub link: Option<Link>,
    /// The process, as last heard.
    pub process: Option<ProcessState>,
    /// The directory, as last seen.
    pub directory: Directory,
    /// What stands; `None` until it could be read.
    pub standing: Option<Standing>,
    /// What stands is not on disk yet: no supervisor was there to write it.
    pub unsaved: bool,
    /// etcd, as last heard.
    pub etcd: Option<wire::Etcd>,
    /// Since when the supervisor says so of the present run: an answer to a question asked before may be the last run's.
    pub since: Option<Instant>,
    /// How many times in a row Status gave no answer.
    pub silent: u32,
    /// Failed runs in a row.
    pub backoff: Backoff,
    /// No start before this.
    pub not_before: Option<Instant>,
    /// What the supervisor last failed to do.
    pub fault: Option<String>,
}

impl State {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(args: Args, listen: IpAddr) -> Self {
        Self {
            data_dir: args.paths.data_dir(),
            args,
            listen,
            link: None,
            process: None,
            directory: Directory::unreadable("not looked at yet".to_owned()),
            standing: None,
            unsaved: false,
            etcd: None,
            since: None,
            silent: 0,
            backoff: Backoff::default(),
            not_before: None,
            fault: None,
        }
    }

    /// The newest history known.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.standing.as_ref().map_or(0, |standing| standing.incarnation)
    }

    /// The process, for decisions.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match (&self.link, &self.process) {
            (None, _) | (_, None) => Phase::Absent,
            (Some(_), Some(process)) => match process.phase() {
                // Of a newer protocol: it has not said that it waits, so nothing is ordered.
                WirePhase::Unspecified => Phase::Absent,
                WirePhase::Waiting => Phase::Waiting,
                WirePhase::Running => Phase::Running,
                WirePhase::BackingOff => Phase::BackingOff,
                WirePhase::Stopping => Phase::Stopping,
                WirePhase::Working => Phase::Working,
            },
        }
    }

    /// Does etcd run? `None` while no supervisor says so.
    #[must_use]
    pub fn running(&self) -> Option<bool> {
        match self.phase() {
            Phase::Absent => None,
            Phase::Running | Phase::Stopping => Some(true),
            // The etcd of a recovery runs on a directory of its own.
            Phase::Waiting | Phase::BackingOff | Phase::Working => Some(false),
        }
    }

    /// How etcd's last run bears on the next start.
    #[must_use]
    pub fn last_exit(&self) -> LastExit {
        let forgiven = self.standing.as_ref().and_then(|standing| standing.forgiven);
        match self.exit() {
            Some(exit) if forgiven.is_none() || exit.at.map(Moment::from) != forgiven => LastExit::of(&exit.class),
            Some(_) | None => LastExit::MayRestart,
        }
    }

    fn exit(&self) -> Option<&proto::supervisor::Exit> {
        self.process.as_ref()?.exit.as_ref()
    }

    /// The last end of etcd is no reason to hold any more.
    #[must_use]
    pub fn forgiving(&self, standing: Standing) -> Standing {
        let at = self.exit().and_then(|exit| exit.at).map(Moment::from);
        Standing {
            forgiven: at.or(standing.forgiven),
            ..standing
        }
    }

    /// What stands once the directory is another one.
    #[must_use]
    pub fn prepared(&self, standing: &Standing) -> Standing {
        self.forgiving(Standing {
            quarantine: None,
            // It goes with the directory it was put on.
            fence: Fence::AsItIs,
            ..standing.clone()
        })
    }

    /// No back-off: the next start is a first one.
    pub fn start_afresh(&mut self) {
        self.backoff.reset();
        self.not_before = None;
    }

    /// The first start that stands for this directory.
    #[must_use]
    pub fn start(&self) -> Option<StandingStart<'_>> {
        self.standing.as_ref()?.start_for(self.directory.nonce.as_ref()?)
    }

    /// The recovery that stands for this directory.
    #[must_use]
    pub fn recovery(&self) -> Option<StandingRecovery<'_>> {
        let (nonce, journal) = (self.directory.nonce.as_ref(), self.directory.recovery.as_ref());
        self.standing.as_ref()?.recovery_of(nonce, journal)
    }

    /// What is ordered to the supervisor for it.
    #[must_use]
    pub fn recovery_order(&self) -> Option<RecoveryOrder> {
        let standing = self.recovery()?;
        let recover = standing.recover;
        Some(RecoveryOrder {
            number: standing.number,
            identity: Identity {
                cluster_uid: self.args.cluster_uid.clone(),
                incarnation: standing.incarnation,
                token: recover.token.clone(),
                cluster_id: recover.cluster_id,
                member_id: recover.member_id,
                member_name: self.args.member.clone(),
                nonce: recover.new_nonce.clone(),
            },
            peer_url: self.args.peer_url.clone(),
            quota_backend_bytes: recover.options.quota_backend_bytes,
        })
    }

    /// May etcd start, and how?
    #[must_use]
    pub fn decision(&self) -> Decision {
        let Some(standing) = &self.standing else {
            let error = match &self.directory.state {
                DirectoryState::Unreadable { error } => error.clone(),
                _ => "what was ordered last cannot be read".to_owned(),
            };
            return Decision::Retry(error);
        };
        let directory = &self.directory;
        let expected = self.args.expected(standing.incarnation);
        let identity = directory.identity.as_ref();
        let recorded = match identity.map(|identity| foreign(identity, directory.nonce.as_ref(), expected)) {
            None => Recorded::Absent,
            Some(None) => Recorded::Ours,
            Some(Some(_)) => Recorded::NotOurs,
        };
        let fence = match (directory.fenced, &standing.fence) {
            (true, Fence::Lifted) => decide::Fence::ToGo,
            (true, Fence::AsItIs | Fence::Up { .. }) => decide::Fence::Stands,
            (false, Fence::Up { .. }) => decide::Fence::Wanted,
            (false, Fence::AsItIs | Fence::Lifted) => decide::Fence::Down,
        };
        let is_open = directory.recovery.as_ref().is_some_and(Journal::is_open);
        let recovery = match self.recovery() {
            Some(_) => decide::Recovery::Ordered,
            None if is_open => decide::Recovery::Forsaken,
            None => decide::Recovery::None,
        };
        let quarantine = standing.quarantine.as_ref().map(|quarantine| quarantine.removed);
        let decision = decide(Facts {
            state: &directory.state,
            started: directory.started,
            has_nonce: directory.nonce.is_some(),
            recorded,
            stray: directory.has_member && recorded == Recorded::Absent,
            start: self.start().map(|start| start.kind),
            hold: standing.hold.as_deref(),
            quarantine: quarantine.is_some() && quarantine == identity.map(|identity| identity.member_id),
            fence,
            recovery,
            exit: &self.last_exit(),
        });
        match (decision, self.lacked_room()) {
            (Decision::Once(_) | Decision::Repeatable, Some(space)) => Decision::Wait(Why::NoRoom(space)),
            (decision, _) => decision,
        }
    }

    /// What is left on the volume, when etcd has ended because that was too little and it still is: each start would end
    /// in the same way, after an election or two.
    #[must_use]
    pub fn lacked_room(&self) -> Option<Space> {
        let forgiven = self.standing.as_ref().and_then(|standing| standing.forgiven);
        let exit = self.exit()?;
        let for_space = exit.class == proto::exit::DISK_FULL && exit.at.map(Moment::from) != forgiven;
        let space = self.directory.space;
        (for_space && space.level() != Level::Ample).then_some(space)
    }

    /// What was set aside and is not needed any more: this member votes, and knows its leader.
    #[must_use]
    pub fn not_needed(&self) -> Vec<String> {
        let votes = self.running() == Some(true)
            && self
                .etcd
                .as_ref()
                .is_some_and(|etcd| etcd.serving && !etcd.is_learner && etcd.leader != 0);
        if votes {
            quarantine::not_needed(&self.directory.quarantined)
        } else {
            Vec::new()
        }
    }

    /// Circumstances of the next act.
    #[must_use]
    pub fn circumstances(&self, now: Instant) -> Circumstances {
        let config = self.repeatable_config().ok();
        let held = self.link.as_ref().and_then(|link| link.config.as_ref());
        Circumstances {
            phase: self.phase(),
            due: self.not_before.is_none_or(|at| at <= now),
            repeatable: config.is_some() && self.directory.has_wal && self.directory.identity.is_some(),
            current: config.is_some() && config.as_ref() == held,
        }
    }

    /// The minor version of etcd in the container.
    pub fn minor(&self) -> Result<Minor, String> {
        let hello = self
            .link
            .as_ref()
            .map(|link| &link.hello)
            .ok_or("no supervisor is connected")?;
        if !hello.etcd_version_error.is_empty() {
            return Err(format!(
                "`etcd --version` failed in the etcd container: {}",
                hello.etcd_version_error
            ));
        }
        let minor =
            Minor::of(&hello.etcd_version).ok_or_else(|| format!("{:?} is no version of etcd", hello.etcd_version))?;
        if minor < OLDEST {
            return Err(format!(
                "etcd {} is too old; 3.5 and later are served",
                hello.etcd_version
            ));
        }
        Ok(minor)
    }

    /// The configuration of a start that may be repeated.
    pub fn repeatable_config(&self) -> Result<String, String> {
        let options = self
            .standing
            .as_ref()
            .map(|standing| standing.options.clone())
            .unwrap_or_default();
        let member = self.args.etcd_member(&self.data_dir, self.listen);
        Ok(etcd_config::repeatable(member, self.minor()?, &options))
    }

    /// How often etcd is to be asked.
    #[must_use]
    pub fn pace(&self) -> Pace {
        match (self.phase(), &self.etcd) {
            (Phase::Running | Phase::Stopping, Some(etcd)) if etcd.serving && !etcd.is_learner && self.silent == 0 => {
                Pace::Steady
            }
            (Phase::Running | Phase::Stopping, _) => Pace::Fast,
            // The supervisor is away for a moment (it replaces itself), or has never been there.
            (Phase::Absent, _) if self.directory.state == DirectoryState::InUse => Pace::Steady,
            (Phase::Absent | Phase::Waiting | Phase::BackingOff | Phase::Working, _) => Pace::Idle,
        }
    }

    /// The supervisor speaks of the process. Says how etcd has ended, when this is news.
    pub fn hear(&mut self, process: ProcessState, now: Instant) -> Option<proto::supervisor::Exit> {
        let before = self.process.as_ref();
        let new_run =
            before.is_none_or(|before| (before.pid, &before.started_at) != (process.pid, &process.started_at));
        let runs = matches!(process.phase(), WirePhase::Running | WirePhase::Stopping);
        if new_run || !runs {
            self.etcd = None;
            self.since = Some(now);
            self.silent = 0;
        }
        let ended = process
            .exit
            .clone()
            .filter(|exit| before.is_some_and(|before| before.exit.as_ref() != Some(exit)));
        if let Some(exit) = &ended {
            let started = before.and_then(|before| before.started_at);
            self.not_before = Some(now + self.backoff.ended(ran(started, exit.at)));
        }
        let worked = before.is_some_and(|before| before.phase() == WirePhase::Working);
        if worked && process.phase() != WirePhase::Working {
            self.not_before = Some(now + RECOVERY_AGAIN);
        }
        self.process = Some(process);
        ended
    }

    /// A recovery has come to its end: nothing is waited for any more.
    pub fn hear_of_recovery(&mut self) {
        if self
            .directory
            .recovery
            .as_ref()
            .is_some_and(|journal| journal.phase == Step::Done)
        {
            self.not_before = None;
        }
    }
}

/// A recovery that has failed, or has no room, is tried again after this.
const RECOVERY_AGAIN: Duration = Duration::from_secs(5);

/// How long a run took, by the supervisor's clock.
fn ran(started: Option<prost_types::Timestamp>, ended: Option<prost_types::Timestamp>) -> Duration {
    match (started, ended) {
        (Some(started), Some(ended)) => {
            u64::try_from(ended.seconds - started.seconds).map_or(Duration::ZERO, Duration::from_secs)
        }
        _ => Duration::ZERO,
    }
}
