//! The handle on all links.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use proto::agent::{Directive, HashRequest, HashResponse, MoveLeaderRequest, StatusRequest};
use tokio::{task::AbortHandle, time::timeout};

use super::{
    Changes, LinkError, LinkState, MemberKey, Received, Target,
    changes::{Notifier, changes},
    link::Link,
    session::{self, Client},
};
use crate::pki::Authority;

/// A handle on the links to all agents; cheap to clone. Links end when the last handle is dropped.
#[derive(Clone)]
pub struct Links(Arc<Inner>);

struct Inner {
    links: Mutex<HashMap<MemberKey, Entry>>,
    notifier: Notifier,
    authority: Arc<Authority>,
}

struct Entry {
    link: Arc<Link>,
    task: AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How many links there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kept, up or not.
    pub all: usize,
    /// Up.
    pub connected: usize,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Links").field(&self.counts()).finish()
    }
}

impl Links {
    /// No links yet. [`Changes`] tells which clusters have news from their agents.
    #[must_use]
    pub fn new(authority: Arc<Authority>) -> (Self, Changes) {
        let (notifier, changes) = changes();
        let links = Mutex::new(HashMap::new());
        (
            Self(Arc::new(Inner {
                links,
                notifier,
                authority,
            })),
            changes,
        )
    }

    /// Keeps a link to this member's agent. The same target again changes nothing; another Pod or address ends the
    /// link there is, forgets what it said, and dials at once. Must be called inside the runtime.
    pub fn ensure(&self, member: MemberKey, target: Target) {
        let mut links = self.lock();
        if links.get(&member).is_some_and(|entry| entry.link.target == target) {
            return;
        }
        let Inner {
            notifier, authority, ..
        } = &*self.0;
        let link = Link::new(
            member.clone(),
            target,
            notifier.clone(),
            Arc::clone(authority),
            Timestamp::now(),
        );
        let link = Arc::new(link);
        let task = tokio::spawn(Arc::clone(&link).run()).abort_handle();
        links.insert(member, Entry { link, task });
    }

    /// Ends the link to this member's agent, if there is one.
    pub fn forget(&self, member: &MemberKey) {
        self.lock().remove(member);
    }

    /// The state of a link now.
    #[must_use]
    pub fn snapshot(&self, member: &MemberKey) -> LinkState {
        self.find(member).map_or(LinkState::None, |link| link.state())
    }

    /// Since when this member's etcd has known no leader, by all that its agent has said since; `None` when it knows one,
    /// or when its agent is not heard.
    #[must_use]
    pub fn leaderless_since(&self, member: &MemberKey) -> Option<Timestamp> {
        self.find(member).and_then(|link| link.leaderless_since())
    }

    /// How many links there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let links = self.lock();
        let connected = links.values().filter(|entry| entry.link.is_connected()).count();
        Counts {
            all: links.len(),
            connected,
        }
    }

    /// Sends an order. `Ok`: the agent has recorded it, and holds the number given back.
    pub async fn direct(&self, member: &MemberKey, order: Directive, deadline: Duration) -> Result<u64, LinkError> {
        let (_, mut client) = self.client(member)?;
        let answer = call(member, "Direct", deadline, client.direct(order)).await?;
        Ok(answer.number)
    }

    /// A full report, read now. It counts as received, too.
    pub async fn status(&self, member: &MemberKey, deadline: Duration) -> Result<Received, LinkError> {
        let (link, mut client) = self.client(member)?;
        let report = call(member, "Status", deadline, client.status(StatusRequest {})).await?;
        match session::accept(report, member, &link.target) {
            Ok(report) => Ok(link.received(report)),
            Err(why) => Err(LinkError::Unusable {
                member: member.clone(),
                why,
            }),
        }
    }

    /// Hands etcd's leadership to another voter. The agent of the leader is the one to ask.
    pub async fn move_leader(
        &self,
        member: &MemberKey,
        to: etcd::MemberId,
        deadline: Duration,
    ) -> Result<(), LinkError> {
        let (_, mut client) = self.client(member)?;
        let request = MoveLeaderRequest { target_member_id: to.0 };
        call(member, "MoveLeader", deadline, client.move_leader(request))
            .await
            .map(drop)
    }

    /// A hash over the member's data up to `revision`; 0: up to the one that it has now.
    pub async fn hash(&self, member: &MemberKey, revision: i64, deadline: Duration) -> Result<HashResponse, LinkError> {
        let (_, mut client) = self.client(member)?;
        call(member, "Hash", deadline, client.hash(HashRequest { revision })).await
    }

    fn client(&self, member: &MemberKey) -> Result<(Arc<Link>, Client), LinkError> {
        let not_connected = || LinkError::NotConnected { member: member.clone() };
        let link = self.find(member).ok_or_else(not_connected)?;
        let client = link.client().ok_or_else(not_connected)?;
        Ok((link, client))
    }

    fn find(&self, member: &MemberKey) -> Option<Arc<Link>> {
        self.lock().get(member).map(|entry| Arc::clone(&entry.link))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MemberKey, Entry>> {
        self.0.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn call<T>(
    member: &MemberKey,
    name: &'static str,
    deadline: Duration,
    answer: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, LinkError> {
    match timeout(deadline, answer).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(LinkError::from_status(member, name, &status)),
        Err(_) => Err(LinkError::NoAnswer {
            member: member.clone(),
            call: name,
            cause: format!("no answer within {deadline:?}"),
        }),
    }
}
