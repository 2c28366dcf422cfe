//! Broken members: their ID leaves, their directory is set aside, and they come back as learners.

use std::time::Duration;

use super::{
    choices, divergence,
    facts::{Id, MemberList},
    orders,
    step::{Order, Plan, Step, WaitReason},
    view::{Standing, View},
};

/// Until what was deleted together has been seen together.
const MOMENT: Duration = Duration::from_millis(500);

/// Removes the ID of one member whose data are gone or wrong, or which is being deleted. True: a consensus step is in the plan.
pub(super) fn remove_broken(view: &View, plan: &mut Plan) -> bool {
    for member in &view.members {
        let name = member.fact.name.as_str();
        let (id, what) = match (&member.standing, member.listed) {
            (Standing::Lost(id), _) => (*id, "its data are gone"),
            (Standing::Damaged(id), _) => (*id, "its data are damaged"),
            (_, Some(_)) if member.fact.deleted_just_now => {
                plan.look_again(MOMENT);
                continue;
            }
            (_, Some(listed)) if member.fact.deleting => (listed.id, "its object is being deleted"),
            (_, Some(listed)) if divergence::is_in_minority(view, member) => {
                (listed.id, "it holds other data than the majority")
            }
            _ => continue,
        };
        if remove(view, name, id, what, plan) {
            return true;
        }
    }
    orphans(view, plan)
}

/// Members of ours in etcd's list whose objects are gone.
fn orphans(view: &View, plan: &mut Plan) -> bool {
    for stranger in view.strangers().filter(|listed| view.is_orphan(listed)) {
        if remove(view, "", stranger.id, "it has no object any more", plan) {
            return true;
        }
    }
    false
}

/// One removal, if a quorum stands without that member.
pub(super) fn remove(view: &View, name: &str, id: Id, what: &str, plan: &mut Plan) -> bool {
    let subject = if name.is_empty() {
        id.to_string()
    } else {
        format!("{name} ({id})")
    };
    let stands = view.healthy_voters() >= view.needed() && view.stands_without(id);
    let leads = view.leader().is_some_and(|leader| leader.listed_id() == Some(id));
    let others = view.via_other_than(name);
    match others.filter(|_| stands) {
        None => {
            plan.wait(
                WaitReason::Quorum,
                Some(name).filter(|name| !name.is_empty()),
                format!("{subject}: {what}; no quorum stands without it, so nothing is removed"),
            );
            false
        }
        Some(_) if leads => {
            let Some((heir, heir_id)) = choices::heir(view, name) else {
                return false;
            };
            plan.step(Step::MoveLeader {
                via: name.to_owned(),
                member: heir.to_owned(),
                id: heir_id,
            });
            true
        }
        Some(other) => {
            let via = view.via().filter(|via| *via != name).unwrap_or(other);
            plan.step(Step::Remove {
                via: via.to_owned(),
                member: name.to_owned(),
                id,
            });
            true
        }
    }
}

/// Directories of members that etcd lists no longer: set aside, so that the member can come back.
pub(super) fn quarantine(view: &View, list: &MemberList, plan: &mut Plan) {
    for member in view.members.iter().filter(|member| !member.fact.deleting) {
        let name = member.fact.name.as_str();
        match &member.standing {
            // One too many: it goes, with its directory.
            Standing::Removed(_) if view.staying().count() > view.target() => {}
            Standing::Removed(id) if list.members.iter().all(|listed| listed.id != *id) => {
                let order = Order::Quarantine {
                    incarnation: view.facts.cluster.record.incarnation,
                    removed: *id,
                };
                plan.wait(
                    WaitReason::DataDirectory,
                    Some(name),
                    format!("etcd no longer lists {id}: the directory of {name} is set aside and filled again"),
                );
                if member.fact.link.live().is_some() && orders::not_just_sent(view.facts, member.fact, &order, plan) {
                    plan.chain(orders::send(member.fact, None, order));
                }
            }
            Standing::Foreign | Standing::Unreadable => held(view, member.fact, plan),
            Standing::Removed(_)
            | Standing::Unknown
            | Standing::Voter(_)
            | Standing::Learner(_)
            | Standing::Unbound(_)
            | Standing::Joining(_)
            | Standing::Lost(_)
            | Standing::Damaged(_)
            | Standing::Ready(_)
            | Standing::Absent => {}
        }
    }
}

fn held(view: &View, member: &super::facts::Member, plan: &mut Plan) {
    let Some(report) = member.link.live() else { return };
    let directory = &report.directory;
    let answers_for = report.etcd.as_ref().map(|etcd| etcd.cluster_id);
    if let Some(other) = answers_for.filter(|id| view.facts.cluster.cluster_differs(Some(*id))) {
        plan.wait(
            WaitReason::DataDirectory,
            Some(&member.name),
            format!("etcd of {} answers for cluster {other}, not for this one: it is not counted, and nothing of it is touched", member.name),
        );
        return;
    }
    plan.wait(
        WaitReason::DataDirectory,
        Some(&member.name),
        format!(
            "the directory of {} is {}: {}; nothing is touched",
            member.name,
            directory.state.as_str(),
            directory.detail
        ),
    );
}
