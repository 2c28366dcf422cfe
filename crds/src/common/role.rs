//! The role of a member in etcd's consensus.

use serde::{Deserialize, Serialize};

/// What a member is to its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberRole {
    /// The Raft leader; it votes.
    Leader,
    /// It votes and follows the leader.
    Follower,
    /// It receives the log and does not vote.
    Learner,
    /// Not a member of etcd's list, or nothing is known of it.
    #[default]
    #[serde(other)]
    None,
}
