//! The certificates of the agent links.
//!
//! One CA of our own, kept as the Secret [`CA_SECRET`] in the operator's namespace, issues both sides: a serving
//! certificate (`serverAuth` only) to each agent, through the Secret `<m>-agent-tls` that its Pod mounts, and a client
//! certificate (`clientAuth` only) to the operator, which never leaves this process. A member's key can pose neither
//! as the operator nor as another member (scenario T06).
//!
//! A CA is replaced long before its end: [`Bundle`] then holds the old one as well, everybody trusts both, and the
//! operator shows the certificate that the agent's own list of CAs accepts. With the CA lost, a new one is made, all
//! agents' certificates are issued anew, and links return once kubelet has synced the Secrets.
//!
//! Everything here but [`Authority`] is pure and takes `now`.

mod authority;
mod bundle;
mod ca;
mod leaf;
mod tls;

pub use authority::Authority;
pub use bundle::Bundle;
pub use ca::Ca;
pub use leaf::{AgentSecret, Renewal, agent_secret, needs_renewal};
pub use tls::client_config;

use jiff::SignedDuration;

/// Name of the Secret with the CA, in the operator's namespace.
pub const CA_SECRET: &str = "etcd-operator-agent-ca";

/// Annotation of `<m>-agent-tls`: fingerprint of the CAs in it.
pub const CA_ANNOTATION: &str = "etcd-operator.cozystack.io/agent-ca";
/// Annotation of `<m>-agent-tls`: the name in the certificate.
pub const NAME_ANNOTATION: &str = "etcd-operator.cozystack.io/agent-name";
/// Annotation of `<m>-agent-tls`: when it is due to be issued anew (RFC 3339).
pub const RENEW_AT_ANNOTATION: &str = "etcd-operator.cozystack.io/agent-renew-at";

/// Certificates are valid from an hour before they are made: clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_hours(1);
/// How long a CA is valid.
const CA_LIFE: SignedDuration = SignedDuration::from_hours(24 * 365 * 10);
/// How long a leaf is valid; it is issued anew after two thirds of that.
const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(24 * 90);

/// Why a certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// Signing or key generation failed.
    #[error("a certificate of the agent links cannot be issued: {0}; this is a defect, please report it")]
    Issue(#[from] rcgen::Error),
    /// The CA's Secret holds something else.
    #[error(
        "Secret {CA_SECRET} holds no usable CA ({0}); next: delete it, a new one is made and all agents get new \
         certificates"
    )]
    Unusable(String),
    /// TLS refuses the material.
    #[error("the operator's client certificate is not accepted by TLS: {0}; this is a defect, please report it")]
    Tls(#[from] rustls::Error),
    /// A point in time outside of what certificates can say.
    #[error("the clock of this machine is wrong ({0}); next: set it")]
    Clock(String),
    /// The Secret cannot be read or written.
    #[error(
        "Secret {CA_SECRET} in namespace {namespace} cannot be {act}: {}",
        crate::words::of(source)
    )]
    Kube {
        /// Namespace of the operator.
        namespace: String,
        /// "read", "created" or "replaced".
        act: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The API server did not answer: whether it was done is not known.
    #[error("Secret {CA_SECRET} in namespace {namespace} cannot be {act}: no answer from the Kubernetes API in time")]
    KubeSilent {
        /// Namespace of the operator.
        namespace: String,
        /// As above.
        act: &'static str,
    },
}

impl PkiError {
    /// Is it the API server that stands in the way, and not what the Secret holds?
    #[must_use]
    pub const fn is_from_api(&self) -> bool {
        match self {
            Self::Kube { .. } | Self::KubeSilent { .. } => true,
            Self::Issue(_) | Self::Unusable(_) | Self::Tls(_) | Self::Clock(_) => false,
        }
    }
}
