//! What a Pod was meant to be, kept on it as a hash.

use std::fmt::Write;

use crds::{EtcdMember, EtcdMemberSpec, annotations};
use kube::ResourceExt;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Annotation of a Pod: [`template_hash`] of the member it was built from.
pub const TEMPLATE_HASH: &str = "etcd-operator.cozystack.io/template-hash";

/// A hash of the *intent* that a Pod is built from, not of the Pod: what admission webhooks, `LimitRanger` or a newer
/// operator make of it is no drift, and replaces no Pod (scenario U21). The images are left out, they are changed in
/// place, and so are labels and annotations.
#[must_use]
pub fn template_hash(member: &EtcdMember) -> String {
    let EtcdMemberSpec {
        cluster_name: _,
        version: _,
        storage,
        resources,
        additional_metadata: _,
        affinity,
        topology_spread_constraints,
        options: _,
        image_pull_secrets,
        bootstrap: _,
        initial_cluster: _,
        cluster_token: _,
        replicas: _,
        dormant: _,
        tls,
        restore: _,
        agent,
        scheduling,
    } = &member.spec;
    let subpath = member.annotations().get(annotations::DATA_DIR_SUBPATH);
    // A disk grows through its claim and not through the Pod.
    let memory_size = (storage.medium == crds::StorageMedium::Memory).then_some(&storage.size);
    let mut hash = Sha256::new();
    let mut field = |name: &str, value: Option<String>| {
        // An absent field adds nothing, so that one which comes with a newer API changes no hash.
        if let Some(value) = value {
            hash.update(name.as_bytes());
            hash.update([0]);
            hash.update(value.as_bytes());
            hash.update([0]);
        }
    };
    field("memory-size", memory_size.and_then(json));
    field("resources", resources.as_ref().and_then(json));
    field("affinity", affinity.as_ref().and_then(json));
    field(
        "spread",
        Some(topology_spread_constraints)
            .filter(|all| !all.is_empty())
            .and_then(json),
    );
    field(
        "pull",
        Some(image_pull_secrets).filter(|all| !all.is_empty()).and_then(json),
    );
    field("tls", tls.as_ref().and_then(json));
    field("agent-resources", agent.resources.as_ref().and_then(json));
    field("agent-log", Some(agent.log_level.as_str().to_owned()));
    field(
        "scheduling",
        Some(scheduling)
            .filter(|all| **all != crds::Scheduling::default())
            .and_then(json),
    );
    field("subpath", subpath.cloned());
    hash.finalize().iter().take(8).fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Maps keep their order (`BTreeMap`), so equal values give equal text.
fn json<T: Serialize>(value: &T) -> Option<String> {
    serde_json::to_string(value).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::super::fixtures;
    use super::*;

    #[test]
    fn u21_the_hash_is_the_same_in_every_build() {
        assert_eq!(template_hash(&fixtures::memory_member()), "4b11a02974cddbe0");
        assert_eq!(template_hash(&fixtures::full_member()), "f8b99d0bcd3326ab");
    }

    #[test]
    fn what_is_changed_in_place_does_not_change_the_hash() {
        let before = fixtures::full_member();
        let mut after = before.clone();
        after.spec.version = "3.7.3".into();
        after.spec.additional_metadata = None;
        after.spec.options = None;
        after.spec.storage.size = Quantity("100Gi".into());
        assert_eq!(template_hash(&before), template_hash(&after));
    }

    #[test]
    fn what_needs_a_new_pod_changes_the_hash() {
        let before = fixtures::memory_member();
        let changes: [fn(&mut EtcdMember); 4] = [
            |member| member.spec.storage.size = Quantity("2Gi".into()),
            |member| member.spec.scheduling.priority_class_name = Some("high".into()),
            |member| member.spec.agent.log_level = crds::AgentLogLevel::Debug,
            |member| member.spec.affinity = Some(k8s_openapi::api::core::v1::Affinity::default()),
        ];
        for change in changes {
            let mut after = before.clone();
            change(&mut after);
            assert_ne!(template_hash(&before), template_hash(&after));
        }
    }
}
