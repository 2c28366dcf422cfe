//! What the accepted directives have left standing. Kept beside the identity (`directive.json`), so that a restart of
//! the agent forgets none. Pure.

use etcd::MemberId;
use serde::{Deserialize, Serialize};

use super::directive::{Directive, FirstStart, Options, Order};
use super::identity::{Nonce, as_text};

/// What stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The highest number taken so far.
    pub number: u64,
    /// The newest history the agent knows of.
    pub incarnation: u64,
    /// The directive taken last: it is answered again when it is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Directive>,
    /// The first start that was ordered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Directive>,
    /// Why etcd is kept stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// A directory of this ID is to be set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    /// Options for the next start.
    #[serde(default)]
    pub options: Options,
}

/// An accepted Quarantine that is not carried out yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    /// The ID that was removed from the cluster.
    #[serde(with = "as_text")]
    pub removed: MemberId,
    /// Number of the directive.
    pub number: u64,
}

/// A first start that stands for one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandingStart<'a> {
    /// Number of the directive.
    pub number: u64,
    /// Its history.
    pub incarnation: u64,
    /// `new` (Seed) or `existing` (Join).
    pub kind: StartKind,
    /// Its content.
    pub first: &'a FirstStart,
}

/// `initial-cluster-state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartKind {
    /// `new`.
    Seed,
    /// `existing`.
    Join,
}

impl Standing {
    /// What stands once this directive is taken too.
    #[must_use]
    pub fn with(&self, directive: Directive) -> Self {
        let mut next = self.clone();
        next.number = directive.number;
        next.incarnation = next.incarnation.max(directive.incarnation);
        match &directive.order {
            Order::Seed(first) | Order::Join(first) => {
                next.options = first.options.clone();
                next.start = Some(directive.clone());
            }
            Order::Resume => next.hold = None,
            Order::Hold { reason } => next.hold = Some(reason.clone()),
            Order::Quarantine { removed } => {
                next.quarantine = Some(Quarantine {
                    removed: *removed,
                    number: directive.number,
                });
            }
            Order::Reconfigure(options) => next.options = options.clone(),
        }
        next.last = Some(directive);
        next
    }

    /// The first start that stands for this directory.
    #[must_use]
    pub fn start_for(&self, nonce: &Nonce) -> Option<StandingStart<'_>> {
        let directive = self
            .start
            .as_ref()
            .filter(|start| start.nonce.as_ref() == Some(nonce))?;
        let (kind, first) = match &directive.order {
            Order::Seed(first) => (StartKind::Seed, first),
            Order::Join(first) => (StartKind::Join, first),
            Order::Resume | Order::Hold { .. } | Order::Quarantine { .. } | Order::Reconfigure(_) => return None,
        };
        Some(StandingStart {
            number: directive.number,
            incarnation: directive.incarnation,
            kind,
            first,
        })
    }
}
