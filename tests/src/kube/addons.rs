//! What is applied to a new cluster: the `StorageClass` and the DNS server.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde::Deserialize;
use serde_json::Value;

use super::network::DNS_SERVICE;

const MANIFESTS: [&str; 2] = [
    include_str!("../../kube/manifests/storage.yaml"),
    include_str!("../../kube/manifests/coredns.yaml"),
];

/// Applies them all. Can be repeated.
pub(super) async fn apply(client: &Client, nodes: u8) -> Result<()> {
    for manifest in MANIFESTS {
        let manifest = manifest
            .replace("DNS_SERVICE", DNS_SERVICE)
            .replace("DNS_REPLICAS", &nodes.min(2).to_string());
        for document in serde_yaml_ng::Deserializer::from_str(&manifest) {
            let object: DynamicObject = serde_json::from_value(Value::deserialize(document)?)?;
            let types = object.types.clone().context("a manifest has no kind")?;
            let kind = GroupVersionKind::try_from(&types)?;
            let resource = ApiResource::from_gvk(&kind);
            let api: Api<DynamicObject> = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let params = PatchParams::apply("local-kube").force();
            api.patch(&object.name_any(), &params, &Patch::Apply(&object))
                .await
                .with_context(|| format!("cannot apply {} {}", types.kind, object.name_any()))?;
        }
    }
    Ok(())
}

/// An error unless that many nodes are Ready.
pub(super) async fn nodes_ready(client: &Client, nodes: u8) -> Result<()> {
    let list = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let ready = list.iter().filter(|node| is_ready(node)).count();
    if ready < usize::from(nodes) {
        bail!("{ready} of {nodes} nodes are Ready");
    }
    Ok(())
}

/// Whether a node says that it is Ready.
pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|list| list.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// An error unless a DNS server is ready.
pub(super) async fn dns_ready(client: &Client) -> Result<()> {
    let deployment = Api::<Deployment>::namespaced(client.clone(), "kube-system")
        .get("coredns")
        .await?;
    if deployment.status.and_then(|status| status.ready_replicas).unwrap_or(0) == 0 {
        bail!("no replica of CoreDNS is ready");
    }
    Ok(())
}
