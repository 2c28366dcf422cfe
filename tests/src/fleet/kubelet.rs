//! The node of the simulated Pods.

use std::{collections::HashSet, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use proto::{agent::MemberRef, pod::env};
use serde_json::json;
use tokio::time::interval;

use super::{
    address, agent, etcd, network,
    state::{Member, Members, Told, lock},
};

/// Its name.
const NODE: &str = "simulated";
const BEAT: Duration = Duration::from_secs(10);

/// What a cluster's spec needs, so that its Pods come to this node and to no other.
pub(super) fn scheduling() -> serde_json::Value {
    json!({
        "nodeSelector": { "kubernetes.io/hostname": NODE },
        "tolerations": [{ "key": NODE, "operator": "Exists" }],
    })
}

/// Makes the Node object. It can hold any number of Pods, and only those that ask for it.
pub(super) async fn register(client: &Client) -> Result<()> {
    let capacity = json!({ "cpu": "1000", "memory": "1000Gi", "pods": "10000", "ephemeral-storage": "1000Gi" });
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": NODE, "labels": { "kubernetes.io/hostname": NODE } },
        "spec": { "taints": [{ "key": NODE, "effect": "NoSchedule" }] },
    }))?;
    let nodes: Api<Node> = Api::all(client.clone());
    match nodes.create(&PostParams::default(), &node).await {
        // Another fleet was here before.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        made => drop(made?),
    }
    let status = json!({ "status": {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated",
            "lastHeartbeatTime": Timestamp::now(), "lastTransitionTime": Timestamp::now() }],
    }});
    nodes
        .patch_status(NODE, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    beat(client).await
}

/// Says again and again that the node lives.
pub(super) async fn stay_ready(client: Client) -> Result<()> {
    let mut tick = interval(BEAT);
    loop {
        tick.tick().await;
        beat(&client).await?;
    }
}

async fn beat(client: &Client) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": NODE },
        "spec": { "holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": format!("{:.6}", Timestamp::now()) },
    });
    leases
        .patch(NODE, &PatchParams::apply("simulated").force(), &Patch::Apply(lease))
        .await?;
    Ok(())
}

/// What runs the Pods.
pub(super) struct Kubelet {
    /// Those of one namespace.
    pub(super) pods: Api<Pod>,
    /// A client with all rights.
    pub(super) client: Client,
    /// The network namespace with the addresses, as a path.
    pub(super) network: PathBuf,
    /// What the members share.
    pub(super) members: Arc<Members>,
}

impl Kubelet {
    /// Runs the Pods that are scheduled to this node.
    pub(super) async fn run(self) -> Result<()> {
        let on_node = watcher::Config::default().fields(&format!("spec.nodeName={NODE}"));
        let mut stream = std::pin::pin!(watcher(self.pods.clone(), on_node).default_backoff().applied_objects());
        let mut known = HashSet::new();
        let mut number = 0;
        while let Some(pod) = stream.next().await {
            let Ok(pod) = pod else { continue };
            if !known.insert(pod.uid().unwrap_or_default()) {
                continue;
            }
            let ip = IpAddr::from(address(number));
            number += 1;
            let member = Arc::new(member(&pod, &self.members)?);
            let agent = network::listen(&self.network, (ip, proto::pod::AGENT_GRPC_PORT).into())?;
            let etcd = network::listen(&self.network, (ip, proto::pod::CLIENT_PORT).into())?;
            tokio::spawn(agent::serve(
                agent,
                member.clone(),
                self.members.clone(),
                self.client.clone(),
            ));
            tokio::spawn(etcd::serve(etcd, member.clone()));
            tokio::spawn(start(self.pods.clone(), pod, ip, member));
        }
        Ok(())
    }
}

/// What a Pod says about its member.
fn member(pod: &Pod, members: &Members) -> Result<Member> {
    let spec = pod.spec.as_ref().context("a Pod without a spec")?;
    let agent = spec
        .init_containers
        .iter()
        .flatten()
        .find(|container| container.name == "agent");
    let agent = agent.context("a Pod without an agent")?;
    let variable = |name: &str| -> Result<String> {
        let found = agent.env.iter().flatten().find(|variable| variable.name == name);
        found
            .and_then(|variable| variable.value.clone())
            .with_context(|| format!("the agent has no {name}"))
    };
    let etcd = spec
        .containers
        .first()
        .and_then(|etcd| etcd.image.clone())
        .unwrap_or_default();
    let uid = variable(env::CLUSTER_UID)?;
    let cluster = members.cluster(&uid);
    Ok(Member {
        reference: MemberRef {
            name: variable(env::MEMBER)?,
            namespace: pod.namespace().unwrap_or_default(),
            cluster_name: variable(env::CLUSTER)?,
            cluster_uid: uid,
        },
        // Of the same form: 32 hexadecimal digits.
        nonce: pod.uid().unwrap_or_default().replace('-', ""),
        peer_url: variable(env::PEER_URL)?,
        client_url: variable(env::CLIENT_URL)?,
        version: etcd
            .rsplit_once(":v")
            .map(|(_, version)| version.to_owned())
            .unwrap_or_default(),
        cluster,
        told: std::sync::Mutex::new(Told::default()),
    })
}

/// Its containers start; it is ready when its etcd runs.
async fn start(pods: Api<Pod>, pod: Pod, ip: IpAddr, member: Arc<Member>) -> Result<()> {
    say(&pods, &pod, ip, false).await?;
    let mut changed = member.cluster.changed.subscribe();
    while lock(&member.told).identity.is_none() {
        changed.changed().await?;
    }
    say(&pods, &pod, ip, true).await
}

async fn say(pods: &Api<Pod>, pod: &Pod, ip: IpAddr, ready: bool) -> Result<()> {
    let now = Timestamp::now();
    let condition = |type_: &str, holds: bool| json!({ "type": type_, "status": if holds { "True" } else { "False" }, "lastTransitionTime": now });
    let container = |name: &str, image: &str, ready: bool, state: serde_json::Value| {
        json!({
            "name": name, "image": image, "imageID": image, "restartCount": 0, "ready": ready, "started": ready,
            "containerID": format!("containerd://{name}"), "state": state,
        })
    };
    let running = json!({ "running": { "startedAt": now } });
    let ended = json!({ "terminated": { "exitCode": 0, "startedAt": now, "finishedAt": now, "reason": "Completed" } });
    let spec = pod.spec.clone().unwrap_or_default();
    let init = spec.init_containers.iter().flatten().map(|init| {
        let image = init.image.as_deref().unwrap_or_default();
        let stays = init.restart_policy.is_some();
        container(
            &init.name,
            image,
            true,
            if stays { running.clone() } else { ended.clone() },
        )
    });
    let init: Vec<_> = init.collect();
    let main = spec.containers.iter().map(|main| {
        container(
            &main.name,
            main.image.as_deref().unwrap_or_default(),
            ready,
            running.clone(),
        )
    });
    let main: Vec<_> = main.collect();
    let status = json!({ "status": {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{ "ip": ip }],
        "startTime": now,
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
        "initContainerStatuses": init,
        "containerStatuses": main,
    }});
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}
