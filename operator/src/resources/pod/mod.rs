//! The Pod of a member.

mod agent;
mod etcd;
mod volumes;

use std::collections::BTreeMap;

use crds::{EtcdMember, EtcdMemberSpec, Scheduling, annotations, labels};
use k8s_openapi::api::core::v1::{Capabilities, Pod, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext};
use kube::ResourceExt;

use super::{TEMPLATE_HASH, headless_service_of, metadata::of_member, template_hash};

pub use agent::{AGENT_CONTAINER, INSTALL_CONTAINER};
pub use etcd::ETCD_CONTAINER;

/// User, group and owner of the volumes.
const UID: i64 = 65532;

/// Long enough for etcd to hand leadership over and close its database; the supervisor ends with etcd, which is
/// nearly always within a second.
const GRACE_SECONDS: i64 = 30;

/// The images that a Pod is made with.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    /// Repository of etcd; the tag is `v<version>`.
    pub etcd_repository: &'a str,
    /// The agent.
    pub agent: &'a str,
}

/// The Pod of `member`, named as the member. `voter` puts it behind the client Service and the disruption budget.
#[must_use]
pub fn pod(member: &EtcdMember, cluster_uid: &str, images: &Images<'_>, voter: bool) -> Pod {
    let EtcdMemberSpec {
        cluster_name: _,
        version,
        storage,
        resources,
        additional_metadata: _,
        affinity,
        topology_spread_constraints,
        // The agent gets these over its link.
        options: _,
        image_pull_secrets,
        bootstrap: _,
        initial_cluster: _,
        cluster_token: _,
        replicas: _,
        dormant: _,
        // Not let through to here yet: a condition says so.
        tls: _,
        restore: _,
        agent,
        scheduling,
    } = &member.spec;
    let Scheduling {
        tolerations,
        node_selector,
        priority_class_name,
        runtime_class_name,
        scheduler_name,
    } = scheduling;
    let subpath = data_subpath(member);
    let own = BTreeMap::from([(TEMPLATE_HASH.to_owned(), template_hash(member))]);
    let mut metadata = of_member(member, member.name_any(), own);
    if voter {
        metadata
            .labels
            .get_or_insert_default()
            .insert(labels::ROLE.into(), labels::ROLE_VOTER.into());
    }
    Pod {
        metadata,
        spec: Some(PodSpec {
            hostname: Some(member.name_any()),
            subdomain: Some(headless_service_of(member).to_owned()),
            init_containers: Some(vec![
                agent::install(images.agent, agent),
                agent::sidecar(member, cluster_uid, images.agent, agent, subpath),
            ]),
            containers: vec![etcd::container(
                images.etcd_repository,
                version,
                resources.as_ref(),
                subpath,
            )],
            volumes: Some(volumes::all(&member.name_any(), storage)),
            affinity: affinity.clone(),
            topology_spread_constraints: list(topology_spread_constraints),
            tolerations: list(tolerations),
            node_selector: Some(node_selector.clone()).filter(|all| !all.is_empty()),
            priority_class_name: priority_class_name.clone(),
            runtime_class_name: runtime_class_name.clone(),
            scheduler_name: scheduler_name.clone(),
            image_pull_secrets: list(image_pull_secrets).map(|all| all.into_iter().map(Into::into).collect()),
            restart_policy: Some("Always".into()),
            termination_grace_period_seconds: Some(GRACE_SECONDS),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(UID),
                run_as_group: Some(UID),
                fs_group: Some(UID),
                // A large volume is not walked at each start.
                fs_group_change_policy: Some("OnRootMismatch".into()),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".into(),
                    localhost_profile: None,
                }),
                ..PodSecurityContext::default()
            }),
            ..PodSpec::default()
        }),
        status: None,
    }
}

/// The folder of the volume that is etcd's data-dir: one safe path component, otherwise the volume's root.
fn data_subpath(member: &EtcdMember) -> Option<&str> {
    let name = member.annotations().get(annotations::DATA_DIR_SUBPATH)?;
    let safe = !name.is_empty()
        && name.len() <= 255
        && name != "."
        && name != ".."
        && name != proto::pod::AGENT_FOLDER
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    safe.then_some(name)
}

fn security(read_only_root: bool) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".into()]),
            add: None,
        }),
        read_only_root_filesystem: read_only_root.then_some(true),
        ..SecurityContext::default()
    }
}

fn list<T: Clone>(all: &[T]) -> Option<Vec<T>> {
    Some(all.to_vec()).filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    const IMAGES: Images<'_> = Images {
        etcd_repository: "quay.io/coreos/etcd",
        agent: "example.org/etcd-agent:1",
    };

    #[test]
    fn the_pod_of_a_member_in_memory() {
        insta::assert_yaml_snapshot!(pod(&fixtures::memory_member(), "uid-cluster", &IMAGES, false));
    }

    #[test]
    fn the_pod_of_a_voter_with_every_field_set() {
        insta::assert_yaml_snapshot!(pod(&fixtures::full_member(), "uid-cluster", &IMAGES, true));
    }

    #[test]
    fn a_subpath_that_could_leave_the_volume_is_not_used() {
        let mut member = fixtures::memory_member();
        for unsafe_name in ["..", ".", "", "a/b", "/a", "etcd-agent", "a\u{e4}", "a b"] {
            member
                .annotations_mut()
                .insert(annotations::DATA_DIR_SUBPATH.into(), unsafe_name.into());
            assert_eq!(data_subpath(&member), None, "{unsafe_name:?}");
        }
        member
            .annotations_mut()
            .insert(annotations::DATA_DIR_SUBPATH.into(), "default.etcd".into());
        assert_eq!(data_subpath(&member), Some("default.etcd"));
    }
}
