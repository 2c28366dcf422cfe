//! The one task that owns the state: it hears what happens, lets the pure parts decide, and has it carried out.

mod asked;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use proto::agent as wire;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument as _;

use super::act::{Act, Phase, act};
use super::decide::Decision;
use super::directory::{self, State as DirectoryState};
use super::event::{Event, Inspected};
use super::identity::Nonce;
use super::looking::Looking;
use super::poll::{Pace, Polled, Wanted};
use super::recover_log::Log;
use super::standing::{Fence, Standing};
use super::state::{Link, State};
use super::supervisor::{ConnectionId, Error, Said};
use super::{assemble, etcd_config, etcd_view, orders, renew, report};

/// Writing a small file takes this long at most, or the directive is not taken.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// Any other order of the supervisor; a stop takes its grace.
const ORDER_LIMIT: Duration = Duration::from_mins(1);
/// A directory that cannot be read, or has no room, is looked at again, and what has failed is tried again, after this.
const RETRY: Duration = Duration::from_secs(2);
/// An order that fails again and again is given again after twice the time, up to this.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// How long after an order of a first start its WAL is looked for, again and again.
const BIRTH: Duration = Duration::from_millis(50);
/// How often it is looked how far a recovery is.
const WORK: Duration = Duration::from_millis(200);
/// A report waits so long for a look at the directory.
const LOOK_PATIENCE: Duration = Duration::from_millis(50);
/// Sizes and free space are read this often.
const SIZES: Duration = Duration::from_secs(30);

/// The task.
#[derive(Debug)]
pub struct Actor {
    state: State,
    events: mpsc::Sender<Event>,
    incoming: mpsc::Receiver<Event>,
    wanted: watch::Sender<Wanted>,
    reports: watch::Sender<Arc<wire::Report>>,
    certificate: watch::Receiver<Option<wire::Certificate>>,
    looking: Looking,
    acting: bool,
    /// The supervisor has connected, and its binary may be another one than ours.
    renewal_due: bool,
    /// What stands once the orders under way are carried out, which write it themselves.
    preparing: Option<Standing>,
    /// The configuration that the orders under way give to the supervisor.
    giving: Option<String>,
    fresh: Vec<(Instant, oneshot::Sender<wire::Report>)>,
    last_said: String,
    /// What was last said to have failed.
    last_fault: String,
    /// How many orders in a row have failed.
    faults: u32,
    /// What stands is not written again before this.
    save_again: Instant,
    /// When the last look at the directory began.
    looked: Instant,
}

impl Actor {
    /// A task that knows nothing yet. The first report is in `reports` already.
    #[must_use]
    pub fn new(
        state: State,
        (events, incoming): (mpsc::Sender<Event>, mpsc::Receiver<Event>),
        wanted: watch::Sender<Wanted>,
        certificate: watch::Receiver<Option<wire::Certificate>>,
    ) -> (Self, watch::Receiver<Arc<wire::Report>>) {
        let first = assemble::report(&state, Instant::now(), now(), certificate.borrow().as_ref());
        let (reports, receiver) = watch::channel(Arc::new(first));
        let actor = Self {
            state,
            events,
            incoming,
            wanted,
            reports,
            certificate,
            looking: Looking::Due,
            acting: false,
            renewal_due: false,
            preparing: None,
            giving: None,
            fresh: Vec::new(),
            last_said: String::new(),
            last_fault: String::new(),
            faults: 0,
            save_again: Instant::now(),
            looked: Instant::now(),
        };
        (actor, receiver)
    }

    /// Runs for ever.
    pub async fn run(mut self) {
        loop {
            self.save_what_is_not().await;
            self.advance();
            self.publish();
            let wake = self.wake(Instant::now());
            tokio::select! {
                event = self.incoming.recv() => match event {
                    Some(event) => self.handle(event).await,
                    None => return,
                },
                // During a look it is only the report's turn, or that of a write.
                () = tokio::time::sleep_until(wake.into()) => if self.looking == Looking::Fresh {
                    self.look_again();
                },
                changed = self.certificate.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    async fn handle(&mut self, event: Event) {
        match event {
            Event::Supervisor(id, said) => self.supervisor(id, said),
            Event::Inspected(inspected) => self.inspected(*inspected),
            Event::Polled(polled) => self.polled(&polled).await,
            Event::Acted(result) => self.acted(result),
            Event::Direct(directive, answer) => {
                let taken = self.direct(*directive).await;
                let _ = answer.send(taken);
            }
            Event::Report(answer) => self.fresh_report(answer),
            Event::Logs(lines, answer) => self.logs(lines, answer),
        }
    }

    fn supervisor(&mut self, id: ConnectionId, said: Said) {
        let current = self.state.link.as_ref().is_some_and(|link| link.id == id);
        match said {
            Said::Connected(supervisor, mut hello) => {
                let process = hello.process.take().unwrap_or_default();
                tracing::info!(
                    supervisor = hello.version, etcd = hello.etcd_version, phase = ?process.phase(), "supervisor connected"
                );
                self.state.link = Some(Link {
                    id,
                    supervisor,
                    hello: *hello,
                    config: None,
                });
                self.renewal_due = true;
                self.hear(process);
                self.save_again = Instant::now();
                self.try_again();
            }
            Said::Process(process) if current => self.hear(*process),
            Said::Gone if current => {
                tracing::info!("supervisor is gone");
                self.state.link = None;
                self.look_again();
            }
            // The last words of a connection that was replaced.
            Said::Process(_) | Said::Gone => {}
        }
    }

    fn hear(&mut self, process: proto::supervisor::ProcessState) {
        if let Some(exit) = self.state.hear(process, Instant::now()) {
            tracing::warn!(class = exit.class, code = exit.code, "etcd has ended");
        }
        self.look_again();
    }

    fn look_again(&mut self) {
        self.looking = self.looking.after_news();
    }

    fn look(&mut self) {
        self.looking = Looking::Now;
        self.looked = Instant::now();
        let (args, running) = (self.state.args.clone(), self.state.running());
        let (incarnation, events) = (self.state.incarnation(), self.events.clone());
        let unknown = self.state.standing.is_none();
        let leaderless = self.state.etcd.as_ref().is_some_and(|etcd| etcd.leader == 0);
        let last = self.state.directory.reading.clone();
        tokio::task::spawn_blocking(move || {
            let standing = unknown.then(|| directory::read_standing(&args.paths));
            let incarnation = match &standing {
                Some(Ok(standing)) => standing.incarnation,
                Some(Err(_)) | None => incarnation,
            };
            let mut directory = directory::inspect(&args.paths, args.expected(incarnation), running, last);
            let in_use = directory.state == DirectoryState::InUse;
            // Of one that is well its leader tells more than its disk.
            directory.log = match &directory.reading {
                _ if !directory.has_wal => None,
                Some(reading) if !in_use => Log::of(&reading.inspection.facts),
                Some(_) | None if leaderless => Log::of_running(&args.paths.data_dir()),
                Some(_) | None => None,
            };
            // The agent ends when nobody takes events any more.
            let _ = events.blocking_send(Event::Inspected(Box::new(Inspected { directory, standing })));
        });
    }

    fn inspected(
        &mut self,
        Inspected {
            mut directory,
            standing,
        }: Inspected,
    ) {
        self.looking = self.looking.after_look();
        match standing {
            None => {}
            Some(Ok(standing)) => self.state.standing = Some(standing),
            Some(Err(error)) => directory.state = DirectoryState::Unreadable { error },
        }
        if directory.state != self.state.directory.state {
            tracing::info!(state = ?directory.state, started = directory.started, "data directory");
        }
        if self.state.running().is_none() && directory.state != DirectoryState::InUse {
            self.state.etcd = None;
        }
        let lacked = self.state.lacked_room().is_some();
        self.state.directory = directory;
        if lacked && self.state.lacked_room().is_none() {
            tracing::info!(space = %self.state.directory.space, "the volume has room again");
            self.state.start_afresh();
        }
        self.state.hear_of_recovery();
    }

    async fn polled(&mut self, polled: &Polled) {
        let of_an_earlier_run = self.state.since.is_some_and(|since| polled.asked < since);
        if self.state.running() == Some(false) || of_an_earlier_run {
            return;
        }
        // One answer missed under load is no dead port; the next question follows at once.
        self.state.silent = if polled.status.is_ok() {
            0
        } else {
            self.state.silent.saturating_add(1)
        };
        let served = self.state.etcd.as_ref().is_some_and(|etcd| etcd.serving);
        if polled.status.is_ok() || !served || self.state.silent > 1 {
            let identity = self.state.directory.identity.as_ref();
            let view = etcd_view::view(polled, self.state.etcd.as_ref(), identity);
            let answers = view.as_ref().is_some_and(|etcd| etcd.serving);
            let leads = |etcd: Option<&wire::Etcd>| etcd.is_some_and(|etcd| etcd.leader != 0);
            if answers != served {
                tracing::info!(answers, "etcd's client port");
                // By now etcd has made its files: their size goes along with the news, and is none of its own later.
                self.look_again();
            } else if leads(self.state.etcd.as_ref()) != leads(view.as_ref()) {
                self.look_again();
            }
            self.state.etcd = view;
        }
        self.check_ids().await;
        self.answer_fresh(polled.asked);
    }

    /// etcd must be who it was recorded to be before its first start (invariant 5). Otherwise it is stopped and held.
    async fn check_ids(&mut self) {
        let (Some(etcd), Some(identity)) = (&self.state.etcd, &self.state.directory.identity) else {
            return;
        };
        let Some(standing) = &self.state.standing else { return };
        // Both must be of the run that goes on now.
        let same_run = self.state.running() == Some(true) && self.looking == Looking::Fresh;
        if !etcd.serving || !same_run || standing.hold.is_some() {
            return;
        }
        let (member, cluster) = (etcd::MemberId(etcd.member_id), etcd::ClusterId(etcd.cluster_id));
        if (member, cluster) == (identity.member_id, identity.cluster_id) {
            return;
        }
        let reason = format!(
            "etcd runs as member {member} of cluster {cluster}, recorded were {} of {}",
            identity.member_id, identity.cluster_id
        );
        tracing::error!(reason, "etcd is stopped");
        let held = Standing {
            hold: Some(reason),
            ..standing.clone()
        };
        self.state.unsaved = self.save(&held).await.is_err();
        self.save_again = Instant::now() + RETRY;
        self.state.standing = Some(held);
    }

    /// Writes what stands, when that is not on disk yet and could be.
    async fn save_what_is_not(&mut self) {
        let due = self.state.unsaved && self.preparing.is_none() && self.save_again <= Instant::now();
        if let (true, Some(_), Some(standing)) = (due, &self.state.link, self.state.standing.clone()) {
            match self.save(&standing).await {
                Ok(()) => tracing::info!("what was ordered is on disk now"),
                Err(error) => self.fault("what was ordered cannot be written yet", error.to_string()),
            }
            self.save_again = Instant::now() + RETRY;
        }
    }

    /// Says what has failed, once for each text: what fails for hours must not fill the log.
    fn fault(&mut self, what: &str, why: String) {
        if self.last_fault != why {
            tracing::warn!(why, "{what}");
            self.last_fault = why;
        }
    }

    /// Something has changed: what has failed is given a new try at once.
    fn try_again(&mut self) {
        self.faults = 0;
        if self.state.fault.take().is_some() {
            self.state.not_before = None;
        }
    }

    fn acted(&mut self, result: Result<(), Error>) {
        self.acting = false;
        let (prepared, given) = (self.preparing.take(), self.giving.take());
        match result {
            Ok(()) => {
                self.state.fault = None;
                self.faults = 0;
                self.last_fault.clear();
                if let (Some(link), Some(config)) = (&mut self.state.link, given) {
                    link.config = Some(config);
                }
                if let Some(standing) = prepared {
                    self.state.standing = Some(standing);
                    self.state.unsaved = false;
                    self.state.start_afresh();
                }
            }
            Err(error) => {
                self.fault("order not carried out", error.to_string());
                self.state.fault = Some(error.to_string());
                let pause = RETRY.saturating_mul(1 << self.faults.min(4)).min(LONGEST_RETRY);
                self.faults = self.faults.saturating_add(1);
                self.state.not_before = Some(Instant::now() + pause);
            }
        }
        self.look_again();
    }

    /// What follows from what is known now.
    fn advance(&mut self) {
        let now = Instant::now();
        if self.looking == Looking::Due {
            self.look();
        }
        if let (true, false, Some(link)) = (self.renewal_due, self.acting, &self.state.link) {
            (self.renewal_due, self.acting) = (false, true);
            let run_volume = self.state.args.paths.run_volume.clone();
            let renewed = renew::run(link.supervisor.clone(), run_volume, self.events.clone());
            tokio::spawn(renewed.in_current_span());
        }
        if self.looking == Looking::Fresh && !self.acting && self.state.standing.is_some() {
            self.decide(now);
        }
        let pace = self.state.pace();
        self.wanted
            .send_if_modified(|wanted| std::mem::replace(&mut wanted.pace, pace) != pace);
        if pace == Pace::Idle && !self.fresh.is_empty() {
            self.answer_fresh(now);
        }
    }

    /// When to look at the directory again though nothing was heard.
    fn wake(&self, now: Instant) -> Instant {
        let directory = &self.state.directory;
        let interval = if directory.state == DirectoryState::InUse && !directory.has_wal {
            // A first start: its configuration can be given for restarts as soon as the WAL is there.
            BIRTH
        } else if self.state.phase() == Phase::Working {
            WORK
        } else if matches!(directory.state, DirectoryState::Unreadable { .. }) || self.state.lacked_room().is_some() {
            RETRY
        } else {
            SIZES
        };
        // A look under way wakes by its result, however long its disk takes; the report does not wait for it.
        let again = if self.looking == Looking::Fresh {
            self.looked + interval
        } else {
            Some(self.looked + LOOK_PATIENCE)
                .filter(|at| *at > now)
                .unwrap_or(now + SIZES)
        };
        let save = Some(self.save_again).filter(|_| self.state.unsaved && self.state.link.is_some());
        [self.state.not_before, save]
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
            .fold(again, Instant::min)
    }

    fn decide(&mut self, now: Instant) {
        if self.state.fault.is_some() && self.state.not_before.is_some_and(|at| at > now) {
            return;
        }
        let decision = self.state.decision();
        let act = act(&decision, self.state.circumstances(now));
        if act == Act::Nothing {
            self.state.fault = None;
            self.faults = 0;
            let not_needed = self.state.not_needed();
            if decision == Decision::Observe && !not_needed.is_empty() {
                tracing::info!(?not_needed, "delete what was set aside: the member votes again");
                self.carry_out(orders::remove_quarantined(not_needed));
            }
            return;
        }
        match self.orders(&act) {
            Ok(orders) => {
                if self.faults == 0 {
                    tracing::info!(?decision, "{}", act.describe());
                }
                self.carry_out(orders);
            }
            Err(why) => {
                self.state.not_before = Some(now + RETRY);
                self.fault(&format!("cannot {}", act.describe()), why);
            }
        }
    }

    /// The orders of an act. An error says what is missing for them.
    fn orders(&mut self, act: &Act) -> Result<Vec<orders::Order>, String> {
        let state = &self.state;
        let standing = state.standing.as_ref().ok_or("what stands is not known")?;
        let text = |error: serde_json::Error| error.to_string();
        match act {
            Act::Nothing => Ok(Vec::new()),
            Act::StartOnce(_) => {
                let (start, nonce) = state
                    .start()
                    .zip(state.directory.nonce.as_ref())
                    .ok_or("no start stands")?;
                let member = state.args.etcd_member(&state.data_dir, state.listen);
                let config = etcd_config::once(member, state.minor()?, start.kind, start.first);
                let (uid, name) = (&state.args.cluster_uid, &state.args.member);
                let orders = orders::start_once(&state.directory, nonce, start, uid, name, config).map_err(text);
                if let Some(link) = &mut self.state.link {
                    link.config = None;
                }
                orders
            }
            Act::StartRepeatable => {
                let config = state.repeatable_config()?;
                self.giving = Some(config.clone());
                Ok(orders::start_repeatable(config))
            }
            Act::SetRepeatable => {
                let config = state.repeatable_config()?;
                self.giving = Some(config.clone());
                Ok(orders::set_repeatable(config))
            }
            Act::Stop(reason) => Ok(orders::stop(reason.clone())),
            Act::Renew => {
                let nonce = Nonce::random().map_err(|error| format!("no random bytes: {error}"))?;
                let done = state.prepared(standing);
                let orders = orders::renew(&state.directory, &nonce, &done).map_err(text)?;
                self.preparing = Some(done);
                Ok(orders)
            }
            Act::SetAside => {
                let nonce = Nonce::random().map_err(|error| format!("no random bytes: {error}"))?;
                let done = state.prepared(standing);
                let medium = state.args.storage_medium;
                let orders = orders::set_aside(medium, &state.directory, &nonce, &done).map_err(text)?;
                self.preparing = Some(done);
                Ok(orders)
            }
            Act::PutFence => match &standing.fence {
                Fence::Up { reason } => Ok(orders::put_fence(reason)),
                Fence::AsItIs | Fence::Lifted => Err("no fence is wanted".to_owned()),
            },
            Act::LiftFence => Ok(orders::lift_fence()),
            Act::Recover => {
                let order = state.recovery_order().ok_or("no recovery stands")?;
                orders::recover(&order).map_err(text)
            }
        }
    }

    /// One after the other; the first that fails ends it. Meanwhile nothing else is decided.
    fn carry_out(&mut self, orders: Vec<orders::Order>) {
        let Some(link) = &self.state.link else { return };
        self.acting = true;
        let (supervisor, events) = (link.supervisor.clone(), self.events.clone());
        tokio::spawn(async move {
            let mut result = Ok(());
            for order in orders {
                result = supervisor.request(order, ORDER_LIMIT).await;
                if result.is_err() {
                    break;
                }
            }
            let _ = events.send(Event::Acted(result)).await;
        });
    }

    fn report(&self) -> wire::Report {
        assemble::report(&self.state, Instant::now(), now(), self.certificate.borrow().as_ref())
    }

    fn publish(&mut self) {
        // While it is being looked at, the old look and the new process may not fit together. A slow disk must not keep
        // the rest from being told.
        if self.looking != Looking::Fresh && self.looked.elapsed() < LOOK_PATIENCE {
            return;
        }
        let new = self.report();
        if report::is_material(&self.reports.borrow(), &new) {
            if !new.waiting_for.is_empty() && self.last_said != new.waiting_for {
                tracing::info!("waiting for {}", new.waiting_for);
                self.last_said.clone_from(&new.waiting_for);
            }
            self.reports.send_replace(Arc::new(new));
        }
    }
}

fn now() -> prost_types::Timestamp {
    SystemTime::now().into()
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;
