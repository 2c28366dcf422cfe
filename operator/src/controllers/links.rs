//! The links to the agents of a cluster: kept as its Pods are, and read as facts.

use std::time::Duration;

use crds::{EtcdCluster, EtcdMember};
use jiff::Timestamp;
use kube::ResourceExt;
use proto::agent::Directive;

use super::{
    World,
    error::PassError,
    mirror::{ClusterKey, Item},
};
use crate::{
    agents::{LinkState, MemberKey, Target},
    plan::{
        facts::{Id, Link, PodFact},
        report::Report,
    },
};

/// Longest wait for an agent's answer to an order.
const ORDER_DEADLINE: Duration = Duration::from_secs(2);
/// Longest wait for a fresh report.
const STATUS_DEADLINE: Duration = Duration::from_secs(1);

/// Keeps the link of one member, and says how it is.
pub(super) fn fact(
    world: &World,
    cluster: &ClusterKey,
    object: &EtcdCluster,
    member: &Item<EtcdMember>,
    pod: &PodFact,
) -> Link {
    let key = MemberKey {
        namespace: cluster.namespace.clone(),
        name: member.name.clone(),
    };
    let links = &world.operator.links;
    let target = pod.ours().filter(|pod| pod.has_agent && !pod.ended).and_then(|pod| {
        Some(Target {
            cluster: cluster.name.clone(),
            cluster_uid: object.uid().unwrap_or_default(),
            pod_uid: pod.uid.clone(),
            pod_ip: pod.ip.as_deref()?.parse().ok()?,
            port: proto::pod::AGENT_GRPC_PORT,
        })
    });
    match target {
        Some(target) => links.ensure(key.clone(), target),
        None => links.forget(&key),
    }
    match links.snapshot(&key) {
        LinkState::None => Link::None,
        LinkState::Down { since, cause, last } => Link::Down {
            since,
            why: cause.map_or_else(|| "it is being dialled".to_owned(), |cause| cause.to_string()),
            last: last.map(|received| (Box::new(Report::from(&*received.report)), received.at)),
        },
        LinkState::Connected { last, .. } => Link::Up {
            report: Box::new(Report::from(&*last.report)),
            at: last.at,
        },
    }
}

/// Ends the links of members that are gone.
pub(super) fn forget(world: &World, namespace: &str, member: &str) {
    world.operator.links.forget(&MemberKey {
        namespace: namespace.to_owned(),
        name: member.to_owned(),
    });
}

/// Since when the first of these members has known no leader.
pub(super) fn leaderless_since<'m>(
    world: &World,
    namespace: &str,
    members: impl Iterator<Item = &'m str>,
) -> Option<Timestamp> {
    let since = |member: &str| {
        world.operator.links.leaderless_since(&MemberKey {
            namespace: namespace.to_owned(),
            name: member.to_owned(),
        })
    };
    members.filter_map(since).min()
}

/// A report, read now.
pub(super) async fn status(world: &World, member: &MemberKey) -> Result<(Report, Timestamp), PassError> {
    let received = world.operator.links.status(member, STATUS_DEADLINE).await?;
    Ok((Report::from(&*received.report), received.at))
}

/// Asks the agent of the leader to hand leadership to the voter with that ID.
pub(super) async fn move_leader(
    world: &World,
    namespace: &str,
    leader: &str,
    to: Id,
    deadline: Duration,
) -> Result<(), PassError> {
    let key = MemberKey {
        namespace: namespace.to_owned(),
        name: leader.to_owned(),
    };
    let to = etcd::MemberId(to.0);
    Ok(world.operator.links.move_leader(&key, to, deadline).await?)
}

/// Sends an order; `Ok`: the agent has recorded it.
pub(super) async fn direct(
    world: &World,
    namespace: &str,
    member: &str,
    directive: Directive,
) -> Result<(), PassError> {
    let key = MemberKey {
        namespace: namespace.to_owned(),
        name: member.to_owned(),
    };
    // Another's turn must not have begun when the agent takes it.
    world
        .operator
        .lease
        .check(ORDER_DEADLINE + Duration::from_millis(500))?;
    world.operator.links.direct(&key, directive, ORDER_DEADLINE).await?;
    Ok(())
}
