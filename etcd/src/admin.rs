//! The client: one member, one connection, a deadline on every call.

use std::{collections::BTreeSet, future::Future, time::Duration};

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Channel, Client, GetOptions, MemberAddOptions};
use tonic::transport::Endpoint;

use crate::{Call, ClusterId, EtcdError, MemberId, Refusal};

/// Longest wait for a connection. Shorter than any deadline, so that an address that swallows packets is found
/// unreachable, not of unknown outcome.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A read of this key is the read barrier. Nothing is ever written there.
const BARRIER_KEY: &str = "etcd-operator.cozystack.io/read-barrier";

/// Seconds that the lease of [`Admin::nudge`] lives if its revocation is lost.
const NUDGE_TTL: i64 = 10;

/// How etcd's client port is spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// No TLS and no credentials.
    #[default]
    Plain,
}

/// A client of one member. The connection is made with the first call and closed when this is dropped.
#[derive(Clone)]
pub struct Admin {
    endpoint: String,
    client: Client,
    deadline: Duration,
}

/// One member, as etcd's member list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its ID.
    pub id: MemberId,
    /// Empty until it has started.
    pub name: String,
    /// Where its peers find it.
    pub peer_urls: BTreeSet<String>,
    /// Empty until it has started.
    pub client_urls: BTreeSet<String>,
    /// It has no vote yet.
    pub is_learner: bool,
}

/// A member list that was current at some moment between the call and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberList {
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The member that answered.
    pub answered_by: MemberId,
    /// The members, by ID.
    pub members: Vec<Member>,
}

/// A member's own view of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The member that answered.
    pub member_id: MemberId,
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// The leader it knows.
    pub leader: Option<MemberId>,
    /// Raft term.
    pub term: u64,
    /// Commit index.
    pub commit_index: u64,
    /// Applied index.
    pub applied_index: u64,
    /// It has no vote yet.
    pub is_learner: bool,
    /// Version of the running process, without "v".
    pub version: String,
    /// Size of the database file in bytes.
    pub db_size: i64,
    /// Bytes of it in use.
    pub db_size_in_use: i64,
    /// Revision of the key space.
    pub revision: i64,
    /// Alarms and a missing leader, in etcd's words (3.6 and later).
    pub errors: Vec<String>,
}

/// A hash over all keys of one member up to a revision. Two members hold the same only where revision, compact revision
/// and hash are equal; the hashes of different revisions or compact revisions say nothing of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    /// The member that answered.
    pub member_id: MemberId,
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// The revision up to which keys are hashed.
    pub revision: i64,
    /// The revision below which history is compacted away.
    pub compact_revision: i64,
    /// The hash.
    pub hash: u32,
}

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alarm {
    /// The database has reached its quota: writes are refused.
    NoSpace,
    /// Members were found to hold different data: writes are refused.
    Corrupt,
}

impl Alarm {
    fn of(kind: AlarmType) -> Option<Self> {
        match kind {
            AlarmType::None => None,
            AlarmType::Nospace => Some(Self::NoSpace),
            AlarmType::Corrupt => Some(Self::Corrupt),
        }
    }

    const fn kind(self) -> AlarmType {
        match self {
            Self::NoSpace => AlarmType::Nospace,
            Self::Corrupt => AlarmType::Corrupt,
        }
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Admin {
    /// A client of the member whose client port is `endpoint` (a URL), with `deadline` for each call.
    pub async fn new(endpoint: &str, access: &Access, deadline: Duration) -> Result<Self, EtcdError> {
        let wrong = |cause: String| EtcdError::Endpoint {
            endpoint: endpoint.into(),
            cause,
        };
        let channel = match access {
            Access::Plain => Endpoint::from_shared(endpoint.to_owned())
                .map_err(|error| wrong(error.to_string()))?
                .connect_timeout(CONNECT_TIMEOUT.min(deadline))
                .connect_lazy(),
        };
        // Sends nothing: only credentials would make it speak.
        let client = Client::from_channel(Channel::Tonic(channel), None)
            .await
            .map_err(|error| EtcdError::from_client(endpoint, Call::Connect, error))?;
        Ok(Self {
            endpoint: endpoint.into(),
            client,
            deadline,
        })
    }

    /// The same member, with another deadline for each call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self {
            deadline,
            ..self.clone()
        }
    }

    /// The URL given.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What the member says of itself. Learners answer too.
    pub async fn status(&self) -> Result<Status, EtcdError> {
        let mut client = self.client.maintenance_client();
        let answer = self.call(Call::Status, client.status()).await?;
        let header = answer.header();
        Ok(Status {
            member_id: MemberId(header.map_or(0, etcd_client::ResponseHeader::member_id)),
            cluster_id: ClusterId(header.map_or(0, etcd_client::ResponseHeader::cluster_id)),
            leader: Some(answer.leader()).filter(|id| *id != 0).map(MemberId),
            term: answer.raft_term(),
            commit_index: answer.raft_index(),
            applied_index: answer.raft_applied_index(),
            is_learner: answer.is_learner(),
            version: answer.version().to_owned(),
            db_size: answer.db_size(),
            db_size_in_use: answer.raft_used_db_size(),
            revision: header.map_or(0, etcd_client::ResponseHeader::revision),
            errors: answer.errors().to_vec(),
        })
    }

    /// The member list, read so that it may justify a membership step: a linearizable read on this very member first
    /// (it answers only after having applied all that was committed before), then its list. Needs a quorum and a
    /// voter.
    pub async fn members(&self) -> Result<MemberList, EtcdError> {
        let mut kv = self.client.kv_client();
        let options = GetOptions::new().with_count_only().with_limit(1);
        let barrier = self.call(Call::ReadBarrier, kv.get(BARRIER_KEY, Some(options))).await?;
        let mut cluster = self.client.cluster_client();
        let list = self.call(Call::MemberList, cluster.member_list()).await?;
        let (Some(before), Some(after)) = (barrier.header(), list.header()) else {
            return Err(self.no_answer(Call::MemberList, "the answer has no header"));
        };
        if (before.cluster_id(), before.member_id()) != (after.cluster_id(), after.member_id()) {
            return Err(self.no_answer(
                Call::MemberList,
                "two members answered, so the read barrier proves nothing",
            ));
        }
        let mut members: Vec<Member> = list.members().iter().map(Member::from).collect();
        members.sort_unstable_by_key(|member| member.id);
        Ok(MemberList {
            cluster_id: ClusterId(after.cluster_id()),
            answered_by: MemberId(after.member_id()),
            members,
        })
    }

    /// Adds a learner; the answer is the new member and the list with it.
    pub async fn add_learner(&self, peer_urls: &[String]) -> Result<(MemberId, MemberList), EtcdError> {
        let mut client = self.client.cluster_client();
        let options = MemberAddOptions::new().with_is_learner();
        let answer = self
            .call(Call::MemberAdd, client.member_add(peer_urls.to_vec(), Some(options)))
            .await?;
        let (Some(member), Some(header)) = (answer.member(), answer.header()) else {
            return Err(self.no_answer(Call::MemberAdd, "the answer names no member"));
        };
        let mut members: Vec<Member> = answer.member_list().iter().map(Member::from).collect();
        members.sort_unstable_by_key(|member| member.id);
        let list = MemberList {
            cluster_id: ClusterId(header.cluster_id()),
            answered_by: MemberId(header.member_id()),
            members,
        };
        Ok((MemberId(member.id()), list))
    }

    /// Gives a learner its vote.
    pub async fn promote(&self, id: MemberId) -> Result<(), EtcdError> {
        let mut client = self.client.cluster_client();
        self.call(Call::MemberPromote, client.member_promote(id.0))
            .await
            .map(drop)
    }

    /// Removes a member; its ID never comes back.
    pub async fn remove(&self, id: MemberId) -> Result<(), EtcdError> {
        let mut client = self.client.cluster_client();
        self.call(Call::MemberRemove, client.member_remove(id.0))
            .await
            .map(drop)
    }

    /// Hands leadership to another voter. Only the leader takes this call.
    pub async fn move_leader(&self, to: MemberId) -> Result<(), EtcdError> {
        let mut client = self.client.maintenance_client();
        self.call(Call::MoveLeader, client.move_leader(to.0)).await.map(drop)
    }

    /// A hash over all keys up to `revision`. A learner refuses, and so does a member that has not come to the revision
    /// yet. It reads the whole database, and the member applies nothing meanwhile.
    pub async fn hash(&self, revision: i64) -> Result<KeyHash, EtcdError> {
        let mut client = self.client.maintenance_client();
        let answer = self.call(Call::HashKv, client.hash_kv(revision)).await?;
        let Some(header) = answer.header() else {
            return Err(self.no_answer(Call::HashKv, "the answer has no header"));
        };
        Ok(KeyHash {
            member_id: MemberId(header.member_id()),
            cluster_id: ClusterId(header.cluster_id()),
            revision,
            compact_revision: answer.compact_version(),
            hash: answer.hash(),
        })
    }

    /// The alarms that stand, each with the member that it was raised for. That of a CORRUPT alarm need not be the bad one.
    pub async fn alarms(&self) -> Result<Vec<(MemberId, Alarm)>, EtcdError> {
        let mut client = self.client.maintenance_client();
        let answer = self
            .call(Call::AlarmList, client.alarm(AlarmAction::Get, AlarmType::None, None))
            .await?;
        Ok(answer
            .alarms()
            .iter()
            .filter_map(|one| Some((MemberId(one.member_id()), Alarm::of(one.alarm())?)))
            .collect())
    }

    /// Takes one alarm back: for exactly that member, or nothing is done.
    pub async fn disarm(&self, member: MemberId, alarm: Alarm) -> Result<(), EtcdError> {
        let mut client = self.client.maintenance_client();
        let mut options = AlarmOptions::new();
        options.with_member(member.0);
        let call = client.alarm(AlarmAction::Deactivate, alarm.kind(), Some(options));
        self.call(Call::AlarmDisarm, call).await.map(drop)
    }

    /// Two raft entries that change no key and no revision: a lease is granted and revoked. A joiner of etcd 3.6 or
    /// 3.7 that received a snapshot above index 5,000 serves only after the next write by anyone (scenario M24).
    pub async fn nudge(&self) -> Result<(), EtcdError> {
        let mut client = self.client.lease_client();
        let lease = match self.call(Call::LeaseGrant, client.grant(NUDGE_TTL, None)).await {
            Ok(granted) => granted.id(),
            // Without space, or with data that differ, no lease is granted, but revoking one that is not there is a raft entry too.
            Err(error) if matches!(error.refusal(), Some(Refusal::NoSpace | Refusal::Corrupt)) => i64::MAX,
            Err(error) => return Err(error),
        };
        match self.call(Call::LeaseRevoke, client.revoke(lease)).await {
            Ok(_) => Ok(()),
            // "requested lease not found": it ran out, or it is the one that never was. Data that differ refuse it when it is
            // applied: it is a raft entry by then.
            Err(error) if matches!(error.refusal(), Some(Refusal::BadRequest | Refusal::Corrupt)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn call<T>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        match tokio::time::timeout(self.deadline, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(EtcdError::from_client(&self.endpoint, call, error)),
            Err(_) => Err(EtcdError::timeout(&self.endpoint, call, self.deadline)),
        }
    }

    fn no_answer(&self, call: Call, cause: &str) -> EtcdError {
        EtcdError::NoAnswer {
            endpoint: self.endpoint.clone(),
            call,
            cause: cause.into(),
        }
    }
}

impl From<&etcd_client::Member> for Member {
    fn from(member: &etcd_client::Member) -> Self {
        Self {
            id: MemberId(member.id()),
            name: member.name().to_owned(),
            peer_urls: member.peer_urls().iter().cloned().collect(),
            client_urls: member.client_urls().iter().cloned().collect(),
            is_learner: member.is_learner(),
        }
    }
}
