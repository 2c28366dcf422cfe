//! A client of etcd in the cluster's network, from the host.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, Client, Compare, CompareOp, ConnectOptions, GetOptions, MemberAddOptions,
    StatusResponse, Txn, TxnOp,
};

use crate::kube::{Forward, LocalKube, Place};

/// Longest wait for one answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// A client of one address.
pub struct Etcd {
    client: Client,
    _forward: Forward,
}

/// One entry of etcd's member list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name; empty until it has started.
    pub name: String,
    /// Its ID, 16 hex digits.
    pub id: String,
    /// It has no vote.
    pub learner: bool,
}

impl Etcd {
    /// A client of that address, as seen from that place.
    pub async fn connect(kube: &LocalKube, from: Place, to: SocketAddr) -> Result<Self> {
        let forward = kube.forward(from, to)?;
        let options = ConnectOptions::new()
            .with_connect_timeout(DEADLINE)
            .with_timeout(DEADLINE);
        let client = Client::connect([format!("http://{}", forward.address())], Some(options)).await?;
        Ok(Self {
            client,
            _forward: forward,
        })
    }

    /// Writes a key; when this is `Ok`, etcd has acknowledged it.
    pub async fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.client
            .put(key, value, None)
            .await
            .with_context(|| format!("put of {key}"))?;
        Ok(())
    }

    /// Reads a key, linearizably.
    pub async fn get(&mut self, key: &str) -> Result<Option<String>> {
        let answer = self
            .client
            .get(key, None)
            .await
            .with_context(|| format!("get of {key}"))?;
        answer
            .kvs()
            .first()
            .map(|pair| Ok(pair.value_str()?.to_owned()))
            .transpose()
    }

    /// Writes a key if it has that value (`None`: if there is no such key), and says whether it had.
    pub async fn compare_and_swap(&mut self, key: &str, expected: Option<&str>, value: &str) -> Result<bool> {
        let compare = match expected {
            Some(expected) => Compare::value(key, CompareOp::Equal, expected),
            None => Compare::create_revision(key, CompareOp::Equal, 0),
        };
        let txn = Txn::new().when([compare]).and_then([TxnOp::put(key, value, None)]);
        let answer = self.client.txn(txn).await;
        Ok(answer
            .with_context(|| format!("compare and swap of {key}"))?
            .succeeded())
    }

    /// Reads a key as this very member has it.
    pub async fn get_here(&mut self, key: &str) -> Result<Option<String>> {
        let options = GetOptions::new().with_serializable();
        let answer = self
            .client
            .get(key, Some(options))
            .await
            .with_context(|| format!("get of {key}"))?;
        let value = answer.kvs().first().map(|pair| pair.value_str().map(str::to_owned));
        Ok(value.transpose()?)
    }

    /// Raises a CORRUPT alarm for the member of that ID.
    pub async fn raise_corrupt(&mut self, id: &str) -> Result<()> {
        let mut options = AlarmOptions::new();
        options.with_member(u64::from_str_radix(id, 16)?);
        self.client
            .alarm(AlarmAction::Activate, AlarmType::Corrupt, Some(options))
            .await?;
        Ok(())
    }

    /// Every key under a prefix, linearizably.
    pub async fn keys(&mut self, prefix: &str) -> Result<Vec<String>> {
        let options = GetOptions::new().with_prefix().with_keys_only();
        let answer = self
            .client
            .get(prefix, Some(options))
            .await
            .with_context(|| format!("keys under {prefix}"))?;
        answer.kvs().iter().map(|pair| Ok(pair.key_str()?.to_owned())).collect()
    }

    /// Writes `count` keys under a prefix, many at a time.
    pub async fn fill(&mut self, prefix: &str, count: usize) -> Result<()> {
        let client = &self.client;
        let writes = (0..count).map(|n| {
            let mut client = client.clone();
            async move { client.put(format!("{prefix}{n:06}"), "x", None).await }
        });
        let done = futures::stream::StreamExt::buffer_unordered(futures::stream::iter(writes), 64);
        let done: Vec<_> = futures::stream::StreamExt::collect(done).await;
        done.into_iter().collect::<Result<Vec<_>, _>>().context("filling")?;
        Ok(())
    }

    /// The member list, read with a quorum, by name and ID.
    pub async fn members(&mut self) -> Result<Vec<Listed>> {
        let answer = self.client.member_list().await.context("member list")?;
        let mut members: Vec<Listed> = answer
            .members()
            .iter()
            .map(|member| Listed {
                name: member.name().to_owned(),
                id: format!("{:016x}", member.id()),
                learner: member.is_learner(),
            })
            .collect();
        members.sort();
        Ok(members)
    }

    /// `etcdctl member remove`.
    pub async fn remove_member(&mut self, id: &str) -> Result<()> {
        let number = u64::from_str_radix(id, 16)?;
        self.client
            .member_remove(number)
            .await
            .with_context(|| format!("removing {id}"))?;
        Ok(())
    }

    /// `etcdctl member add --learner`; gives the ID of the new one.
    pub async fn add_learner(&mut self, peer_url: &str) -> Result<String> {
        let options = MemberAddOptions::new().with_is_learner();
        let answer = self
            .client
            .member_add([peer_url], Some(options))
            .await
            .with_context(|| format!("adding {peer_url}"))?;
        let member = answer.member().context("an answer without a member")?;
        Ok(format!("{:016x}", member.id()))
    }

    /// `etcdctl move-leader`: this member must be the leader.
    pub async fn move_leader(&mut self, to: &str) -> Result<()> {
        let number = u64::from_str_radix(to, 16)?;
        self.client
            .move_leader(number)
            .await
            .with_context(|| format!("moving leadership to {to}"))?;
        Ok(())
    }

    /// ID of the leader and the term, as this member knows them.
    pub async fn leader(&mut self) -> Result<(String, u64)> {
        let status = self.status().await?;
        ensure!(status.leader() != 0, "it knows no leader");
        Ok((format!("{:016x}", status.leader()), status.raft_term()))
    }

    /// The cluster's ID, 16 hex digits.
    pub async fn cluster_id(&mut self) -> Result<String> {
        let status = self.status().await?;
        let header = status.header().context("an answer without a header")?;
        Ok(format!("{:016x}", header.cluster_id()))
    }

    /// This member's status.
    pub async fn status(&mut self) -> Result<StatusResponse> {
        self.client.status().await.context("status")
    }

    /// Its Raft index: it rises with every write and every change of membership, and with nothing else.
    pub async fn index(&mut self) -> Result<u64> {
        Ok(self.status().await?.raft_index())
    }

    /// The keys are there.
    pub async fn has(&mut self, prefix: &str, keys: &[String]) -> Result<()> {
        let present: std::collections::BTreeSet<String> = self.keys(prefix).await?.into_iter().collect();
        let missing: Vec<&String> = keys.iter().filter(|key| !present.contains(*key)).collect();
        ensure!(
            missing.is_empty(),
            "{} of {} acknowledged writes are lost, {:?} among them",
            missing.len(),
            keys.len(),
            missing.first()
        );
        Ok(())
    }
}
