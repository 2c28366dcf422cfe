//! What agents are ordered to do.

use super::facts::{Id, Options};

/// An order to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start a new cluster.
    Seed {
        /// Token of the incarnation.
        token: String,
        /// The incarnation.
        incarnation: u64,
        /// Computed.
        member_id: Id,
        /// Computed.
        cluster_id: Id,
        /// Options of etcd.
        options: Options,
    },
    /// Join as the learner that was admitted.
    Join {
        /// Token of the incarnation.
        token: String,
        /// The incarnation.
        incarnation: u64,
        /// From etcd's member list.
        member_id: Id,
        /// From etcd's member list.
        cluster_id: Id,
        /// The whole member list.
        members: Vec<Peer>,
        /// Options of etcd.
        options: Options,
    },
    /// Set the data directory of a removed member aside.
    Quarantine {
        /// The incarnation.
        incarnation: u64,
        /// The ID that etcd no longer lists.
        removed: Id,
    },
    /// Stop etcd and keep it stopped.
    Fence {
        /// The incarnation.
        incarnation: u64,
        /// For people.
        reason: String,
    },
    /// Lift a fence or a hold.
    Lift {
        /// The incarnation.
        incarnation: u64,
    },
    /// Make a new history of the directory.
    Recover {
        /// Token of the new history.
        token: String,
        /// Its incarnation.
        incarnation: u64,
        /// Computed.
        member_id: Id,
        /// Computed.
        cluster_id: Id,
        /// Which directory it will be.
        new_nonce: String,
        /// Options of etcd.
        options: Options,
    },
}

impl Order {
    /// Its name.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Seed { .. } => "Seed",
            Self::Join { .. } => "Join",
            Self::Quarantine { .. } => "Quarantine",
            Self::Fence { .. } => "Fence",
            Self::Lift { .. } => "Lift",
            Self::Recover { .. } => "Recover",
        }
    }
}

/// One entry of `initial-cluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name of the member; of one that has not started yet, the name it will have, when we know it.
    pub name: String,
    /// Its ID.
    pub id: Id,
    /// Its peer URLs.
    pub peer_urls: Vec<String>,
}
