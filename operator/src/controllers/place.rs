//! Where a member is: facts of its Pod, its node and, where something hangs on it, its volume.

use std::sync::Mutex;

use crds::{EtcdMember, annotations};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeSelector;
use kube::ResourceExt;

use super::{
    World,
    api::{Apis, call},
    cache::Cache,
    error::{PassError, is_not_found},
    memory::{Memory, with},
    mirror::{ClusterKey, Item},
    nodes,
    pod::Times,
};
use crate::plan::{
    facts::{Facts, Medium},
    place::{Place, Volume},
};

/// From the mirrors alone.
#[must_use]
pub(super) fn fact(cache: &Cache, key: &ClusterKey, member: &Item<EtcdMember>, now: Timestamp) -> Place {
    let pod = cache.pods.get(key, &member.name);
    let times = pod.as_ref().map(|info| info.times.clone()).unwrap_or_default();
    let Times {
        ends,
        unplaced,
        unprepared,
    } = times;
    let node = pod.as_ref().and_then(|info| info.pod.node.as_deref());
    Place {
        node: node.map(|name| cache.nodes.state(name, now)).unwrap_or_default(),
        volume: Volume::Unknown,
        ends,
        unplaced,
        unprepared,
        replace: member
            .value
            .annotations()
            .get(annotations::REPLACE)
            .is_some_and(|value| value == annotations::TRUE),
    }
}

/// Looks at the volumes of members whose Pods have no place to run: can another node have them?
pub(super) async fn volumes(world: &World, key: &ClusterKey, memory: &Mutex<Memory>, facts: &mut Facts) {
    if facts.cluster.spec.medium == Medium::Memory || facts.cluster.ending || facts.cluster.hands_off {
        return;
    }
    let now = facts.now;
    for member in &mut facts.members {
        let claim = crds::names::member_claim(&member.name);
        let Some(claim) = world.cache.claims.get(key, &claim) else {
            continue;
        };
        if claim.lost {
            let noticed = with(memory, |memory| {
                *memory.lost_volumes.entry(member.uid.clone()).or_insert(now)
            });
            member.place.volume = Volume::Gone { since: noticed };
            continue;
        }
        let Place {
            node, ends, unplaced, ..
        } = member.place;
        let Some(name) = &claim.volume else { continue };
        if node.lost_since().is_none() && ends.is_none() && unplaced.is_none() {
            continue;
        }
        match affinity(world, key, memory, name).await {
            Ok(Some(affinity)) => member.place.volume = world.cache.nodes.volume(affinity.as_ref()),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(cluster = %key, member = %member.name, %error, "its volume is not known");
            }
        }
    }
}

/// Where a volume can be used, which is settled when it is made. `None`: it is not there.
async fn affinity(
    world: &World,
    key: &ClusterKey,
    memory: &Mutex<Memory>,
    name: &str,
) -> Result<Option<Option<NodeSelector>>, PassError> {
    if let Some(known) = with(memory, |memory| memory.volumes.get(name).cloned()) {
        return Ok(Some(known));
    }
    let apis = Apis::new(&world.operator.client, &key.namespace);
    match call("reading a PersistentVolume", apis.volumes.get(name)).await {
        Ok(volume) => {
            let affinity = nodes::affinity_of(volume);
            with(memory, |memory| {
                memory.volumes.insert(name.to_owned(), affinity.clone())
            });
            Ok(Some(affinity))
        }
        Err(PassError::Kube { source, .. }) if is_not_found(&source) => Ok(None),
        Err(error) => Err(error),
    }
}
