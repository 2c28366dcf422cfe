//! What is left of older histories is kept from serving, and a fence that nobody needs any more is lifted.

use super::super::{
    facts::Member,
    orders,
    report::{DirectoryState, Report},
    step::Step,
    step::{Order, Plan},
    view::View,
};
use super::proofs;

/// Fences every member that is heard.
pub(super) fn fence_all(view: &View, recovery: &str, plan: &mut Plan) {
    let order = Order::Fence {
        incarnation: view.facts.cluster.record.incarnation,
        reason: format!("recovery {recovery}: the quorum is lost"),
    };
    for member in &view.members {
        let Some(report) = member.fact.link.live() else {
            continue;
        };
        if !proofs::is_fenced(report) {
            send(view, member.fact, &order, plan);
        }
    }
}

/// On every pass, also when no recovery is under way.
pub(super) fn keep(view: &View, plan: &mut Plan) {
    let present = view.facts.cluster.record.incarnation;
    let recovering = view.facts.recoveries.iter().any(|recovery| !recovery.ended);
    for member in &view.members {
        let Some(report) = member.fact.link.live() else {
            continue;
        };
        let given_up = is_older(report, present);
        // An old majority that comes back finds a quorum among itself (D20).
        if given_up && !report.directory.fenced {
            let order = Order::Fence {
                incarnation: present,
                reason: "its data are of a history that was given up".to_owned(),
            };
            send(view, member.fact, &order, plan);
        }
        if report.directory.fence_ordered && !given_up && !recovering {
            send(view, member.fact, &Order::Lift { incarnation: present }, plan);
        }
        let Some(pod) = member.fact.pod.ours().filter(|pod| !pod.deleting) else {
            continue;
        };
        if !pod.cluster_label && !given_up && report.directory.state != DirectoryState::Foreign {
            plan.step(Step::ShowPod {
                member: member.fact.name.clone(),
                uid: pod.uid.clone(),
                shown: true,
            });
        }
    }
}

/// Its data are of a history before this one.
fn is_older(report: &Report, present: u64) -> bool {
    report
        .directory
        .identity
        .as_ref()
        .is_some_and(|identity| identity.incarnation < present)
}

fn send(view: &View, member: &Member, order: &Order, plan: &mut Plan) {
    if orders::not_just_sent(view.facts, member, order, plan) {
        plan.chain(orders::send(member, None, order.clone()));
    }
}
