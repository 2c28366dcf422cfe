//! What the operator may do by itself when members or a quorum are lost, and when it rolls changes out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::LocalObjectReference;
use crate::serde_help::is_default;

/// Who starts the recovery of a lost quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QuorumLossPolicy {
    /// A person, by an `EtcdRecovery`; the status says who holds what.
    #[default]
    Manual,
    /// The operator, once all other members are fenced or provably gone.
    Automatic,
}

/// What the operator may fall back on when no disk of the cluster survives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutomaticRestore {
    /// A complete `EtcdSnapshot` of the namespace, or `latest` for the newest good one of this cluster.
    pub snapshot_ref: LocalObjectReference,
}

/// Rules for lost members and for a lost quorum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoverySpec {
    /// Who starts a recovery after the quorum is lost. `Manual`: a person, by an `EtcdRecovery`. `Automatic`: the
    /// operator, which is consent to lose what only the lost disks held.
    #[serde(default)]
    pub quorum_loss: QuorumLossPolicy,

    /// Seconds a member's node may be gone before the member is replaced by a new one elsewhere.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 0))]
    pub node_loss_seconds: i32,

    /// Seconds the quorum must have been lost, with nothing changing, before `Automatic` acts.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 0))]
    pub settle_seconds: i32,

    /// What `Automatic` may restore from when no disk of the cluster survives. Absent: it waits for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_from: Option<AutomaticRestore>,
}

impl Default for RecoverySpec {
    fn default() -> Self {
        Self {
            quorum_loss: QuorumLossPolicy::default(),
            node_loss_seconds: five_minutes(),
            settle_seconds: five_minutes(),
            restore_from: None,
        }
    }
}

fn five_minutes() -> i32 {
    300
}

/// When changes of a running cluster are carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// No rolling change starts while this is true; one that is under way ends with the member it is at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
}
