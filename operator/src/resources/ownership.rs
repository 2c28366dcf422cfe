//! Is an object that already has the name we need ours?

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whose an existing object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Its controller is the very object that asks (same UID).
    Ours,
    /// It belongs to something else, or to nobody: it is never changed, used or deleted.
    Foreign {
        /// `kind/name` of its controller; `None`: it has none.
        controller: Option<String>,
    },
}

impl fmt::Display for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours => f.write_str("ours"),
            Self::Foreign {
                controller: Some(controller),
            } => write!(f, "owned by {controller}"),
            Self::Foreign { controller: None } => f.write_str("owned by nobody"),
        }
    }
}

/// Judges by the UID of the controlling owner: an owner of the same name that was deleted and made again is another
/// one.
#[must_use]
pub fn ownership(existing: &ObjectMeta, owner_uid: &str) -> Ownership {
    let controller = existing
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true));
    match controller {
        Some(owner) if owner.uid == owner_uid && !owner_uid.is_empty() => Ownership::Ours,
        Some(owner) => Ownership::Foreign {
            controller: Some(format!("{}/{}", owner.kind, owner.name)),
        },
        None => Ownership::Foreign { controller: None },
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    fn object(uid: &str, controller: Option<bool>) -> ObjectMeta {
        let owner = OwnerReference {
            kind: "EtcdMember".into(),
            name: "c-x".into(),
            uid: uid.into(),
            controller,
            ..OwnerReference::default()
        };
        ObjectMeta {
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn only_the_same_uid_as_controller_makes_an_object_ours() {
        let foreign = Ownership::Foreign {
            controller: Some("EtcdMember/c-x".into()),
        };
        assert_eq!(ownership(&object("1", Some(true)), "1"), Ownership::Ours);
        assert_eq!(ownership(&object("1", Some(true)), "2"), foreign);
        assert_eq!(ownership(&object("", Some(true)), ""), foreign);
        assert_eq!(
            ownership(&object("1", None), "1"),
            Ownership::Foreign { controller: None }
        );
        assert_eq!(
            ownership(&ObjectMeta::default(), "1"),
            Ownership::Foreign { controller: None }
        );
    }
}
