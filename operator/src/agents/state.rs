//! What is known of one link at one moment.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use proto::agent::Report;

/// The state of a link.
#[derive(Clone, Debug)]
pub enum LinkState {
    /// Nobody is dialled for this member.
    None,
    /// Being dialled, or lost.
    Down {
        /// Since when it is not up: since it is dialled, or since it was lost.
        since: Timestamp,
        /// What stood in the way the last time; `None` while the first attempt is under way.
        cause: Option<Cause>,
        /// What this Pod's agent last said: old, not false.
        last: Option<Received>,
    },
    /// Up; its life is proven every few seconds.
    Connected {
        /// Since when.
        since: Timestamp,
        /// Who answers.
        peer: Arc<Peer>,
        /// What it says.
        last: Received,
    },
}

/// A report, bounded by us, and when it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// What the agent says.
    pub report: Arc<Report>,
    /// By our clock.
    pub at: Timestamp,
}

/// Who answers at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Version of the agent.
    pub version: String,
    /// What it can do beyond the first protocol.
    pub features: Vec<String>,
}

/// What stands in the way of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Packets get no answer: the node is cut off, or a `NetworkPolicy` drops them.
    Timeout,
    /// The port is closed: the agent does not run yet, or a `NetworkPolicy` rejects.
    Refused,
    /// Another failure of the network.
    Network(String),
    /// The two do not trust each other (yet).
    Tls(String),
    /// The other end does not speak as an agent must.
    Protocol(String),
    /// An agent answers, but another member's.
    WrongMember(String),
    /// It was up, and was closed or no longer proved its life.
    Lost(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no answer to packets (NetworkPolicy, firewall or node?)"),
            Self::Refused => f.write_str("connection refused"),
            Self::Network(what) => write!(f, "network: {what}"),
            Self::Tls(what) => write!(f, "TLS: {what}"),
            Self::Protocol(what) => write!(f, "protocol: {what}"),
            Self::WrongMember(what) => write!(f, "another member answers: {what}"),
            Self::Lost(what) => write!(f, "lost: {what}"),
        }
    }
}
