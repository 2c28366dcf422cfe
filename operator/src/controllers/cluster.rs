//! One pass over one cluster: observe, plan, execute, report.

use std::{
    collections::BTreeSet,
    sync::Mutex,
    time::{Duration, Instant},
};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;

use super::{
    World,
    api::Apis,
    backoff::{self, Failing, PATIENCE},
    cache, ending,
    error::PassError,
    events,
    execute::{Executor, Failure, Outcome},
    hashes, links,
    memory::{Memory, with},
    mirror::ClusterKey,
    observe::{self, Objects},
    place, remote, report,
};
use crate::{
    metrics::ClusterState,
    plan::{
        self,
        facts::{Facts, Link, Member},
        member_status,
        quorum::{self, Quorum},
        status,
        step::{Plan, Step},
        view::View,
    },
};

/// A look without any reason: everything that matters wakes a cluster by itself.
pub(super) const SAFETY_NET: Duration = Duration::from_mins(5);
/// After this many passes in a row that did something, the next one waits: a defect must not load the API server.
const BUSY: u32 = 60;
/// How long it waits then.
const AFTER_BUSY: Duration = Duration::from_secs(2);
/// Until time tells more, or until facts that have just changed are read again.
const MOMENT: Duration = Duration::from_millis(500);
/// A membership call that etcd refused is made again after this at the latest: it refuses some for 5 s and no longer.
const AFTER_REFUSAL: Duration = Duration::from_millis(400);
/// Between two writes of statuses in which nothing is urgent: an agent that reports without end is not passed on.
const BETWEEN_WRITES: SignedDuration = SignedDuration::from_millis(1500);
/// Between two looks at a cluster whose quorum has been lost for a while.
const WITHOUT_QUORUM: Duration = Duration::from_secs(10);
/// A refusal that lasts longer than etcd's own reasons do is asked about less often.
const REFUSED_FOR_LONG: SignedDuration = SignedDuration::from_secs(10);
/// So often.
const AFTER_MANY_REFUSALS: Duration = Duration::from_secs(2);
/// Between two passes, when a step that failed is due any moment.
const LEAST: Duration = Duration::from_millis(20);
/// Between two looks at what an agent that is not heard needs.
const UNHEARD: Duration = Duration::from_secs(10);

/// Looks at one cluster; says after how long it is to be looked at again at the latest.
pub(super) async fn pass(world: &World, key: &ClusterKey) -> Option<Duration> {
    match world.cache.clusters.get(key, &key.name) {
        Some(cluster) => {
            let objects = Objects::read(&world.cache, key, cluster);
            let mut delay = ending::release_former(world, key, &objects).await;
            let ours = living(world, key, objects).await;
            delay = Some(delay.map_or(ours, |former| former.min(ours)));
            delay
        }
        None => ending::gone(world, key).await,
    }
}

/// The cluster object is there.
async fn living(world: &World, key: &ClusterKey, objects: Objects) -> Duration {
    let started = Instant::now();
    let memory = world.memory(key);
    let (mut facts, ends) = with(&memory, |memory| {
        forget_former(world, key, &objects, memory);
        let mut facts = observe::local(world, key, &objects, memory, world.now());
        hashes::note(memory, &mut facts);
        let lacked = std::mem::replace(&mut memory.lacked, facts.missing_verbs.len());
        if facts.missing_verbs.len() < lacked {
            // What was refused for want of a permission need not wait any longer.
            memory.failing = Failing::default();
        }
        (facts, std::mem::take(&mut memory.namespace_ends))
    });
    if let Err(error) = ending::notice_end_of_namespace(world, key, &mut facts, ends).await {
        tracing::debug!(cluster = %key, %error, "the namespace could not be read");
    }
    place::volumes(world, key, &memory, &mut facts).await;
    remote::read(world, &mut facts).await;
    facts.unproven_since = unproven_since(world, key, &facts, &memory);
    let mut plan = plan::plan(&facts);
    if plan.has_consensus_step() {
        remote::confirm(world, &mut facts).await;
        plan = plan::plan(&facts);
    }
    let outcome = Executor::new(world, key, &facts, &objects, &memory).run(&plan).await;
    finish(world, key, started, &facts, &plan, outcome, &memory).await
}

/// Since when no voter has proven a quorum. Whoever knows no leader has proven none since it has missed one; the others
/// may have fallen silent then, which takes its time to be found out.
fn unproven_since(world: &World, key: &ClusterKey, facts: &Facts, memory: &Mutex<Memory>) -> Option<Timestamp> {
    let view = View::new(facts);
    let since = if quorum::proven(&view) || facts.cluster.record.cluster_id.is_none() {
        None
    } else {
        let voters = view.members.iter().filter(|member| member.is_voter());
        let names = voters.map(|member| member.fact.name.as_str());
        let missed = links::leaderless_since(world, &key.namespace, names);
        let before = with(memory, |memory| memory.unproven_since);
        before.into_iter().chain(missed).min().or(Some(facts.now))
    };
    with(memory, |memory| {
        memory.unproven_since = since;
        if since.is_none() {
            memory.seen = observe::seen(facts).or(memory.seen);
        }
    });
    since
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
    memory.lost_volumes.retain(|uid, _| uids.contains(&uid.as_str()));
    if memory.volumes.len() > 2 * uids.len() {
        // Mostly of members that are gone.
        memory.volumes.clear();
    }
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
    memory: &Mutex<Memory>,
) -> Duration {
    let Outcome {
        done,
        failures,
        cluster,
        members,
    } = outcome;
    events::of_steps(world, &cluster, memory, &done);
    let acted = done.iter().any(|step| !matches!(step, Step::Nudge { .. }));
    let busy = with(memory, |memory| {
        memory.failing.keep(plan);
        memory.namespace_ends = failures.iter().any(|failure| failure.error.is_end_of_namespace());
        memory.busy = if acted { memory.busy.saturating_add(1) } else { 0 };
        memory.busy
    });
    log_failures(key, facts, &failures, memory);
    measure(world, key, facts, plan, &members);
    // The next pass follows at once and reports what the steps have led to; reporting in between would only delay it.
    // So does one after a failure that passes by itself: what is to be reported is known only then.
    let passing = !failures.is_empty()
        && failures
            .iter()
            .all(|failure| failure.error.is_momentary() && failure.times <= PATIENCE);
    let hurry = passing || (acted && failures.is_empty() && busy % 4 != 0);
    let mut delay = plan.again.unwrap_or(SAFETY_NET).min(SAFETY_NET);
    let reported = if hurry {
        true
    } else {
        match tell(world, key, facts, plan, &cluster, &members, memory).await {
            Ok(told) => {
                if let Told::Later(left) = told {
                    delay = delay.min(left);
                }
                with(memory, Memory::succeeded);
                true
            }
            Err(error) => {
                delay = delay.min(report_failed(world, key, &error, memory));
                false
            }
        }
    };
    if let Some(since) = facts.unproven_since {
        // Time itself changes what is known of the quorum.
        let settled = facts.now.duration_since(since) > SignedDuration::from_secs(15);
        delay = delay.min(if settled { WITHOUT_QUORUM } else { MOMENT });
    }
    if acted {
        delay = if busy > BUSY { AFTER_BUSY } else { Duration::ZERO };
    }
    delay = failures
        .iter()
        .fold(delay, |delay, failure| delay.min(again_after(facts, failure)));
    let now = world.now();
    let due = with(memory, |memory| {
        // Something that was said to fail does not any more, and that is to be said, too.
        let better = !facts.failed.is_empty() && memory.failing.words() != facts.failed;
        memory
            .failing
            .due(facts.now, now)
            .into_iter()
            .chain(better.then_some(MOMENT))
            .min()
    });
    delay = due.map_or(delay, |due| delay.min(due.max(LEAST)));
    if facts.members.iter().any(is_unheard) {
        delay = delay.min(UNHEARD);
    }
    world
        .operator
        .metrics
        .pass(started.elapsed(), failures.is_empty() && reported);
    delay
}

/// What the metrics say of the cluster.
fn measure(
    world: &World,
    key: &ClusterKey,
    facts: &Facts,
    plan: &Plan,
    members: &std::collections::HashMap<String, std::sync::Arc<crds::EtcdMember>>,
) {
    let view = View::new(facts);
    let unheard = |member: &Member| match &member.link {
        Link::Down { since, last, .. } => Some(last.as_ref().map_or(*since, |(_, at)| *at)),
        Link::Up { .. } | Link::None => None,
    };
    let kills = |member: &crds::EtcdMember| member.status.as_ref()?.exit.as_ref().map(|exit| exit.oom_kills);
    let state = ClusterState {
        voters: view.voters(),
        healthy: view.healthy_voters(),
        has_quorum: match quorum::judge(&view) {
            Quorum::Healthy | Quorum::Serving { .. } => Some(true),
            Quorum::NotFormed | Quorum::Lost { .. } | Quorum::AllLost | Quorum::Unreachable => Some(false),
            Quorum::Undecided => None,
        },
        target: view.target(),
        oom_kills: members
            .values()
            .filter_map(|member| u64::try_from(kills(member)?).ok())
            .sum(),
        unheard_since: facts.members.iter().filter_map(unheard).min(),
        waits: plan.waits.iter().map(|wait| wait.reason.as_str()).collect(),
    };
    world.operator.metrics.cluster(metrics_key(key), facts.now, state);
}

pub(super) fn metrics_key(key: &ClusterKey) -> crate::agents::ClusterKey {
    crate::agents::ClusterKey {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

/// Nothing tells when an agent that never came up could: what it needs is looked at again.
fn is_unheard(member: &Member) -> bool {
    member
        .pod
        .ours()
        .is_some_and(|pod| pod.has_agent && !pod.ended && !pod.deleting)
        && member.link.live().is_none()
}

fn log_failures(key: &ClusterKey, facts: &Facts, failures: &[Failure], memory: &Mutex<Memory>) {
    // Refusals are daily business; not for long, though, and then one line is worth it.
    let lasting = refused_for_long(facts) && {
        let since = facts.refusal.as_ref().map(|refusal| refusal.since);
        with(memory, |memory| std::mem::replace(&mut memory.refusal_said, since)) != since
    };
    for failure in failures
        .iter()
        .filter(|failure| failure.tell || (lasting && failure.error.is_refusal()))
    {
        tracing::warn!(namespace = %key.namespace, cluster = %key.name, error = %failure.error, "tried again in a moment");
    }
}

/// When a step that failed is worth another look at the latest.
fn again_after(facts: &Facts, failure: &Failure) -> Duration {
    let error = &failure.error;
    if error.is_end_of_namespace() {
        return ending::RETRY;
    }
    if !error.is_refusal() {
        return backoff::wait(failure.times);
    }
    if error.is_refusal_that_stays() || refused_for_long(facts) {
        AFTER_MANY_REFUSALS
    } else {
        AFTER_REFUSAL
    }
}

fn refused_for_long(facts: &Facts) -> bool {
    let lasts = |since| facts.now.duration_since(since);
    facts
        .refusal
        .as_ref()
        .is_some_and(|refusal| lasts(refusal.since) > REFUSED_FOR_LONG)
}

/// A status could not be written: says how long to wait.
fn report_failed(world: &World, key: &ClusterKey, error: &PassError, memory: &Mutex<Memory>) -> Duration {
    world.operator.metrics.error(error.class());
    let text = error.to_string();
    with(memory, |memory| {
        let wait = memory.back_off();
        let quiet = matches!(error, PassError::NotLeader(_)) || error.is_momentary();
        if !quiet && memory.said.as_deref() != Some(&text) {
            tracing::warn!(namespace = %key.namespace, cluster = %key.name, error = %text, "tried again in a moment");
            memory.said = Some(text);
        }
        wait
    })
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
    memory: &Mutex<Memory>,
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
            let mut new = member_status::member(&view, plan, member, generation, &old);
            let pod = world.cache.pods.get(key, &member.fact.name);
            if let Some(kill) = pod.and_then(|pod| pod.out_of_memory) {
                member_status::explain(&mut new, &old, kill.at);
            }
            Some((member.fact, old, new))
        })
        .collect();
    if old != new || of_members.iter().any(|(_, old, new)| old != new) {
        if let Some(left) = view.only_dialling().filter(|_| !facts.cluster.ending) {
            return Ok(Told::Later(left));
        }
        let urgent = status::is_urgent(&old, &new)
            || of_members
                .iter()
                .any(|(_, old, new)| member_status::is_urgent(old, new));
        let age = with(memory, |memory| memory.told).map(|told| facts.now.duration_since(told));
        if let Some(age) = age.filter(|age| !urgent && *age < BETWEEN_WRITES) {
            return Ok(Told::Later((BETWEEN_WRITES - age).unsigned_abs()));
        }
        with(memory, |memory| memory.told = Some(facts.now));
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
        events::of_conditions(world, cluster, memory, &told);
        Ok(())
    };
    let of_members = join_all(of_members.iter().map(|(member, old, new)| {
        let (lease, api) = (&world.operator.lease, &apis.members);
        async move {
            let answer = report::write(lease, api, &member.name, &member.uid, old, new, report::MEMBER_RECORDS).await?;
            if let Some(item) = answer.and_then(cache::member) {
                world.cache.members.put(item);
            }
            let kills = |status: &crds::EtcdMemberStatus| status.exit.as_ref().map_or(0, |exit| exit.oom_kills);
            if kills(new) > kills(old) {
                events::of_kill(world, cluster, &member.name, kills(new));
            }
            Ok(())
        }
    }));
    let (told_cluster, told_members, recoveries): (Result<(), PassError>, Vec<Result<(), PassError>>, _) = futures::join!(
        of_cluster,
        of_members,
        Box::pin(tell_recoveries(world, key, &view, cluster, memory))
    );
    told_cluster?;
    recoveries?;
    told_members.into_iter().collect::<Result<(), PassError>>()?;
    // What somebody else has changed while this pass went on came with the answers, and is no news of the watch any more.
    let cluster_edited = world
        .cache
        .clusters
        .get(key, &key.name)
        .is_some_and(|now| is_edited(&cluster.metadata, &now.metadata));
    let member_edited = members.iter().any(|(name, before)| {
        world
            .cache
            .members
            .get(key, name)
            .is_some_and(|now| is_edited(&before.metadata, &now.metadata))
    });
    Ok(if cluster_edited || member_edited {
        Told::Later(Duration::ZERO)
    } else {
        Told::Now
    })
}

/// Something but the status is different: the spec, or what people and other controllers write into metadata.
fn is_edited(before: &ObjectMeta, now: &ObjectMeta) -> bool {
    before.generation != now.generation
        || before.annotations != now.annotations
        || before.labels != now.labels
        || before.finalizers != now.finalizers
        || before.deletion_timestamp != now.deletion_timestamp
}

/// The statuses of the cluster's recoveries, where they differ.
async fn tell_recoveries(
    world: &World,
    key: &ClusterKey,
    view: &View<'_>,
    cluster: &crds::EtcdCluster,
    memory: &Mutex<Memory>,
) -> Result<(), PassError> {
    let apis = Apis::new(&world.operator.client, &key.namespace);
    for fact in &view.facts.recoveries {
        let Some(object) = world.cache.recoveries.get(key, &fact.name) else {
            continue;
        };
        let old = object.status.clone().unwrap_or_default();
        let generation = object.metadata.generation.unwrap_or(0);
        let (new, event) = plan::recovery::report::of_recovery(view, fact, generation, &old);
        let answer = report::write(
            &world.operator.lease,
            &apis.recoveries,
            &fact.name,
            &fact.uid,
            &old,
            &new,
            report::RECOVERY_RECORDS,
        )
        .await?;
        if let Some(item) = answer.and_then(cache::recovery) {
            world.cache.recoveries.put(item);
        }
        events::of_conditions(world, cluster, memory, event.as_slice());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_that_came_with_the_answer_to_a_status_write_is_seen_and_the_write_itself_is_none() {
        let before = ObjectMeta {
            generation: Some(1),
            resource_version: Some("7".into()),
            ..ObjectMeta::default()
        };
        let written = ObjectMeta {
            resource_version: Some("8".into()),
            ..before.clone()
        };
        assert!(!is_edited(&before, &written));
        let edited = ObjectMeta {
            generation: Some(2),
            ..written.clone()
        };
        assert!(is_edited(&before, &edited));
        let annotated = ObjectMeta {
            annotations: Some([("a".to_owned(), "b".to_owned())].into()),
            ..written
        };
        assert!(is_edited(&before, &annotated));
    }
}
