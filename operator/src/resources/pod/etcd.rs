//! The container that runs etcd, under the supervisor.

use k8s_openapi::{
    api::core::v1::{Container, ContainerPort, EnvVar, HTTPGetAction, Probe, ResourceRequirements},
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use proto::pod::{BINARY, CLIENT_PORT, METRICS_PORT, PEER_PORT, env};

use super::{security, volumes};

/// Name of the container.
pub const ETCD_CONTAINER: &str = "etcd";

/// Alarms for space do not make a member unready: clients must still reach it to free some. One definition must suit
/// every version that the Pod will see.
const READINESS_PATH: &str = "/health?serializable=true&exclude=NOSPACE";

pub(super) fn container(
    repository: &str,
    version: &str,
    resources: Option<&ResourceRequirements>,
    subpath: Option<&str>,
) -> Container {
    Container {
        name: ETCD_CONTAINER.into(),
        image: Some(format!("{repository}:v{version}")),
        command: Some(vec![BINARY.into(), "supervise".into()]),
        ports: Some(vec![
            port("client", CLIENT_PORT),
            port("peer", PEER_PORT),
            port("metrics", METRICS_PORT),
        ]),
        env: subpath.map(|subpath| vec![variable(env::DATA_SUBPATH, subpath)]),
        resources: Some(
            resources
                .filter(|r| **r != ResourceRequirements::default())
                .cloned()
                .unwrap_or_else(default),
        ),
        volume_mounts: Some(vec![volumes::mount_data(false), volumes::mount_run()]),
        // A short period: a person waits for Ready. No liveness probe: the supervisor restarts etcd, and knows more.
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some(READINESS_PATH.into()),
                port: IntOrString::Int(METRICS_PORT.into()),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(1),
            timeout_seconds: Some(3),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        security_context: Some(security(false)),
        ..Container::default()
    }
}

/// What the API promises when `spec.resources` is empty.
fn default() -> ResourceRequirements {
    let requests = [("cpu", "100m"), ("memory", "128Mi")];
    ResourceRequirements {
        requests: Some(
            requests
                .map(|(name, amount)| (name.to_owned(), Quantity(amount.into())))
                .into(),
        ),
        ..ResourceRequirements::default()
    }
}

pub(super) fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.into()),
        container_port: number.into(),
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    }
}

pub(super) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.into(),
        value: Some(value.into()),
        value_from: None,
    }
}
