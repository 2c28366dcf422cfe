//! Changes of the membership in the log (raft's `ConfChange`).

use serde::Deserialize;

use crate::inspection::{Id, Member};
use crate::protobuf::{Field, Fields};

/// One change, as far as it is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Index of its entry.
    pub(crate) index: u64,
    pub(crate) kind: ChangeKind,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// A voter or a learner comes, or a learner is promoted.
    Add {
        member: Member,
        /// Only its vote changes.
        promote: bool,
    },
    /// A member leaves for good.
    Remove(Id),
    /// Its peer URLs change.
    Update(Member),
    /// Not understood: the membership is not known from here on.
    Unknown,
}

/// etcd's `ConfigChangeContext`: a member, as JSON.
#[derive(Deserialize)]
struct Context {
    #[serde(default, rename = "peerURLs")]
    peer_urls: Option<Vec<String>>,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "clientURLs")]
    client_urls: Option<Vec<String>>,
    #[serde(default, rename = "isLearner")]
    learner: bool,
    #[serde(default, rename = "isPromote")]
    promote: bool,
}

/// Reads a `ConfChange{id = 1, type = 2, node_id = 3, context = 4}`.
pub(crate) fn read(bytes: &[u8]) -> ChangeKind {
    let (mut kind, mut node, mut context) = (0, 0, &[][..]);
    for field in Fields(bytes) {
        match field {
            Ok(Field::Number(2, value)) => kind = value,
            Ok(Field::Number(3, value)) => node = value,
            Ok(Field::Bytes(4, value)) => context = value,
            Ok(_) => {}
            Err(_) => return ChangeKind::Unknown,
        }
    }
    let id = Id(node);
    let member = || {
        let context: Context = serde_json::from_slice(context).ok()?;
        let member = Member {
            id,
            name: context.name,
            peer_urls: context.peer_urls.unwrap_or_default(),
            client_urls: context.client_urls.unwrap_or_default(),
            learner: context.learner,
        };
        Some((member, context.promote))
    };
    match kind {
        1 => ChangeKind::Remove(id),
        0 | 3 => match member() {
            Some((member, promote)) => ChangeKind::Add { member, promote },
            None => ChangeKind::Unknown,
        },
        2 => match member() {
            Some((member, _)) => ChangeKind::Update(member),
            None => ChangeKind::Unknown,
        },
        _ => ChangeKind::Unknown,
    }
}
