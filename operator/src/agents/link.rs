//! One link: the task that keeps it, and what it shares with the rest of the process.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use jiff::Timestamp;
use proto::agent::Report;
use tokio::time::sleep;

use super::{
    Cause, ClusterKey, LinkState, MemberKey, Peer, Received, Target,
    backoff::Backoff,
    bucket::Bucket,
    changes::Notifier,
    channel,
    session::{self, Client},
};
use crate::pki::Authority;

/// What a link's task and its readers share.
pub(super) struct Link {
    pub(super) member: MemberKey,
    pub(super) target: Target,
    cluster: ClusterKey,
    state: Mutex<State>,
    notifier: Notifier,
    authority: Arc<Authority>,
}

struct State {
    seen: LinkState,
    client: Option<Client>,
    /// Since when each report of this connection has said that etcd knows no leader.
    leaderless: Option<Timestamp>,
}

impl Link {
    pub(super) fn new(
        member: MemberKey,
        target: Target,
        notifier: Notifier,
        authority: Arc<Authority>,
        now: Timestamp,
    ) -> Self {
        let cluster = ClusterKey {
            namespace: member.namespace.clone(),
            name: target.cluster.clone(),
        };
        let seen = LinkState::Down {
            since: now,
            cause: None,
            last: None,
        };
        Self {
            member,
            target,
            cluster,
            state: Mutex::new(State {
                seen,
                client: None,
                leaderless: None,
            }),
            notifier,
            authority,
        }
    }

    pub(super) fn state(&self) -> LinkState {
        self.lock().seen.clone()
    }

    pub(super) fn leaderless_since(&self) -> Option<Timestamp> {
        self.lock().leaderless
    }

    pub(super) fn is_connected(&self) -> bool {
        self.lock().client.is_some()
    }

    /// The client, while the link is up.
    pub(super) fn client(&self) -> Option<Client> {
        self.lock().client.clone()
    }

    /// Takes over a report that was read by [`super::Links::status`].
    pub(super) fn received(&self, report: Report) -> Received {
        let received = Received {
            report: Arc::new(report),
            at: Timestamp::now(),
        };
        let mut state = self.lock();
        let State { seen, leaderless, .. } = &mut *state;
        let news = match seen {
            LinkState::Connected { last, .. } => {
                let news = says_more(&last.report, &received.report);
                *last = received.clone();
                *leaderless = knows_no_leader(&last.report).then(|| leaderless.unwrap_or(received.at));
                news
            }
            // The link has been lost meanwhile: what was read is what was said last.
            LinkState::Down { last, .. } => {
                *last = Some(received.clone());
                false
            }
            LinkState::None => false,
        };
        drop(state);
        if news {
            self.notifier.notify(&self.cluster);
        }
        received
    }

    /// Dials, follows, and dials again, until it is dropped. What happens once in a session is boxed: the task keeps
    /// room for the largest thing it ever waits for, and mostly it waits for reports.
    pub(super) async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::new();
        // One for all sessions: ending one must not be a way to more reports.
        let mut bucket = Bucket::new(Instant::now());
        loop {
            let began = Instant::now();
            let Ended { cause, was_up } = self.session(&mut bucket).await;
            self.down(cause);
            if was_up {
                backoff.was_up(began.elapsed());
            }
            sleep(backoff.wait(fastrand::f64())).await;
        }
    }

    async fn session(&self, bucket: &mut Bucket) -> Ended {
        let early = |cause| Ended { cause, was_up: false };
        let stream = match Box::pin(session::dial(
            &self.member,
            &self.target,
            self.authority.client_config(),
        ))
        .await
        {
            Ok(stream) => stream,
            Err(cause) => return early(cause),
        };
        let (channel, driver) = match Box::pin(channel::handshake(stream)).await {
            Ok(connection) => connection,
            Err(error) => return early(Cause::Protocol(error.to_string())),
        };
        let client = match session::client(&self.member, &self.target, channel) {
            Ok(client) => client,
            Err(cause) => return early(cause),
        };
        tokio::select! {
            ended = self.follow(client, bucket) => ended,
            closed = driver => {
                let words = closed.err().map_or_else(|| "closed by the agent".into(), |error| describe(&error));
                let was_up = self.is_connected();
                let cause = if was_up { Cause::Lost(words) } else { Cause::Protocol(words) };
                Ended { cause, was_up }
            }
        }
    }

    async fn follow(&self, mut client: Client, bucket: &mut Bucket) -> Ended {
        let early = |cause| Ended { cause, was_up: false };
        let peer = match Box::pin(session::hello(&mut client, &self.member, &self.target)).await {
            Ok(peer) => peer,
            Err(cause) => return early(cause),
        };
        let (mut reports, first) = match Box::pin(session::watch(&mut client, &self.member, &self.target)).await {
            Ok(watch) => watch,
            Err(cause) => return early(cause),
        };
        self.up(client, peer, first);
        let cause = loop {
            if let Err(wait) = bucket.take(Instant::now()) {
                sleep(wait).await;
                continue;
            }
            match reports.message().await {
                Ok(Some(report)) => match session::accept(report, &self.member, &self.target) {
                    Ok(report) => {
                        self.received(report);
                    }
                    Err(words) => break Cause::WrongMember(words),
                },
                Ok(None) => break Cause::Lost("the agent ended the stream".into()),
                Err(status) => break session::ended(&status),
            }
        };
        Ended { cause, was_up: true }
    }

    fn up(&self, client: Client, peer: Peer, first: Report) {
        let now = Timestamp::now();
        let last = Received {
            report: Arc::new(first),
            at: now,
        };
        let mut state = self.lock();
        state.leaderless = knows_no_leader(&last.report).then_some(now);
        state.seen = LinkState::Connected {
            since: now,
            peer: Arc::new(peer),
            last,
        };
        state.client = Some(client);
        drop(state);
        self.notifier.notify(&self.cluster);
    }

    /// Notifies when the link was up, or when another cause stands in the way than before.
    fn down(&self, cause: Cause) {
        let mut state = self.lock();
        state.client = None;
        state.leaderless = None;
        let (since, last, news) = match &state.seen {
            LinkState::Connected { last, .. } => (Timestamp::now(), Some(last.clone()), true),
            LinkState::Down {
                since,
                last,
                cause: before,
            } => (*since, last.clone(), before.as_ref() != Some(&cause)),
            LinkState::None => (Timestamp::now(), None, true),
        };
        state.seen = LinkState::Down {
            since,
            cause: Some(cause),
            last,
        };
        drop(state);
        if news {
            self.notifier.notify(&self.cluster);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Ended {
    cause: Cause,
    was_up: bool,
}

/// etcd runs there, and knows nobody who leads.
fn knows_no_leader(report: &Report) -> bool {
    report.etcd.as_ref().is_some_and(|etcd| etcd.leader == 0)
}

/// Does the second report say anything that the first does not, the time apart?
fn says_more(before: &Report, after: &Report) -> bool {
    let timeless = |report: &Report| Report {
        observed_at: None,
        ..report.clone()
    };
    timeless(before) != timeless(after)
}

/// The last cause behind an error of the transport is the one that helps.
fn describe(error: &hyper::Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = cause.to_string();
        source = cause.source();
    }
    super::sanitize::text(&words)
}
