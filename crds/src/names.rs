//! Names that are derived from a cluster's name, and the room that they need.
//!
//! A Service's name is a DNS-1035 label, and a Pod's host name, a label's value and a generated name hold 63 characters
//! at most. A [`ClusterName`] is proof that every name derived from it fits.

use std::fmt;

/// The longest cluster name whose Service `<cluster>-client` still fits into [`LABEL_MAX`].
pub const CLUSTER_NAME_MAX: usize = LABEL_MAX - CLIENT_SUFFIX.len();

/// Length of a DNS label, and of the value of a label.
pub const LABEL_MAX: usize = 63;

const CLIENT_SUFFIX: &str = "-client";

/// A cluster's name, checked so that every name derived from it is a valid one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

/// Why a cluster cannot have its name. The API server refuses such a name at creation; one that was made under older
/// rules gets this in its status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than [`CLUSTER_NAME_MAX`].
    #[error(
        "cluster name {name:?} has {length} characters: make a new cluster with a name of {CLUSTER_NAME_MAX} at most, so that the Service {name}-client fits into {LABEL_MAX}"
    )]
    TooLong {
        /// The name.
        name: String,
        /// Its length.
        length: usize,
    },
    /// Not a DNS-1035 label.
    #[error(
        "cluster name {name:?} is not a DNS label: make a new cluster with a name of lower-case letters, digits and '-' that starts with a letter, because Services are named after it"
    )]
    NotALabel {
        /// The name.
        name: String,
    },
}

impl ClusterName {
    /// Checks `name`.
    ///
    /// # Errors
    ///
    /// A name error never passes by itself: the cluster has to be made again under another name.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        if name.len() > CLUSTER_NAME_MAX {
            return Err(NameError::TooLong {
                length: name.len(),
                name,
            });
        }
        if !is_dns_1035_label(&name) {
            return Err(NameError::NotALabel { name });
        }
        Ok(Self(name))
    }

    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of the headless Service.
    #[must_use]
    pub fn headless_service(&self) -> String {
        self.0.clone()
    }

    /// Name of the client Service. Another cluster may be called the same: a Service that another cluster owns is
    /// never taken over.
    #[must_use]
    pub fn client_service(&self) -> String {
        format!("{}{CLIENT_SUFFIX}", self.0)
    }

    /// Name of the `PodDisruptionBudget`.
    #[must_use]
    pub fn pod_disruption_budget(&self) -> String {
        self.0.clone()
    }

    /// `metadata.generateName` of members; the API server adds five characters.
    #[must_use]
    pub fn member_prefix(&self) -> String {
        format!("{}-", self.0)
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name of the `PersistentVolumeClaim` of `member`.
#[must_use]
pub fn member_claim(member: &str) -> String {
    format!("data-{member}")
}

fn is_dns_1035_label(name: &str) -> bool {
    name.len() <= LABEL_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m18_every_name_derived_from_the_longest_cluster_name_fits() {
        let name = ClusterName::new("a".repeat(CLUSTER_NAME_MAX)).unwrap();
        for derived in [
            name.headless_service(),
            name.client_service(),
            name.member_prefix() + "abcde",
        ] {
            assert!(is_dns_1035_label(&derived), "{derived}");
        }
    }

    #[test]
    fn m18_a_63_character_name_is_refused_with_the_limit() {
        let error = ClusterName::new("a".repeat(63)).unwrap_err();
        assert!(error.to_string().contains("56 at most"), "{error}");
    }

    #[test]
    fn m18_a_name_that_no_service_can_have_is_refused() {
        for name in ["1etcd", "et.cd", "-etcd", "etcd-", "Etcd", ""] {
            assert_eq!(
                ClusterName::new(name),
                Err(NameError::NotALabel { name: name.into() }),
                "{name}"
            );
        }
    }

    #[test]
    fn m18_the_client_service_of_one_cluster_can_be_the_name_of_another() {
        let a = ClusterName::new("a").unwrap();
        let other = ClusterName::new(a.client_service()).unwrap();
        assert_eq!(a.client_service(), other.headless_service());
    }
}
