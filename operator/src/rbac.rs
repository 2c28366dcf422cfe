//! Which verbs the operator needs, and which of them are missing (scenario U24).

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{leader::LEASE, pki::CA_SECRET, settings::Settings, words};

/// One verb on one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verb {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural, with a sub-resource after a slash.
    pub resource: &'static str,
    /// `get`, `list`, ...
    pub verb: &'static str,
    /// Needed in the operator's own namespace only, on the object of this name where one is given.
    pub own: Own,
}

/// Where a verb is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Own {
    /// Wherever clusters are.
    Everywhere,
    /// On objects that are in no namespace.
    Cluster,
    /// In the operator's own namespace, on any name.
    Namespace,
    /// In the operator's own namespace, on one object.
    Object(&'static str),
}

impl fmt::Display for Verb {
    /// As a person writes it into a role: `patch pods`, `get etcdclusters.etcd-operator.cozystack.io`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match self.own {
            Own::Everywhere | Own::Cluster => Ok(()),
            Own::Namespace => f.write_str(" (operator's namespace)"),
            Own::Object(name) => write!(f, " {name} (operator's namespace)"),
        }
    }
}

type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Everything the operator does, wherever clusters are. The shipped `ClusterRole` grants this and no more.
const EVERYWHERE: &[Row] = &[
    (
        crds::GROUP,
        &[
            "etcdclusters",
            "etcddefragpolicies",
            "etcddefrags",
            "etcdmembers",
            "etcdrecoveries",
            "etcdsnapshotpolicies",
            "etcdsnapshots",
        ],
        &["list", "watch"],
    ),
    (crds::GROUP, &["etcdclusters"], &["get"]),
    (crds::GROUP, &["etcdrecoveries"], &["create"]),
    (crds::GROUP, &["etcdmembers"], &["create", "delete", "patch"]),
    (
        crds::GROUP,
        &[
            "etcdclusters/status",
            "etcddefragpolicies/status",
            "etcddefrags/status",
            "etcdmembers/status",
            "etcdrecoveries/status",
            "etcdsnapshotpolicies/status",
            "etcdsnapshots/status",
        ],
        &["patch"],
    ),
    ("", &["pods"], &["list", "watch", "create", "delete", "patch"]),
    ("", &["persistentvolumeclaims"], &["list", "watch", "create", "patch"]),
    ("", &["services"], &["list", "watch", "create", "patch"]),
    ("discovery.k8s.io", &["endpointslices"], &["list", "watch"]),
    (
        "policy",
        &["poddisruptionbudgets"],
        &["list", "watch", "create", "delete", "patch"],
    ),
    ("", &["secrets"], &["get", "create", "patch"]),
    ("", &["namespaces"], &["get"]),
    ("events.k8s.io", &["events"], &["create", "patch"]),
];

/// What is in no namespace: whether a member's node is gone, and whether its volume can be used elsewhere.
const CLUSTER: &[Row] = &[
    ("", &["nodes"], &["list", "watch"]),
    ("", &["persistentvolumes"], &["get"]),
];

/// Every verb the operator needs.
#[must_use]
pub fn needed(leader_elect: bool) -> Vec<Verb> {
    let mut all = Vec::new();
    for (rows, own) in [(EVERYWHERE, Own::Everywhere), (CLUSTER, Own::Cluster)] {
        for (group, resources, verbs) in rows {
            for resource in *resources {
                all.extend(verbs.iter().map(|verb| Verb {
                    group,
                    resource,
                    verb,
                    own,
                }));
            }
        }
    }
    all.push(Verb {
        group: "",
        resource: "secrets",
        verb: "update",
        own: Own::Object(CA_SECRET),
    });
    if leader_elect {
        let lease = |verb, own| Verb {
            group: "coordination.k8s.io",
            resource: "leases",
            verb,
            own,
        };
        all.push(lease("create", Own::Namespace));
        all.extend(["get", "update"].map(|verb| lease(verb, Own::Object(LEASE))));
    }
    all
}

/// What the self-check found; kept up to date while something is missing.
#[derive(Debug, Default)]
pub struct Report {
    missing: RwLock<Arc<[Verb]>>,
    changed: watch::Sender<()>,
}

/// Between two looks at what is missing: so long does a repaired role stay unnoticed.
const AGAIN: Duration = Duration::from_secs(3);
/// Between two checks of everything while some questions have no answer.
const UNKNOWN: Duration = Duration::from_secs(30);
/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Questions at a time.
const PARALLEL: usize = 8;

impl Report {
    /// Verbs that are not granted.
    #[must_use]
    pub fn missing(&self) -> Arc<[Verb]> {
        Arc::clone(&self.missing.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks the API server about every verb, names what is missing in the log, and asks again while that is so.
    pub async fn keep(&self, client: &Client, settings: &Settings) {
        let mut asked = needed(settings.leader_elect);
        loop {
            let (missing, unknown) = check(client, settings, &asked).await;
            if !unknown.is_empty() {
                warn!(error = %unknown.join("; "), "the operator's own permissions cannot be checked");
            }
            self.update(missing);
            let missing = self.missing();
            if missing.is_empty() && unknown.is_empty() {
                return;
            }
            // Only what is missing is of interest, so that it can be asked about often.
            let wait = if unknown.is_empty() {
                asked = missing.to_vec();
                AGAIN
            } else {
                asked = needed(settings.leader_elect);
                UNKNOWN
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Changes whenever what is missing does.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn update(&self, missing: Vec<Verb>) {
        let before = self.missing();
        if *before == *missing {
            return;
        }
        for verb in missing.iter().filter(|verb| !before.contains(verb)) {
            warn!(missing = %verb, "a permission is missing: grant it in the ClusterRole or Role of the operator");
        }
        if missing.is_empty() {
            info!("all permissions are granted now");
        }
        *self.missing.write().unwrap_or_else(PoisonError::into_inner) = missing.into();
        self.changed.send_replace(());
    }
}

/// What is missing, and which questions have no answer.
async fn check(client: &Client, settings: &Settings, asked: &[Verb]) -> (Vec<Verb>, Vec<String>) {
    let answers: Vec<(Verb, Result<bool, String>)> = stream::iter(asked.to_vec())
        .map(|verb| async move { (verb, is_granted(client, settings, verb).await) })
        .buffered(PARALLEL)
        .collect()
        .await;
    let mut missing = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    for (verb, answer) in answers {
        match answer {
            Ok(true) => {}
            Ok(false) => missing.push(verb),
            Err(error) if unknown.contains(&error) => {}
            Err(error) => unknown.push(error),
        }
    }
    (missing, unknown)
}

async fn is_granted(client: &Client, settings: &Settings, verb: Verb) -> Result<bool, String> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let (params, review) = (PostParams::default(), review(settings, verb));
    match tokio::time::timeout(ANSWER, reviews.create(&params, &review)).await {
        Ok(Ok(answer)) => Ok(answer.status.is_some_and(|status| status.allowed)),
        Ok(Err(error)) => Err(words::of(&error)),
        Err(_) => Err(format!("no answer within {ANSWER:?}")),
    }
}

fn review(settings: &Settings, verb: Verb) -> SelfSubjectAccessReview {
    let (resource, subresource) = match verb.resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub.to_owned())),
        None => (verb.resource, None),
    };
    let (namespace, name) = match verb.own {
        Own::Everywhere => (settings.watch_namespace.clone(), None),
        Own::Cluster => (None, None),
        Own::Namespace => (Some(settings.namespace.clone()), None),
        Own::Object(name) => (Some(settings.namespace.clone()), Some(name.to_owned())),
    };
    SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(verb.group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource,
                verb: Some(verb.verb.to_owned()),
                namespace,
                name,
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;

    use super::*;

    #[test]
    fn u24_a_missing_verb_is_named_as_a_role_writes_it() {
        let verb = |group, resource, verb, own| {
            Verb {
                group,
                resource,
                verb,
                own,
            }
            .to_string()
        };
        assert_eq!(verb("", "pods", "patch", Own::Everywhere), "patch pods");
        assert_eq!(
            verb("policy", "poddisruptionbudgets", "list", Own::Everywhere),
            "list poddisruptionbudgets.policy"
        );
        assert_eq!(
            verb("", "secrets", "update", Own::Object("ca")),
            "update secrets ca (operator's namespace)"
        );
    }

    #[test]
    fn u24_a_missing_verb_is_forgotten_once_it_is_granted() {
        let report = Report::default();
        let all = needed(true);
        report.update(all[..2].to_vec());
        assert_eq!(*report.missing(), all[..2]);
        report.update(Vec::new());
        assert!(report.missing().is_empty());
    }

    #[test]
    fn a_subresource_is_asked_about_as_such() {
        let settings = Settings {
            watch_namespace: Some("ns".into()),
            ..Settings::default()
        };
        let verb = Verb {
            group: crds::GROUP,
            resource: "etcdclusters/status",
            verb: "patch",
            own: Own::Everywhere,
        };
        let asked = review(&settings, verb).spec.resource_attributes.unwrap();
        assert_eq!(asked.resource.as_deref(), Some("etcdclusters"));
        assert_eq!(asked.subresource.as_deref(), Some("status"));
        assert_eq!(asked.namespace.as_deref(), Some("ns"));
    }

    /// Group, resource, verb and name ("" for any) of every rule of the roles that the operator is bound to.
    fn granted(kind: &str) -> BTreeSet<[String; 4]> {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/rbac.yaml")).unwrap();
        let texts = |value: &serde_json::Value| -> Vec<String> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| one.as_str().unwrap().to_owned())
                .collect()
        };
        let mut all = BTreeSet::new();
        for document in serde_yaml_ng::Deserializer::from_str(&text) {
            let role = serde_json::Value::deserialize(document).unwrap();
            if role["kind"] != kind || role["metadata"]["name"] != "etcd-operator" {
                continue;
            }
            for rule in role["rules"].as_array().unwrap() {
                let names = texts(&rule["resourceNames"]);
                let names = if names.is_empty() { vec![String::new()] } else { names };
                for group in texts(&rule["apiGroups"]) {
                    for resource in texts(&rule["resources"]) {
                        for verb in texts(&rule["verbs"]) {
                            for name in &names {
                                all.insert([group.clone(), resource.clone(), verb.clone(), name.clone()]);
                            }
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn u15_the_shipped_roles_grant_what_is_needed_and_no_more() {
        let wanted = |in_role: fn(Own) -> Option<&'static str>| -> BTreeSet<[String; 4]> {
            let rows = needed(true)
                .into_iter()
                .filter_map(|verb| in_role(verb.own).map(|name| (verb, name)));
            rows.map(|(verb, name)| [verb.group, verb.resource, verb.verb, name].map(str::to_owned))
                .collect()
        };
        let everywhere = wanted(|own| match own {
            Own::Everywhere | Own::Cluster => Some(""),
            Own::Namespace | Own::Object(_) => None,
        });
        assert_eq!(granted("ClusterRole"), everywhere);
        let own_namespace = wanted(|own| match own {
            Own::Everywhere | Own::Cluster => None,
            Own::Namespace => Some(""),
            Own::Object(name) => Some(name),
        });
        assert_eq!(granted("Role"), own_namespace);
    }

    #[test]
    fn no_secret_is_ever_listed() {
        let secrets: Vec<_> = needed(true)
            .into_iter()
            .filter(|verb| verb.resource == "secrets")
            .collect();
        assert!(!secrets.is_empty() && secrets.iter().all(|verb| !["list", "watch"].contains(&verb.verb)));
    }
}
