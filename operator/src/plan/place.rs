//! Where a member's Pod and data are, and what has become of that place: facts only.

use jiff::Timestamp;

/// The place of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The node that its Pod is on.
    pub node: Node,
    /// Its volume. Looked at only where something hangs on it; says nothing of members in memory.
    pub volume: Volume,
    /// Its Pod is being deleted and is to be gone by then.
    pub ends: Option<Timestamp>,
    /// No node has taken its Pod since then.
    pub unplaced: Option<Timestamp>,
    /// Its Pod has a node, and could not be set up there (volumes, network) since then.
    pub unprepared: Option<Timestamp>,
    /// A person asks for another volume now (annotation `replace` of the member).
    pub replace: bool,
}

/// What is known of the node that a Pod is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Node {
    /// The Pod is on no node, or nothing is known of nodes.
    #[default]
    Unknown,
    /// Its kubelet answers.
    Ready,
    /// Its kubelet is not heard, or says that it is not ready.
    Lost {
        /// Since then, by its `Ready` condition.
        since: Timestamp,
    },
    /// A person has said that nothing runs there any more (taint `node.kubernetes.io/out-of-service`).
    OutOfService {
        /// Not ready since then.
        since: Timestamp,
    },
    /// Its object is not there.
    Gone {
        /// Noticed then.
        since: Timestamp,
    },
}

impl Node {
    /// Since when nothing is heard from it.
    #[must_use]
    pub fn lost_since(self) -> Option<Timestamp> {
        match self {
            Self::Unknown | Self::Ready => None,
            Self::Lost { since } | Self::OutOfService { since } | Self::Gone { since } => Some(since),
        }
    }
}

/// What is known of a member's volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Volume {
    /// Nothing, or it was not asked.
    #[default]
    Unknown,
    /// A node that is ready can have it.
    Movable,
    /// None of the nodes that could have it is ready.
    Stranded,
    /// The claim has lost it (phase `Lost`).
    Gone {
        /// Noticed then.
        since: Timestamp,
    },
}
