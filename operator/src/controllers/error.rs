//! What can go wrong in a pass.

use crate::{agents::LinkError, leader::NotLeader, pki::PkiError, plan::step::Step};

/// Why a pass did not do what was planned. The next one starts from facts again, so nothing is lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    /// Another replica may act.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The Kubernetes API refused or did not answer.
    #[error("{act}: {source}")]
    Kube {
        /// What was tried.
        act: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The Kubernetes API did not answer in time: whether it was done is not known, and is read again.
    #[error("{act}: no answer from the Kubernetes API in time")]
    KubeSilent {
        /// What was tried.
        act: &'static str,
    },
    /// etcd refused or did not answer.
    #[error(transparent)]
    Etcd(#[from] etcd::EtcdError),
    /// An agent refused or did not answer.
    #[error(transparent)]
    Agent(#[from] LinkError),
    /// A certificate could not be made.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The facts changed while the plan was carried out.
    #[error("{step} was planned from facts that are no longer so ({what}); they are read again")]
    Stale {
        /// Which step.
        step: &'static str,
        /// What changed.
        what: String,
    },
}

impl PassError {
    /// For steps whose object is not there any more.
    #[must_use]
    pub(super) fn stale(step: &Step, what: impl Into<String>) -> Self {
        Self::Stale {
            step: step.kind(),
            what: what.into(),
        }
    }

    /// etcd itself said no.
    #[must_use]
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Etcd(error) if error.refusal().is_some())
    }

    /// It passes by itself within moments: read again at once, say nothing.
    #[must_use]
    pub(super) fn is_momentary(&self) -> bool {
        match self {
            Self::Stale { .. } => true,
            Self::Kube { source, .. } => is_conflict(source),
            Self::Etcd(error) => error.refusal().is_some(),
            Self::NotLeader(_) | Self::KubeSilent { .. } | Self::Agent(_) | Self::Pki(_) => false,
        }
    }
}

/// The object was changed, made or deleted by somebody else meanwhile.
#[must_use]
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// There is no such object.
#[must_use]
pub(super) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
