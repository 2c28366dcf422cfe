//! Orders to agents.

use proto::agent::{self, directive};

use super::{
    super::{error::PassError, links},
    Executor,
};
use crate::plan::{
    facts::{Options, Sent},
    step::{Order, Step},
};

impl Executor<'_> {
    pub(super) async fn direct(
        &self,
        step: &Step,
        name: &str,
        number: u64,
        nonce: &str,
        order: &Order,
    ) -> Result<(), PassError> {
        let Some(uid) = self.member_uid(name) else {
            return Err(PassError::stale(step, format!("there is no member {name}")));
        };
        let directive = agent::Directive {
            number,
            cluster_uid: self.facts.cluster.uid.clone(),
            incarnation: incarnation(order),
            nonce: nonce.to_owned(),
            order: Some(message(order)),
        };
        links::direct(self.world, &self.key.namespace, name, directive).await?;
        let sent = Sent {
            number,
            order: order.clone(),
            at: self.now(),
        };
        self.with_memory(|memory| memory.sent.insert(uid, sent));
        Ok(())
    }
}

fn incarnation(order: &Order) -> u64 {
    match order {
        Order::Seed { incarnation, .. }
        | Order::Join { incarnation, .. }
        | Order::Quarantine { incarnation, .. }
        | Order::Fence { incarnation, .. }
        | Order::Lift { incarnation }
        | Order::Recover { incarnation, .. } => *incarnation,
    }
}

fn message(order: &Order) -> directive::Order {
    match order {
        Order::Seed {
            token,
            member_id,
            cluster_id,
            options,
            ..
        } => directive::Order::Seed(agent::Seed {
            token: token.clone(),
            member_id: member_id.0,
            cluster_id: cluster_id.0,
            options: Some(etcd_options(options)),
        }),
        Order::Join {
            token,
            member_id,
            cluster_id,
            members,
            options,
            ..
        } => directive::Order::Join(agent::Join {
            token: token.clone(),
            member_id: member_id.0,
            cluster_id: cluster_id.0,
            members: members
                .iter()
                .map(|peer| agent::Peer {
                    name: peer.name.clone(),
                    id: peer.id.0,
                    peer_urls: peer.peer_urls.clone(),
                })
                .collect(),
            options: Some(etcd_options(options)),
        }),
        Order::Quarantine { removed, .. } => directive::Order::Quarantine(agent::Quarantine {
            removed_member_id: removed.0,
        }),
        Order::Fence { reason, .. } => directive::Order::Fence(agent::Fence { reason: reason.clone() }),
        Order::Lift { .. } => directive::Order::Resume(agent::Resume::default()),
        Order::Recover {
            token,
            member_id,
            cluster_id,
            new_nonce,
            options,
            ..
        } => directive::Order::Recover(agent::Recover {
            token: token.clone(),
            member_id: member_id.0,
            cluster_id: cluster_id.0,
            new_nonce: new_nonce.clone(),
            options: Some(etcd_options(options)),
        }),
    }
}

fn etcd_options(options: &Options) -> agent::Options {
    agent::Options {
        quota_backend_bytes: options.quota_backend_bytes,
        auto_compaction_mode: options.auto_compaction_mode.clone(),
        auto_compaction_retention: options.auto_compaction_retention.clone(),
        snapshot_count: options.snapshot_count,
    }
}
