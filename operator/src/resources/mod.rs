//! Builders of every Kubernetes object: pure, and the same input gives the same bytes.
//!
//! A builder takes the custom resource that the object is made from and destructures its spec, so that a new field
//! cannot be forgotten. Nothing here reads a clock or talks to anybody. Names, labels and shapes follow what users and
//! running clusters of this API depend on.

mod claim;
mod member;
mod metadata;
mod names;
mod ownership;
mod pdb;
mod pod;
mod secret;
mod service;
mod template_hash;

pub use claim::claim;
pub use member::{MemberTarget, member};
pub use metadata::{cluster_labels, member_labels, member_owner, owner};
pub use names::{agent_secret_name, client_url, headless_service_of, peer_url};
pub use ownership::{Ownership, ownership};
pub use pdb::{min_available, pod_disruption_budget};
pub use pod::{AGENT_CONTAINER, ETCD_CONTAINER, INSTALL_CONTAINER, Images, pod};
pub use secret::agent_secret;
pub use service::{client_service, headless_service};
pub use template_hash::{TEMPLATE_HASH, template_hash};

#[cfg(test)]
mod fixtures;
