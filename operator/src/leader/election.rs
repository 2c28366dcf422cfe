//! The election itself: reading and writing the Lease.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams, core::Status};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::{
    LEASE, Validity,
    record::{Move, OWN_TURN, Observed, released, taken},
};
use crate::words;

/// Between two looks at another's Lease: how late a released one is taken.
const LOOK: Duration = Duration::from_secs(1);
/// Between two renewals.
const RENEW: Duration = Duration::from_secs(2);
/// Longest wait for one answer of the API server.
const ANSWER: Duration = Duration::from_secs(4);

/// Our part in the election.
pub struct Election {
    leases: Api<Lease>,
    me: String,
    validity: Arc<Validity>,
    observed: Observed,
    /// The Lease as we last wrote it.
    held: Option<Lease>,
}

/// Our turn ended without our doing.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// Somebody else has the Lease.
    #[error("the leader Lease {LEASE} is held by {0}: this replica ends and starts again as a follower")]
    Taken(String),
    /// It could not be renewed in time.
    #[error("the leader Lease {LEASE} could not be renewed in time: {0}; next: check the API server and our RBAC")]
    NotRenewed(String),
}

impl Election {
    /// A candidate. Its name in the Lease is `instance` and something random: a restarted container is another
    /// candidate, because what the old one has under way is not known to it.
    #[must_use]
    pub fn new(client: Client, namespace: &str, instance: &str, validity: Arc<Validity>) -> Self {
        let me = format!("{instance}_{:016x}", fastrand::u64(..));
        Self {
            leases: Api::namespaced(client, namespace),
            me,
            validity,
            observed: Observed::default(),
            held: None,
        }
    }

    /// Waits until it is our turn. Refuses to act while another holder renews, however long that is.
    pub async fn acquire(&mut self) {
        let mut waits_for = None;
        loop {
            match self.attempt().await {
                Ok(true) => {
                    info!(lease = LEASE, me = %self.me, "leading");
                    return;
                }
                Ok(false) => {
                    let holder = self.observed.holder().map(str::to_owned);
                    if holder != waits_for {
                        info!(
                            lease = LEASE,
                            holder = holder.as_deref().unwrap_or("nobody"),
                            "waiting for the Lease"
                        );
                        waits_for = holder;
                    }
                }
                Err(error) => warn!(lease = LEASE, %error, "cannot take the Lease, trying again"),
            }
            sleep(LOOK).await;
        }
    }

    /// Renews until that fails for so long that another may act.
    pub async fn keep(&mut self) -> Lost {
        loop {
            sleep(RENEW).await;
            match self.attempt().await {
                Ok(true) => {}
                Ok(false) => {
                    self.validity.revoke();
                    return Lost::Taken(self.observed.holder().unwrap_or("nobody").to_owned());
                }
                Err(error) => {
                    // Time for one more try must be left, or it is over.
                    if self.validity.check(ANSWER).is_err() {
                        self.validity.revoke();
                        return Lost::NotRenewed(error);
                    }
                    debug!(lease = LEASE, %error, "the Lease is not renewed yet");
                }
            }
        }
    }

    /// Gives the Lease back so that another replica can go on at once. Nothing of ours may be under way any more.
    pub async fn release(&mut self) {
        self.validity.revoke();
        let Some(held) = self.held.take() else { return };
        let lease = released(held, Timestamp::now());
        match timeout(ANSWER, self.leases.replace(LEASE, &PostParams::default(), &lease)).await {
            Ok(Ok(_)) => info!(lease = LEASE, "Lease released"),
            Ok(Err(error)) => warn!(
                lease = LEASE,
                error = words::of(&error),
                "the Lease is not released: it runs out by itself"
            ),
            Err(_) => warn!(
                lease = LEASE,
                "the Lease is not released, no answer: it runs out by itself"
            ),
        }
    }

    /// One look, and one write when it is, or can be, our turn. True: it is.
    async fn attempt(&mut self) -> Result<bool, String> {
        match timeout(ANSWER, self.settle()).await {
            Ok(Ok(ours)) => Ok(ours),
            // Another was faster.
            Ok(Err(kube::Error::Api(status))) if is_outdated(&status) => {
                self.held = None;
                Err(format!("written by somebody else meanwhile: {}", status.message))
            }
            Ok(Err(error)) => Err(words::of(&error)),
            Err(_) => Err(format!("no answer within {ANSWER:?}")),
        }
    }

    /// One exchange, and another one at once when what we knew of the Lease is old: whether it is still our turn must
    /// not stay open until the next renewal.
    async fn settle(&mut self) -> Result<bool, kube::Error> {
        match self.exchange().await {
            Err(kube::Error::Api(status)) if is_outdated(&status) => {
                self.held = None;
                self.exchange().await
            }
            answer => answer,
        }
    }

    async fn exchange(&mut self) -> Result<bool, kube::Error> {
        let found = match self.held.clone() {
            // What we wrote last is what we renew: when somebody has changed it, the write is refused.
            Some(held) => Some(held),
            None => self.leases.get_opt(LEASE).await?,
        };
        // Our turn is counted from before the write is sent: others may see it from then on.
        let asked_at = Instant::now();
        let written = match found {
            None if self.observed.without_lease(&self.me, asked_at) == Move::Wait => return Ok(false),
            None => {
                let metadata = ObjectMeta {
                    name: Some(LEASE.into()),
                    ..ObjectMeta::default()
                };
                let lease = taken(
                    Lease {
                        metadata,
                        ..Lease::default()
                    },
                    &self.me,
                    Timestamp::now(),
                );
                self.leases.create(&PostParams::default(), &lease).await?
            }
            Some(lease) => match self.observed.see(&lease, &self.me, asked_at) {
                Move::Wait => return Ok(false),
                Move::Renew | Move::Take => {
                    let lease = taken(lease, &self.me, Timestamp::now());
                    self.leases.replace(LEASE, &PostParams::default(), &lease).await?
                }
            },
        };
        self.observed.see(&written, &self.me, asked_at);
        self.held = Some(written);
        self.validity.extend(asked_at + OWN_TURN);
        Ok(true)
    }
}

/// The Lease is not what we took it for: changed, made or deleted by somebody else.
fn is_outdated(status: &Status) -> bool {
    status.is_conflict() || status.is_already_exists() || status.is_not_found()
}

#[cfg(test)]
#[path = "election_tests.rs"]
mod tests;
