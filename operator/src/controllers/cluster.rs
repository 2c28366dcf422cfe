//! One pass over one cluster: observe, plan, execute, report.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::future::join_all;
use jiff::SignedDuration;
use kube::ResourceExt;

use super::{
    World,
    api::{Apis, call},
    cache,
    error::{PassError, is_not_found},
    events,
    execute::{self, Executor, Outcome},
    links,
    memory::Memory,
    mirror::ClusterKey,
    observe::{self, Objects},
    report,
};
use crate::{
    plan::{
        self,
        facts::Facts,
        member_status, quorum, status,
        step::{Plan, Step},
        view::View,
    },
    resources::{self, Ownership},
};

/// A look without any reason: everything that matters wakes a cluster by itself.
const SAFETY_NET: Duration = Duration::from_mins(5);
/// After this many passes in a row that did something, the next one waits: a defect must not load the API server.
const BUSY: u32 = 60;
/// How long it waits then.
const AFTER_BUSY: Duration = Duration::from_secs(2);
/// Members of a cluster that ends are let go this much later at the latest when something failed.
const RETRY_ENDING: Duration = Duration::from_secs(2);
/// Until time tells more, or until facts that have just changed are read again.
const MOMENT: Duration = Duration::from_millis(500);
/// A membership call that etcd refused is made again after this at the latest: it refuses some for 5 s and no longer.
const AFTER_REFUSAL: Duration = Duration::from_millis(400);
/// Between two writes of statuses in which nothing is urgent: an agent that reports without end is not passed on.
const BETWEEN_WRITES: SignedDuration = SignedDuration::from_millis(1500);
/// Between two looks at a cluster whose quorum has been lost for a while.
const WITHOUT_QUORUM: Duration = Duration::from_secs(10);
/// So many failures in a row that usually pass by themselves are not said.
const PATIENCE: u32 = 5;

/// Looks at one cluster; says after how long it is to be looked at again at the latest.
pub(super) async fn pass(world: &World, key: &ClusterKey) -> Option<Duration> {
    match world.cache.clusters.get(key, &key.name) {
        Some(cluster) => {
            let objects = Objects::read(&world.cache, key, cluster);
            let mut delay = release_former(world, key, &objects).await;
            let ours = living(world, key, objects).await;
            delay = Some(delay.map_or(ours, |former| former.min(ours)));
            delay
        }
        None => gone(world, key).await,
    }
}

/// The cluster object is there.
async fn living(world: &World, key: &ClusterKey, objects: Objects) -> Duration {
    let started = Instant::now();
    let mut memory = world.take_memory(key);
    forget_former(world, key, &objects, &mut memory);
    let mut facts = observe::local(world, key, &objects, &memory, world.now());
    if let Err(error) = notice_end_of_namespace(world, key, &mut facts).await {
        tracing::debug!(cluster = %key, %error, "the namespace could not be read");
    }
    observe::remote(world, &mut facts).await;
    let view = View::new(&facts);
    if quorum::proven(&view) || facts.cluster.record.cluster_id.is_none() {
        memory.unproven_since = None;
    } else {
        memory.unproven_since.get_or_insert(facts.now);
    }
    let unproven_since = memory.unproven_since;
    drop(view);
    facts.unproven_since = unproven_since;
    let mut plan = plan::plan(&facts);
    if plan.has_consensus_step() {
        observe::confirm(world, &mut facts).await;
        plan = plan::plan(&facts);
    }
    let outcome = Executor::new(world, key, &facts, &objects, memory).run(&plan).await;
    finish(world, key, started, &facts, &plan, outcome).await
}

/// Ends what is kept for members that are gone.
fn forget_former(world: &World, key: &ClusterKey, objects: &Objects, memory: &mut Memory) {
    let present: BTreeSet<String> = objects.members.iter().map(|member| member.name.clone()).collect();
    for name in memory.linked.difference(&present) {
        links::forget(world, &key.namespace, name);
    }
    let uids: Vec<&str> = objects.members.iter().map(|member| member.uid.as_str()).collect();
    memory.identities.retain(|uid, _| uids.contains(&uid.as_str()));
    memory.sent.retain(|uid, _| uids.contains(&uid.as_str()));
    memory.linked = present;
}

/// Reports, remembers, and says when to look again.
async fn finish(
    world: &World,
    key: &ClusterKey,
    started: Instant,
    facts: &Facts,
    plan: &Plan,
    outcome: Outcome,
) -> Duration {
    let Outcome {
        done,
        failures,
        mut memory,
        cluster,
        members,
    } = outcome;
    events::of_steps(world, &cluster, &done);
    let acted = done.iter().any(|step| !matches!(step, Step::Nudge { .. }));
    memory.busy = if acted { memory.busy.saturating_add(1) } else { 0 };
    // The next pass follows at once and reports what the steps have led to; reporting in between would only delay it.
    // So does one after a failure that passes by itself: what is to be reported is known only then.
    let passing = !failures.is_empty() && memory.failures < PATIENCE && failures.iter().all(PassError::is_momentary);
    let hurry = passing || (acted && failures.is_empty() && memory.busy % 4 != 0);
    let reported = if hurry {
        Ok(Told::Now)
    } else {
        tell(world, key, facts, plan, &cluster, &members, &mut memory).await
    };
    let mut delay = plan.again.unwrap_or(SAFETY_NET).min(SAFETY_NET);
    let reported = match reported {
        Ok(Told::Later(left)) => {
            delay = delay.min(left);
            Ok(())
        }
        Ok(Told::Now) => Ok(()),
        Err(error) => Err(error),
    };
    if let Some(since) = facts.unproven_since {
        // Time itself changes what is known of the quorum.
        let settled = facts.now.duration_since(since) > SignedDuration::from_secs(15);
        delay = delay.min(if settled { WITHOUT_QUORUM } else { MOMENT });
    }
    if acted {
        delay = if memory.busy > BUSY { AFTER_BUSY } else { Duration::ZERO };
    }
    let errors: Vec<&PassError> = failures.iter().chain(reported.as_ref().err()).collect();
    match errors.iter().find(|error| !error.is_momentary()).or(errors.first()) {
        None => memory.succeeded(),
        Some(error) => {
            let wait = memory.back_off();
            // Facts that changed under a plan, and refusals that pass, are daily business; not for long, though.
            delay = delay.min(wait);
            if error.is_refusal() {
                delay = delay.min(AFTER_REFUSAL);
            } else if !error.is_momentary() || memory.failures > PATIENCE {
                delay = wait;
                let text = error.to_string();
                if memory.said.as_deref() != Some(&text) {
                    tracing::warn!(namespace = %key.namespace, cluster = %key.name, error = %text, "tried again in a moment");
                    memory.said = Some(text);
                }
            }
        }
    }
    if remember_failures(&mut memory, &failures) {
        delay = delay.min(MOMENT);
    }
    world.operator.metrics.pass(started.elapsed(), errors.is_empty());
    world.put_memory(key, memory);
    delay
}

/// What fails again and again is a fact for the next plan, which says so. True: there is nothing of it any more, which
/// is to be said, too.
fn remember_failures(memory: &mut Memory, failures: &[PassError]) -> bool {
    let before = std::mem::take(&mut memory.failed);
    if memory.failures > 1 {
        memory.failed = failures
            .iter()
            .filter(|error| !error.is_momentary() && !matches!(error, PassError::NotLeader(_)))
            .map(|error| error.to_string().chars().take(300).collect())
            .collect();
        memory.failed.sort();
        memory.failed.dedup();
    }
    memory.failed.is_empty() && !before.is_empty()
}

/// What became of a report.
enum Told {
    /// What there was to write is written.
    Now,
    /// It waits for so long: nothing in it is urgent, and something was written a moment ago.
    Later(Duration),
}

/// Writes the statuses where they differ.
async fn tell(
    world: &World,
    key: &ClusterKey,
    facts: &Facts,
    plan: &Plan,
    cluster: &crds::EtcdCluster,
    members: &std::collections::HashMap<String, std::sync::Arc<crds::EtcdMember>>,
    memory: &mut Memory,
) -> Result<Told, PassError> {
    let apis = Apis::new(&world.operator.client, &key.namespace);
    let view = View::new(facts);
    let old = cluster.status.clone().unwrap_or_default();
    let (new, told) = status::cluster(&view, plan, &old);
    let of_members: Vec<_> = view
        .members
        .iter()
        .filter(|member| !facts.cluster.ending || !member.fact.deleting)
        .filter_map(|member| {
            let object = members.get(&member.fact.name)?;
            let old = object.status.clone().unwrap_or_default();
            let generation = object.metadata.generation.unwrap_or(0);
            let new = member_status::member(&view, plan, member, generation, &old);
            Some((member.fact, old, new))
        })
        .collect();
    if old != new || of_members.iter().any(|(_, old, new)| old != new) {
        let urgent = status::is_urgent(&old, &new)
            || of_members
                .iter()
                .any(|(_, old, new)| member_status::is_urgent(old, new));
        let age = memory.told.map(|told| facts.now.duration_since(told));
        if let Some(age) = age.filter(|age| !urgent && *age < BETWEEN_WRITES) {
            return Ok(Told::Later((BETWEEN_WRITES - age).unsigned_abs()));
        }
        memory.told = Some(facts.now);
    }
    let of_cluster = async {
        let answer = report::write(
            &world.operator.lease,
            &apis.clusters,
            &key.name,
            &facts.cluster.uid,
            &old,
            &new,
            report::CLUSTER_RECORDS,
        )
        .await?;
        if let Some(item) = answer.and_then(cache::cluster) {
            world.cache.clusters.put(item);
        }
        events::of_conditions(world, cluster, &told);
        Ok(())
    };
    let of_members = join_all(of_members.iter().map(|(member, old, new)| {
        let (lease, api) = (&world.operator.lease, &apis.members);
        async move {
            let answer = report::write(lease, api, &member.name, &member.uid, old, new, report::MEMBER_RECORDS).await?;
            if let Some(item) = answer.and_then(cache::member) {
                world.cache.members.put(item);
            }
            Ok(())
        }
    }));
    let (cluster, members): (Result<(), PassError>, Vec<Result<(), PassError>>) =
        futures::join!(of_cluster, of_members);
    cluster?;
    members.into_iter().collect::<Result<(), PassError>>()?;
    Ok(Told::Now)
}

/// Members go first when a namespace ends, while their cluster still stands: then nothing is to be repaired (U17).
async fn notice_end_of_namespace(world: &World, key: &ClusterKey, facts: &mut Facts) -> Result<(), PassError> {
    let members_end = facts.members.iter().any(|member| member.deleting);
    if facts.cluster.ending || !members_end {
        return Ok(());
    }
    let apis = Apis::new(&world.operator.client, &key.namespace);
    let namespace = call("reading the namespace", apis.namespaces.get(&key.namespace)).await?;
    facts.cluster.ending = namespace.metadata.deletion_timestamp.is_some();
    Ok(())
}

/// Members of a former cluster of the same name, and members that nobody owns: they are not ours, and must not be held.
async fn release_former(world: &World, key: &ClusterKey, objects: &Objects) -> Option<Duration> {
    let uid = objects.cluster.uid().unwrap_or_default();
    let former: Vec<_> = world
        .cache
        .members
        .of(key)
        .into_iter()
        .filter(|member| resources::ownership(&member.value.metadata, &uid) != Ownership::Ours)
        .collect();
    release(world, key, former).await
}

/// The cluster object is not there: its members are let go, nothing else is done.
async fn gone(world: &World, key: &ClusterKey) -> Option<Duration> {
    let members = world.cache.members.of(key);
    for name in world.take_memory(key).linked {
        links::forget(world, &key.namespace, &name);
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
            return Some(RETRY_ENDING);
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
    failed.then_some(RETRY_ENDING)
}
