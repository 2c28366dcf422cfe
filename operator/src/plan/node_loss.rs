//! Members whose place is gone: their node is dead, their volume cannot be had any more, or a person wants another one
//! (operator.md, "dead node", "volume that will not attach or mount, PVC lost").
//!
//! etcd forgets such a member first, which fences it; then its object goes, and a new one with another name takes its
//! place elsewhere. Nothing is ever deleted by force: the old object stays until its Pod is gone.

use jiff::Timestamp;

use super::{
    facts::{Medium, PodFact},
    place::{Node, Volume},
    repair,
    step::{Plan, Step, WaitReason},
    unanswered,
    view::{MemberView, View},
};

/// What is to become of a member, as far as its place goes.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing is wrong.
    Fine,
    /// It may come back by itself.
    Waits {
        /// What was seen.
        why: String,
        /// It is given up then; `None`: a person has to act.
        until: Option<Timestamp>,
    },
    /// A new member takes its place.
    GivenUp {
        /// What was seen.
        why: String,
    },
}

/// Replaces members that are given up, one at a time. True: a consensus step is in the plan.
pub(super) fn replace(view: &View, plan: &mut Plan) -> bool {
    let now = view.facts.now;
    for member in view.staying() {
        let name = member.fact.name.as_str();
        // Nobody tells when a Pod has not ended in time.
        let ends = member.fact.place.ends.map(|ends| ends.duration_since(now));
        if let Some(left) = ends.filter(jiff::SignedDuration::is_positive) {
            plan.look_again(left.unsigned_abs());
        }
        match verdict(view, member) {
            Verdict::Fine => {}
            Verdict::Waits { why, until } => {
                let left = until.map(|until| until.duration_since(now));
                if let Some(left) = left.and_then(|left| std::time::Duration::try_from(left).ok()) {
                    plan.look_again(left);
                }
                plan.wait(WaitReason::NodeLost, Some(name), why);
            }
            Verdict::GivenUp { why } => match member.listed {
                Some(listed) => {
                    if repair::remove(view, name, listed.id, &why, plan) {
                        return true;
                    }
                }
                None if unanswered::may_add(view, member) => {}
                None => plan.step(Step::DeleteMember {
                    member: name.to_owned(),
                    uid: member.fact.uid.clone(),
                }),
            },
        }
    }
    false
}

/// Before a cluster is formed nothing is in any directory, so nothing has to be forgotten first.
pub(super) fn replace_unformed(view: &View, plan: &mut Plan) {
    for member in view.staying() {
        let name = member.fact.name.as_str();
        match verdict(view, member) {
            Verdict::Fine => {}
            Verdict::Waits { why, .. } => plan.wait(WaitReason::NodeLost, Some(name), why),
            Verdict::GivenUp { .. } => plan.step(Step::DeleteMember {
                member: name.to_owned(),
                uid: member.fact.uid.clone(),
            }),
        }
    }
}

/// The object of a member that etcd has forgotten waits for the end of its Pod, which a dead node cannot tell. True: it
/// waits.
pub(super) fn holds(member: &MemberView, plan: &mut Plan) -> bool {
    let fact = member.fact;
    let PodFact::Ours(pod) = &fact.pod else { return false };
    let lost = fact.place.node.lost_since().is_some();
    if !(pod.deleting || lost) {
        return false;
    }
    if !pod.deleting {
        plan.step(Step::DeletePod {
            member: fact.name.clone(),
            uid: pod.uid.clone(),
        });
    }
    let node = pod.node.as_deref().unwrap_or("no node");
    plan.wait(
        WaitReason::Ending,
        Some(&fact.name),
        format!(
            "{} is no member any more; its object goes when its Pod is gone from {node}",
            fact.name
        ),
    );
    true
}

/// What is left of a member that was replaced: nobody waits for it.
#[must_use]
pub(super) fn is_left_over(member: &MemberView) -> bool {
    member.fact.deleting
        && member.listed.is_none()
        && member.fact.pod.ours().is_some()
        && member.fact.place.node.lost_since().is_some()
}

fn verdict(view: &View, member: &MemberView) -> Verdict {
    let fact = member.fact;
    let name = &fact.name;
    if fact.place.replace {
        return Verdict::GivenUp {
            why: "another volume is asked for by its annotation".into(),
        };
    }
    // Whatever Kubernetes makes of its node: it serves.
    if member.healthy() {
        return Verdict::Fine;
    }
    let disk = view.facts.cluster.spec.medium == Medium::Disk;
    let patience = view.facts.cluster.spec.node_loss;
    let given_up_after = |since: Timestamp, why: String| {
        let until = since + patience;
        if view.facts.now >= until {
            Verdict::GivenUp { why }
        } else {
            Verdict::Waits {
                why: format!("{why}; a new member takes its place at {until:.0}"),
                until: Some(until),
            }
        }
    };
    if let Volume::Gone { since } = fact.place.volume {
        return given_up_after(since, format!("the volume of {name} is lost"));
    }
    let Some((since, why)) = trouble(view, member) else {
        return unprepared(disk, member, given_up_after);
    };
    match fact.place.volume {
        _ if !disk => given_up_after(since, why),
        Volume::Stranded => given_up_after(since, format!("{why}, and no node that is ready can have its volume")),
        // Kubernetes waits for a person, too: only a person knows that nothing on that node writes any more.
        Volume::Movable => Verdict::Waits {
            why: format!(
                "{why}; its volume can be used elsewhere once the node is back, or tainted node.kubernetes.io/out-of-service"
            ),
            until: None,
        },
        Volume::Unknown | Volume::Gone { .. } => Verdict::Waits { why, until: None },
    }
}

/// Since when its Pod has no place to run, and what that looks like.
fn trouble(view: &View, member: &MemberView) -> Option<(Timestamp, String)> {
    let fact = member.fact;
    let name = &fact.name;
    let node = fact.pod.ours().and_then(|pod| pod.node.as_deref()).unwrap_or_default();
    let lost = fact.place.node.lost_since().map(|since| {
        let what = match fact.place.node {
            Node::Gone { .. } => "does not exist",
            Node::OutOfService { .. } => "is out of service",
            Node::Unknown | Node::Ready | Node::Lost { .. } => "is not ready",
        };
        (since, format!("node {node} of {name} {what} since {since:.0}"))
    });
    let ends = fact
        .place
        .ends
        .filter(|ends| *ends <= view.facts.now)
        .map(|ends| (ends, format!("Pod {name} was to end by {ends:.0} and has not")));
    let unplaced = fact
        .place
        .unplaced
        .map(|since| (since, format!("no node takes Pod {name} since {since:.0}")));
    // What explains the rest comes first.
    lost.or(ends).or(unplaced)
}

/// Its Pod has a node and does not get as far as its containers: of all that can be the reason, only a volume is worth
/// another one.
fn unprepared(disk: bool, member: &MemberView, given_up_after: impl Fn(Timestamp, String) -> Verdict) -> Verdict {
    let fact = member.fact;
    match fact.place.unprepared.filter(|_| disk) {
        Some(since) => given_up_after(
            since,
            format!(
                "Pod {} cannot be set up on its node since {since:.0}: its volume does not attach or mount, or it gets no network",
                fact.name
            ),
        ),
        None => Verdict::Fine,
    }
}
