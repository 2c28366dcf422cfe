//! Calls of the operator to this member's own etcd that take their time: one at once, each with a deadline, and ended
//! when the operator hangs up.

use std::sync::Arc;
use std::time::Duration;

use etcd::{Class, EtcdError, Refusal};
use proto::agent as wire;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Status;

/// Reading all of a database takes about a second for each gigabyte on a good disk.
const HASH: Duration = Duration::from_secs(30);
/// A member that lags behind the revision it is asked about is waited for so long.
const CATCH_UP: Duration = Duration::from_secs(5);
/// Between two looks whether it has come to it.
const AGAIN: Duration = Duration::from_millis(50);

/// Makes the calls.
#[derive(Debug, Clone)]
pub struct Maintenance {
    etcd: etcd::Admin,
    member: Arc<str>,
    turn: Arc<Semaphore>,
}

impl Maintenance {
    /// For the local etcd of this member.
    #[must_use]
    pub fn new(etcd: &etcd::Admin, member: &str) -> Self {
        Self {
            etcd: etcd.with_deadline(HASH),
            member: member.into(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// A hash over all keys up to `revision`; 0: up to the one the member has now.
    pub async fn hash(&self, revision: i64) -> Result<wire::HashResponse, Status> {
        let deadline = Instant::now() + HASH;
        let late = |_| {
            Status::deadline_exceeded(format!(
                "etcd of {} has not hashed its keys within {HASH:?}; its disk or database may be slow",
                self.member
            ))
        };
        // Nobody closes it.
        let _turn = timeout_at(deadline, self.turn.acquire()).await.map_err(late)?;
        let hash = timeout_at(deadline, self.hash_at(revision)).await.map_err(late)?;
        hash.map_err(|error| status(&error))
    }

    async fn hash_at(&self, revision: i64) -> Result<wire::HashResponse, EtcdError> {
        let revision = match revision {
            ..=0 => self.etcd.status().await?.revision,
            given => given,
        };
        let until = Instant::now() + CATCH_UP;
        let hash = loop {
            match self.etcd.hash(revision).await {
                Err(error) if error.refusal() == Some(Refusal::FutureRevision) && Instant::now() < until => {
                    sleep(AGAIN).await;
                }
                answer => break answer?,
            }
        };
        Ok(wire::HashResponse {
            member_id: hash.member_id.0,
            cluster_id: hash.cluster_id.0,
            revision: hash.revision,
            compact_revision: hash.compact_revision,
            hash: hash.hash,
        })
    }
}

/// As the operator reads it: may the same be asked again?
#[must_use]
pub fn status(error: &EtcdError) -> Status {
    match error.class() {
        Class::Retry => Status::unavailable(error.to_string()),
        Class::Person | Class::Bug => Status::failed_precondition(error.to_string()),
    }
}
