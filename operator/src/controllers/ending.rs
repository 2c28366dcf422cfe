//! What is left to do when a cluster, its namespace or a former cluster of the same name goes.

use std::time::Duration;

use kube::ResourceExt;

use super::{
    World,
    api::{Apis, call},
    cluster::{SAFETY_NET, metrics_key},
    error::{PassError, is_not_found},
    execute, links,
    memory::with,
    mirror::ClusterKey,
    observe::Objects,
};
use crate::{
    plan::facts::Facts,
    resources::{self, Ownership},
};

/// Members of a cluster that ends are let go this much later at the latest when something failed.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// Members go first when a namespace ends, while their cluster still stands: then nothing is to be repaired (U17).
pub(super) async fn notice_end_of_namespace(
    world: &World,
    key: &ClusterKey,
    facts: &mut Facts,
    told: bool,
) -> Result<(), PassError> {
    let members_end = facts.members.iter().any(|member| member.deleting);
    if facts.cluster.ending || !(members_end || told) {
        return Ok(());
    }
    let apis = Apis::new(&world.operator.client, &key.namespace);
    let namespace = call("reading the namespace", apis.namespaces.get(&key.namespace)).await?;
    facts.cluster.ending = namespace.metadata.deletion_timestamp.is_some();
    Ok(())
}

/// Members of a former cluster of the same name, and members that nobody owns: they are not ours, and must not be held.
pub(super) async fn release_former(world: &World, key: &ClusterKey, objects: &Objects) -> Option<Duration> {
    let uid = objects.cluster.uid().unwrap_or_default();
    let former: Vec<_> = world
        .cache
        .members
        .of(key)
        .into_iter()
        .filter(|member| resources::ownership(&member.value.metadata, &uid) != Ownership::Ours)
        .collect();
    if former.is_empty() {
        return None;
    }
    // They may be the members of a cluster made anew that is not known here yet.
    let apis = Apis::new(&world.operator.client, &key.namespace);
    match call("reading a cluster", apis.clusters.get(&key.name)).await {
        Ok(live) if live.uid().as_deref() == Some(&uid) => release(world, key, former).await,
        Ok(_) => Some(Duration::from_millis(200)),
        Err(error) => {
            tracing::debug!(cluster = %key, %error, "whether members are of a former cluster is not known");
            Some(RETRY)
        }
    }
}

/// The cluster object is not there: its members are let go, nothing else is done.
pub(super) async fn gone(world: &World, key: &ClusterKey) -> Option<Duration> {
    let members = world.cache.members.of(key);
    world.operator.metrics.forget(&metrics_key(key));
    if let Some(memory) = world.forget(key) {
        for name in with(&memory, |memory| std::mem::take(&mut memory.linked)) {
            links::forget(world, &key.namespace, &name);
        }
    }
    if members.is_empty() {
        return None;
    }
    let apis = Apis::new(&world.operator.client, &key.namespace);
    match call("reading a cluster", apis.clusters.get(&key.name)).await {
        Ok(_) => return Some(Duration::from_millis(200)),
        Err(PassError::Kube { source, .. }) if is_not_found(&source) => {}
        Err(error) => {
            tracing::warn!(cluster = %key, %error, "whether the cluster is gone is not known");
            return Some(RETRY);
        }
    }
    release(world, key, members).await.or(Some(SAFETY_NET))
}

async fn release(
    world: &World,
    key: &ClusterKey,
    members: Vec<super::mirror::Item<crds::EtcdMember>>,
) -> Option<Duration> {
    let apis = Apis::new(&world.operator.client, &key.namespace);
    let mut failed = false;
    for member in members {
        links::forget(world, &key.namespace, &member.name);
        let ending = member.value.metadata.deletion_timestamp.is_some();
        let held = member
            .value
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == crds::annotations::MEMBER_FINALIZER);
        if !(ending && held) {
            continue;
        }
        match execute::release(&apis, &world.operator.lease, &member.value).await {
            Ok(()) => {
                tracing::info!(namespace = %key.namespace, cluster = %key.name, member = %member.name, step = "ReleaseMember", "done");
            }
            Err(PassError::Kube { source, .. }) if is_not_found(&source) => {}
            Err(error) => {
                tracing::warn!(cluster = %key, member = %member.name, %error, "a member is not released yet");
                failed = true;
            }
        }
    }
    failed.then_some(RETRY)
}
