//! The containers that run the agent's image: `install`, and the sidecar.

use crds::{AgentSpec, EtcdMember, StorageMedium};
use k8s_openapi::{
    api::core::v1::{Container, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use proto::pod::{AGENT_GRPC_PORT, AGENT_HTTP_PORT, env};

use super::{
    super::{client_url, headless_service_of, peer_url},
    etcd::{port, variable},
    security, volumes,
};

/// Name of the container that serves.
pub const AGENT_CONTAINER: &str = "agent";
/// Name of the container that puts the binary into the run volume.
pub const INSTALL_CONTAINER: &str = "install";

/// The binary in the agent's image, and in the operator's.
const IN_IMAGE: &str = "/etcd-agent";

/// Copies the binary into the run volume, where the etcd container finds it.
pub(super) fn install(image: &str, agent: &AgentSpec) -> Container {
    Container {
        name: INSTALL_CONTAINER.into(),
        image: Some(image.into()),
        command: Some(vec![IN_IMAGE.into(), "install".into()]),
        resources: Some(resources(agent)),
        volume_mounts: Some(vec![volumes::mount_run()]),
        security_context: Some(security(true)),
        ..Container::default()
    }
}

/// The sidecar. No probe: kubelet would restart it, or hold etcd back, for reasons that are none of etcd's.
pub(super) fn sidecar(
    member: &EtcdMember,
    cluster_uid: &str,
    image: &str,
    agent: &AgentSpec,
    subpath: Option<&str>,
) -> Container {
    let name = member.name_any();
    let namespace = member.namespace().unwrap_or_default();
    let service = headless_service_of(member);
    let medium = match member.spec.storage.medium {
        StorageMedium::Disk => "Disk",
        StorageMedium::Memory => "Memory",
    };
    let mut variables = vec![
        variable(env::MEMBER, &name),
        variable(env::NAMESPACE, &namespace),
        variable(env::CLUSTER, &member.spec.cluster_name),
        variable(env::CLUSTER_UID, cluster_uid),
        variable(env::PEER_URL, &peer_url(&name, service, &namespace)),
        variable(env::CLIENT_URL, &client_url(&name, service, &namespace)),
        variable(env::STORAGE_MEDIUM, medium),
        variable(env::LOG, agent.log_level.as_str()),
    ];
    variables.extend(subpath.map(|subpath| variable(env::DATA_SUBPATH, subpath)));
    Container {
        name: AGENT_CONTAINER.into(),
        image: Some(image.into()),
        command: Some(vec![IN_IMAGE.into(), "serve".into()]),
        restart_policy: Some("Always".into()),
        ports: Some(vec![
            port("agent-http", AGENT_HTTP_PORT),
            port("agent-grpc", AGENT_GRPC_PORT),
        ]),
        env: Some(variables),
        resources: Some(resources(agent)),
        // What is written to the data volume is written by the supervisor.
        volume_mounts: Some(vec![
            volumes::mount_data(true),
            volumes::mount_run(),
            volumes::mount_tls(),
        ]),
        security_context: Some(security(true)),
        ..Container::default()
    }
}

fn resources(agent: &AgentSpec) -> ResourceRequirements {
    let AgentSpec {
        resources,
        log_level: _,
        adopt: _,
    } = agent;
    let amounts = |all: &[(&str, &str)]| {
        Some(
            all.iter()
                .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
                .collect(),
        )
    };
    resources.clone().unwrap_or_else(|| ResourceRequirements {
        requests: amounts(&[("cpu", "20m"), ("memory", "24Mi")]),
        limits: amounts(&[("memory", "128Mi")]),
        claims: None,
    })
}
