//! What a cluster's spec asks for, checked: what cannot be worked on, and what is not acted on yet.

use std::time::Duration;

use crds::{
    EtcdCluster, EtcdClusterSpec, EtcdMemberSpec, Storage, StorageMedium, annotations,
    etcdcluster::{EtcdClusterStatus, ObservedCluster, QuorumLossPolicy},
    names::ClusterName,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::plan::{
    facts::{Medium, Options, Spec, Version},
    volumes::Size,
};

/// The oldest version that is served.
const OLDEST: Version = Version {
    major: 3,
    minor: 5,
    patch: 0,
};

/// The spec as the planner sees it.
#[must_use]
pub fn spec(cluster: &EtcdCluster) -> Spec {
    let EtcdClusterSpec {
        replicas,
        version,
        storage,
        progress_deadline_seconds,
        options,
        ..
    } = &cluster.spec;
    let mut invalid = Vec::new();
    if let Err(error) = ClusterName::new(cluster.name_any()) {
        invalid.push(error.to_string());
    }
    let parsed = Version::parse(version);
    match parsed {
        None => invalid.push(format!("version {version} is none: write it as in 3.6.11")),
        Some(parsed) if parsed < OLDEST => invalid.push(format!(
            "version {version} of etcd is not served: {OLDEST} is the oldest; upgrade to it with etcd's own tools first"
        )),
        Some(_) => {}
    }
    let memory = storage.medium == StorageMedium::Memory;
    let formed = cluster
        .status
        .as_ref()
        .is_some_and(|status| status.cluster_id.is_some());
    if memory && *replicas == 0 && formed {
        invalid.push("a cluster in memory cannot be paused: replicas 0 would lose its data; delete it instead".into());
    }
    let mut blocks_formation = blocks_formation(&cluster.spec);
    // On a formed cluster it changes nothing that runs; members of one that was formed with it have no agents.
    if !formed && has_peer_auto_tls(cluster) {
        blocks_formation.push(format!("annotation {}", annotations::PEER_AUTO_TLS));
    }
    let mut unsupported = blocks_formation.clone();
    unsupported.extend(not_acted_on(&cluster.spec));
    if cluster.annotations().contains_key(annotations::FENCED) {
        unsupported.push(format!("annotation {}", annotations::FENCED));
    }
    if formed {
        unsupported.extend(changed_after_formation(&cluster.spec, cluster.status.as_ref()));
    }
    Spec {
        replicas: u32::try_from(*replicas).unwrap_or(0),
        version: parsed.unwrap_or(OLDEST),
        volume: Size {
            bytes: bytes(&storage.size),
            text: storage.size.0.clone(),
        },
        medium: if memory { Medium::Memory } else { Medium::Disk },
        options: options.as_ref().map(etcd_options).unwrap_or_default(),
        progress_deadline: Duration::from_secs(u64::try_from(*progress_deadline_seconds).unwrap_or(600)),
        node_loss: Duration::from_secs(u64::try_from(cluster.spec.recovery.node_loss_seconds).unwrap_or(300)),
        rollout_paused: cluster.spec.rollout.paused,
        recovers_after: (cluster.spec.recovery.quorum_loss == QuorumLossPolicy::Automatic)
            .then(|| Duration::from_secs(u64::try_from(cluster.spec.recovery.settle_seconds).unwrap_or(300))),
        is_observed: is_observed(cluster, formed),
        invalid,
        unsupported,
        blocks_formation,
    }
}

/// A size in bytes; 0 for what is none, which the API server does not let through.
#[must_use]
pub fn bytes(size: &Quantity) -> u64 {
    let whole = crds::quantity::parse(size).map_or(0, crds::quantity::Amount::ceil);
    u64::try_from(whole).unwrap_or(0)
}

/// The target to record: the spec, but a formed cluster keeps the version that it runs (a version is rolled out, not
/// taken up at once).
#[must_use]
pub fn target(cluster: &EtcdCluster, keep_version: Option<Version>) -> ObservedCluster {
    let mut observed = ObservedCluster::from(&cluster.spec);
    if let Some(version) = keep_version {
        observed.version = version.to_string();
    }
    observed
}

fn is_observed(cluster: &EtcdCluster, formed: bool) -> bool {
    let Some(recorded) = cluster.status.as_ref().and_then(|status| status.observed.as_ref()) else {
        return false;
    };
    let keep = Version::parse(&recorded.version).filter(|_| formed);
    *recorded == target(cluster, keep)
}

/// Ignored when `spec.tls.peer` is set, which is told of by itself.
fn has_peer_auto_tls(cluster: &EtcdCluster) -> bool {
    let annotation = cluster.annotations().get(annotations::PEER_AUTO_TLS);
    let own = cluster.spec.tls.as_ref().is_some_and(|tls| tls.peer.is_some());
    !own && annotation.is_some_and(|value| value == annotations::TRUE)
}

/// Without these a cluster would not be what was asked for.
fn blocks_formation(spec: &EtcdClusterSpec) -> Vec<String> {
    let fields = [
        ("spec.tls", spec.tls.is_some()),
        ("spec.auth", spec.auth.as_ref().is_some_and(|auth| auth.enabled)),
        (
            "spec.bootstrap.restore",
            spec.bootstrap
                .as_ref()
                .is_some_and(|bootstrap| bootstrap.restore.is_some()),
        ),
    ];
    named(&fields)
}

/// A cluster can do without these for now.
fn not_acted_on(spec: &EtcdClusterSpec) -> Vec<String> {
    let fields = [
        ("spec.recovery.restoreFrom", spec.recovery.restore_from.is_some()),
        (
            "spec.agent.adopt: Rolling",
            spec.agent.adopt == crds::AgentAdoption::Rolling,
        ),
    ];
    named(&fields)
}

/// Edits that need a rollout: members keep what they were made with.
fn changed_after_formation(spec: &EtcdClusterSpec, status: Option<&EtcdClusterStatus>) -> Vec<String> {
    let Some(recorded) = status.and_then(|status| status.observed.as_ref()) else {
        return Vec::new();
    };
    let fields = [("a change of spec.version", recorded.version != spec.version)];
    named(&fields)
}

/// Fields in which a member differs from the target: it keeps what it was made with until changes are rolled out.
#[must_use]
pub fn drift(member: &EtcdMemberSpec, target: &ObservedCluster) -> Vec<String> {
    let fields = [
        (
            "a change of spec.storage",
            needs_new_volume(&member.storage, &target.storage),
        ),
        ("a change of spec.resources", member.resources != target.resources),
        ("a change of spec.affinity", member.affinity != target.affinity),
        (
            "a change of spec.topologySpreadConstraints",
            member.topology_spread_constraints != target.topology_spread_constraints,
        ),
        (
            "a change of spec.additionalMetadata",
            member.additional_metadata != target.additional_metadata,
        ),
        ("a change of spec.options", member.options != target.options),
        (
            "a change of spec.imagePullSecrets",
            member.image_pull_secrets != target.image_pull_secrets,
        ),
        ("a change of spec.agent", member.agent != target.agent),
        ("a change of spec.scheduling", member.scheduling != target.scheduling),
    ];
    named(&fields)
}

/// The size of a disk grows in place (see [`crate::plan::volumes`]).
fn needs_new_volume(member: &Storage, target: &Storage) -> bool {
    let grown = Storage {
        size: target.size.clone(),
        ..member.clone()
    };
    let same = match member.medium {
        StorageMedium::Disk => grown,
        StorageMedium::Memory => member.clone(),
    };
    same != *target
}

fn named(fields: &[(&str, bool)]) -> Vec<String> {
    fields
        .iter()
        .filter(|(_, used)| *used)
        .map(|(name, _)| (*name).to_owned())
        .collect()
}

fn etcd_options(options: &crds::EtcdOptions) -> Options {
    Options {
        quota_backend_bytes: options.quota_backend_bytes.unwrap_or(0),
        auto_compaction_mode: options
            .auto_compaction_mode
            .map(|mode| mode.as_str().to_owned())
            .unwrap_or_default(),
        auto_compaction_retention: options.auto_compaction_retention.clone().unwrap_or_default(),
        snapshot_count: options.snapshot_count.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(version: &str) -> EtcdCluster {
        let mut cluster = EtcdCluster::new(
            "c",
            EtcdClusterSpec {
                version: version.into(),
                ..EtcdClusterSpec::default()
            },
        );
        cluster.spec.replicas = 3;
        cluster
    }

    #[test]
    fn etcd_3_4_is_refused_by_name() {
        let spec = spec(&cluster("3.4.35"));
        assert!(
            spec.invalid
                .iter()
                .any(|problem| problem.contains("3.4.35") && problem.contains("3.5.0")),
            "{spec:?}"
        );
        assert!(super::spec(&cluster("3.5.0")).invalid.is_empty());
    }

    #[test]
    fn a_cluster_with_tls_is_not_formed_without_it() {
        let mut cluster = cluster("3.6.11");
        cluster.spec.tls = Some(crds::etcdcluster::ClusterTls::default());
        assert_eq!(spec(&cluster).blocks_formation, ["spec.tls"]);
    }

    #[test]
    fn peers_that_were_to_have_certificates_never_talk_without() {
        let with = |value: &str| {
            let mut cluster = cluster("3.6.11");
            let annotation = (annotations::PEER_AUTO_TLS.to_owned(), value.to_owned());
            cluster.metadata.annotations = Some([annotation].into());
            cluster
        };
        let blocked = spec(&with("true"));
        assert_eq!(blocked.blocks_formation, blocked.unsupported);
        assert!(
            blocked.unsupported[0].contains(annotations::PEER_AUTO_TLS),
            "{blocked:?}"
        );
        assert!(spec(&with("false")).blocks_formation.is_empty());
        let mut formed = with("true");
        formed.status = Some(EtcdClusterStatus {
            cluster_id: Some("1".into()),
            ..EtcdClusterStatus::default()
        });
        assert!(
            spec(&formed).blocks_formation.is_empty(),
            "a formed one goes on as it is"
        );
    }

    #[test]
    fn an_edited_version_of_a_formed_cluster_is_said_and_not_taken_up() {
        let mut cluster = cluster("3.6.11");
        cluster.status = Some(EtcdClusterStatus {
            cluster_id: Some("1".into()),
            observed: Some(target(&cluster, None)),
            ..EtcdClusterStatus::default()
        });
        assert!(spec(&cluster).is_observed);
        cluster.spec.version = "3.6.12".into();
        let edited = spec(&cluster);
        assert!(edited.is_observed);
        assert_eq!(edited.unsupported, ["a change of spec.version"]);
        cluster.spec.replicas = 5;
        assert!(!spec(&cluster).is_observed);
    }

    #[test]
    fn m18_a_name_that_no_service_can_have_is_refused() {
        let mut cluster = cluster("3.6.11");
        cluster.metadata.name = Some("1etcd".into());
        assert_eq!(spec(&cluster).invalid.len(), 1);
    }
}
