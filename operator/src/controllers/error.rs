//! What can go wrong in a pass.

use etcd::Refusal;

use crate::{agents::LinkError, leader::NotLeader, pki::PkiError, plan::step::Step, words};

/// Why a pass did not do what was planned. The next one starts from facts again, so nothing is lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    /// Another replica may act.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The Kubernetes API refused or did not answer.
    #[error("{act}: {}", words::of(source))]
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
    /// Something of that name is there, and is not ours.
    #[error("{kind} {name} belongs to somebody else: delete it, so that the operator can make its own")]
    NameTaken {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
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

    /// Its class, for metrics.
    #[must_use]
    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::NotLeader(_) => "NotLeader",
            Self::Kube { source, .. } if is_conflict(source) => "KubeConflict",
            Self::Kube { source, .. } if matches!(&**source, kube::Error::Api(_)) => "KubeRefused",
            Self::Kube { .. } | Self::KubeSilent { .. } => "KubeSilent",
            Self::Etcd(error) if error.refusal().is_some() => "EtcdRefused",
            Self::Etcd(_) => "EtcdSilent",
            Self::Agent(LinkError::Refused { .. }) => "AgentRefused",
            Self::Agent(_) => "AgentSilent",
            Self::Pki(_) => "Certificate",
            Self::NameTaken { .. } => "NameTaken",
            Self::Stale { .. } => "Stale",
        }
    }

    /// etcd itself said no.
    #[must_use]
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Etcd(error) if error.refusal().is_some())
    }

    /// A refusal that does not pass within moments.
    #[must_use]
    pub(super) fn is_refusal_that_stays(&self) -> bool {
        matches!(
            self,
            Self::Etcd(error) if matches!(
                error.refusal(),
                Some(Refusal::NoSpace | Refusal::Corrupt | Refusal::Unauthorized | Refusal::Unsupported)
            )
        )
    }

    /// Nothing can be made in a namespace that ends: no fault, and nothing to be tried again.
    #[must_use]
    pub(super) fn is_end_of_namespace(&self) -> bool {
        matches!(self, Self::Kube { source, .. } if is_end_of_namespace(source))
    }

    /// The API server understood, and said no: its words, cut.
    #[must_use]
    pub(super) fn refused(&self) -> Option<String> {
        match self {
            Self::Kube { source, .. } => match &**source {
                kube::Error::Api(status) if matches!(status.code, 403 | 422) => {
                    Some(status.message.chars().take(WORDS).collect())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// For a person, cut.
    #[must_use]
    pub(super) fn words(&self) -> String {
        self.to_string().chars().take(WORDS).collect()
    }

    /// It passes by itself within moments: read again at once, say nothing.
    #[must_use]
    pub(super) fn is_momentary(&self) -> bool {
        match self {
            Self::Stale { .. } => true,
            Self::Kube { source, .. } => is_conflict(source),
            Self::Etcd(error) => error.refusal().is_some(),
            Self::NotLeader(_) | Self::KubeSilent { .. } | Self::Agent(_) | Self::Pki(_) | Self::NameTaken { .. } => {
                false
            }
        }
    }
}

/// Longest text of an error that is remembered: it may come to stand in a condition.
const WORDS: usize = 300;

/// The object was changed, made or deleted by somebody else meanwhile.
#[must_use]
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// The name of an object that was to be made is taken. Not every 409 says so: a quota that many want at once does, too.
#[must_use]
pub(super) fn is_taken(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

fn is_end_of_namespace(error: &kube::Error) -> bool {
    // `NamespaceTerminatingCause` of k8s.io/api/core/v1.
    let says = |status: &kube::core::Status| {
        status.details.as_ref().is_some_and(|details| {
            details
                .causes
                .iter()
                .any(|cause| cause.reason == "NamespaceTerminating")
        })
    };
    matches!(error, kube::Error::Api(status) if status.code == 403 && says(status))
}

/// There is no such object.
#[must_use]
pub(super) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn api(status: serde_json::Value) -> kube::Error {
        let status: Status = serde_json::from_value(status).unwrap();
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn m18_a_quota_that_is_wanted_by_many_is_no_name_that_is_taken() {
        let quota = api(json!({"status": "Failure", "code": 409, "reason": "Conflict",
            "message": "Operation cannot be fulfilled on resourcequotas \"q\""}));
        assert!(is_conflict(&quota) && !is_taken(&quota));
        let taken = api(json!({"status": "Failure", "code": 409, "reason": "AlreadyExists", "message": "exists"}));
        assert!(is_taken(&taken));
    }

    #[test]
    fn u17_a_namespace_that_ends_is_told_from_a_missing_permission() {
        let ends = api(
            json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": "terminated",
            "details": {"causes": [{"reason": "NamespaceTerminating", "message": "", "field": "metadata.namespace"}]}}),
        );
        let forbidden =
            api(json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": "cannot create"}));
        assert!(is_end_of_namespace(&ends) && !is_end_of_namespace(&forbidden));
    }
}
