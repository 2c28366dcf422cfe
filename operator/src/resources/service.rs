//! The two Services of a cluster.

use std::collections::BTreeMap;

use crds::{
    EtcdCluster,
    etcdcluster::{ClientServiceTemplate, ClientServiceType, ServiceTemplates},
    labels,
    names::ClusterName,
};
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use proto::pod::{CLIENT_PORT, PEER_PORT};

use super::metadata::{merge, of_cluster};

/// The Service that gives every member its name, ready or not: peers must find each other before they serve.
#[must_use]
pub fn headless_service(cluster: &EtcdCluster, name: &ClusterName) -> Service {
    Service {
        metadata: of_cluster(cluster, name.headless_service()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            selector: Some(selector(name, false)),
            ports: Some(vec![port("client", CLIENT_PORT), port("peer", PEER_PORT)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The Service for clients: it leads to voters that serve, and to nobody else.
#[must_use]
pub fn client_service(cluster: &EtcdCluster, name: &ClusterName) -> Service {
    let ServiceTemplates { client } = &cluster.spec.service_template;
    let ClientServiceTemplate {
        type_,
        annotations,
        labels,
        load_balancer_class,
        traffic_distribution,
    } = client;
    let mut metadata = of_cluster(cluster, name.client_service());
    metadata.labels = Some(merge(labels, metadata.labels.unwrap_or_default()));
    metadata.annotations =
        Some(merge(annotations, metadata.annotations.unwrap_or_default())).filter(|all| !all.is_empty());
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(type_.as_str().into()),
            selector: Some(selector(name, true)),
            ports: Some(vec![port("client", CLIENT_PORT)]),
            load_balancer_class: match type_ {
                ClientServiceType::LoadBalancer => load_balancer_class.clone(),
                // The API server refuses the field on other types.
                ClientServiceType::ClusterIp | ClientServiceType::NodePort => None,
            },
            traffic_distribution: traffic_distribution.clone(),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn selector(cluster: &ClusterName, voters_only: bool) -> BTreeMap<String, String> {
    let mut selector = BTreeMap::from([(labels::CLUSTER.to_owned(), cluster.to_string())]);
    if voters_only {
        selector.insert(labels::ROLE.to_owned(), labels::ROLE_VOTER.to_owned());
    }
    selector
}

fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port: number.into(),
        target_port: Some(IntOrString::String(name.into())),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn the_headless_service() {
        let (cluster, name) = fixtures::cluster();
        insta::assert_yaml_snapshot!(headless_service(&cluster, &name));
    }

    #[test]
    fn the_client_service() {
        let (cluster, name) = fixtures::cluster();
        insta::assert_yaml_snapshot!(client_service(&cluster, &name));
    }

    #[test]
    fn the_client_service_as_a_load_balancer() {
        let (mut cluster, name) = fixtures::cluster();
        cluster.spec.service_template.client = ClientServiceTemplate {
            type_: ClientServiceType::LoadBalancer,
            annotations: [("lb/zone".to_owned(), "a".to_owned())].into(),
            labels: [("team".to_owned(), "b".to_owned())].into(),
            load_balancer_class: Some("internal".into()),
            traffic_distribution: Some("PreferClose".into()),
        };
        insta::assert_yaml_snapshot!(client_service(&cluster, &name));
    }
}
