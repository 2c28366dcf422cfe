//! What the accepted directives have left standing. Kept beside the identity (`directive.json`), so that a restart of
//! the agent forgets none. Pure.

use etcd::MemberId;
use serde::{Deserialize, Serialize};

use super::directive::{Directive, FirstStart, Options, Order, Recover};
use super::identity::{Nonce, as_text};
use crate::recover::journal::Journal;

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
    /// The end of etcd that is no reason to hold any more: the directory is another one, or someone said to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgiven: Option<Moment>,
    /// What is wanted of the fence.
    #[serde(default, skip_serializing_if = "Fence::is_as_it_is")]
    pub fence: Fence,
    /// The recovery that was ordered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recover: Option<Directive>,
    /// Options for the next start.
    #[serde(default)]
    pub options: Options,
}

/// What is wanted of the fence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fence {
    /// It is left as it is.
    #[default]
    AsItIs,
    /// It is to stand.
    Up {
        /// For people.
        reason: String,
    },
    /// It is to go.
    Lifted,
}

impl Fence {
    fn is_as_it_is(&self) -> bool {
        *self == Self::AsItIs
    }
}

/// A recovery that stands for one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandingRecovery<'a> {
    /// Number of the directive.
    pub number: u64,
    /// The history it makes.
    pub incarnation: u64,
    /// Its content.
    pub recover: &'a Recover,
}

/// A time, as the supervisor's clock has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    seconds: i64,
    nanos: i32,
}

impl From<prost_types::Timestamp> for Moment {
    fn from(time: prost_types::Timestamp) -> Self {
        Self {
            seconds: time.seconds,
            nanos: time.nanos,
        }
    }
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
                next.fence = Fence::Lifted;
            }
            Order::Resume => {
                next.hold = None;
                next.fence = Fence::Lifted;
            }
            Order::Hold { reason } => next.hold = Some(reason.clone()),
            Order::Quarantine { removed } => {
                next.quarantine = Some(Quarantine {
                    removed: *removed,
                    number: directive.number,
                });
            }
            Order::Reconfigure(options) => next.options = options.clone(),
            Order::Fence { reason } => {
                next.fence = Fence::Up { reason: reason.clone() };
                // Nothing that was ordered before may start behind it.
                next.start = None;
            }
            Order::Recover(recover) => {
                next.options = recover.options.clone();
                // The one that stands goes aside with the old directory.
                next.fence = Fence::AsItIs;
                next.start = None;
                next.quarantine = None;
                next.recover = Some(directive.clone());
            }
        }
        next.last = Some(directive);
        next
    }

    /// Does it say anything that the last one has not? One that shows no effect is sent again under a new number.
    #[must_use]
    pub fn is_news(&self, directive: &Directive) -> bool {
        self.last.as_ref().is_none_or(|last| !last.says_the_same(directive))
    }

    /// Is it a reason to start without a pause, whatever etcd ended by? A first start is, unless it stands already.
    #[must_use]
    pub fn is_forgiven_by(&self, directive: &Directive) -> bool {
        match &directive.order {
            Order::Resume | Order::Recover(_) => true,
            Order::Seed(_) | Order::Join(_) => self.start.as_ref().is_none_or(|start| !start.says_the_same(directive)),
            Order::Hold { .. } | Order::Quarantine { .. } | Order::Reconfigure(_) | Order::Fence { .. } => false,
        }
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
            Order::Resume
            | Order::Hold { .. }
            | Order::Quarantine { .. }
            | Order::Reconfigure(_)
            | Order::Fence { .. }
            | Order::Recover(_) => return None,
        };
        Some(StandingStart {
            number: directive.number,
            incarnation: directive.incarnation,
            kind,
            first,
        })
    }

    /// The recovery that stands for this directory: it has begun, or is to begin. One that has come to its end does not.
    #[must_use]
    pub fn recovery_of(&self, nonce: Option<&Nonce>, journal: Option<&Journal>) -> Option<StandingRecovery<'_>> {
        let directive = self.recover.as_ref()?;
        let begun = journal.filter(|journal| journal.order.number == directive.number);
        let stands = match begun {
            Some(journal) => journal.is_open(),
            None => nonce.is_some() && nonce == directive.nonce.as_ref(),
        };
        let Order::Recover(recover) = &directive.order else {
            return None;
        };
        stands.then_some(StandingRecovery {
            number: directive.number,
            incarnation: directive.incarnation,
            recover,
        })
    }
}
