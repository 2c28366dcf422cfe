//! Many members that are simulated: real objects on a real API server, and behind each Pod a small server in place of
//! agent and etcd. The operator that they are shown to is the real one, and cannot tell.
//!
//! * [`kubelet`] stands in for a node: it takes the Pods that are scheduled to it, gives each an address, and says that it
//!   runs.
//! * [`agent`] speaks the agent's protocol over mTLS with the certificate of the member's own Secret.
//! * [`etcd`] answers what the operator asks of etcd: member lists and membership changes, from a list in memory.
//! * [`network`] makes the addresses, in the network namespace of the control plane: the operator's Pod reaches them as it
//!   reaches Pods of other nodes.

mod agent;
mod etcd;
mod kubelet;
mod network;
mod state;

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::Result;
use kube::Api;
use tokio::task::JoinSet;

use crate::{harness::Stage, kube::Place};
use kubelet::Kubelet;
use state::Members;

/// A running simulation. It ends when this is dropped.
pub struct Fleet {
    members: Arc<Members>,
    _tasks: JoinSet<Result<()>>,
}

impl Fleet {
    /// Takes over those Pods of a namespace that come to its node; see [`scheduling`].
    pub async fn start(stage: &Stage, namespace: &str) -> Result<Self> {
        network::add_addresses(&stage.kube)?;
        kubelet::register(&stage.client).await?;
        let members = Arc::new(Members::default());
        let kubelet = Kubelet {
            pods: Api::namespaced(stage.client.clone(), namespace),
            client: stage.client.clone(),
            network: stage.kube.namespace(Place::ControlPlane),
            members: members.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(kubelet.run());
        tasks.spawn(kubelet::stay_ready(stage.client.clone()));
        Ok(Self { members, _tasks: tasks })
    }

    /// The cluster object of that UID: no etcd and no agent of it answers any more, though all connections stand; or they do
    /// again.
    pub fn hang(&self, cluster_uid: &str, hung: bool) {
        self.members.cluster(cluster_uid).hang(hung);
    }

    /// How many agents are being watched by an operator at this moment.
    #[must_use]
    pub fn links(&self) -> usize {
        self.members.links()
    }
}

/// `spec.scheduling` of a cluster whose members are to be simulated.
#[must_use]
pub fn scheduling() -> serde_json::Value {
    kubelet::scheduling()
}

/// The address of the simulated Pod with that number.
fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(network::FIRST) + number)
}
