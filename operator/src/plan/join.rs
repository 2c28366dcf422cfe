//! Admitted members: bound to their directory, told to join, nudged until they serve.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    facts::{Binding, Id, MemberList},
    orders,
    report::{DirectoryState, ProcessState},
    step::{Order, Peer, Plan, Step, WaitReason},
    view::{MemberView, Standing, View},
};

/// Time between two writes that let a joiner publish itself.
const NUDGE_EVERY: SignedDuration = SignedDuration::from_millis(400);
/// The same, when they have not helped for ...
const NUDGE_SLOWLY: SignedDuration = SignedDuration::from_secs(10);
/// ... so long.
const NUDGE_PATIENCE: SignedDuration = SignedDuration::from_secs(30);
/// How long one joiner holds up the next.
const ENTRY: SignedDuration = SignedDuration::from_secs(5);
/// An order that has just been sent shows in the next report.
const JUST_SENT: SignedDuration = SignedDuration::from_millis(500);
/// Below this index a joiner publishes itself without help (etcd-facts §2: above 5,000).
const NUDGE_ABOVE: u64 = 4000;

/// Sends `Join` to the admitted members that wait for it, one after the other: a joiner asks each member of the list for
/// its version before it starts, and one that has its port open and does not answer yet holds it up for 7 s.
///
/// Not while more members are about to be admitted: the list in the order must be the list that the joiner finds
/// ("member count is unequal").
pub(super) fn send_joins(view: &View, list: &MemberList, plan: &mut Plan) {
    let mut entering = entering(view);
    for member in view.members.iter().filter(|member| !member.fact.deleting) {
        let (Standing::Unbound(id) | Standing::Joining(id)) = member.standing else {
            continue;
        };
        let name = member.fact.name.as_str();
        let Some(report) = member
            .fact
            .link
            .live()
            .filter(|report| report.directory.state == DirectoryState::Unborn)
        else {
            plan.wait(
                WaitReason::PodStarting,
                Some(name),
                format!("{name} is admitted; its agent is not heard"),
            );
            continue;
        };
        if let Some(other) = entering {
            plan.wait(
                WaitReason::EtcdStarting,
                Some(name),
                format!("{name} is admitted and starts after {other}"),
            );
            plan.look_again(Duration::from_secs(1));
            continue;
        }
        let Some(order) = order(view, list, id) else { continue };
        if orders::start_is_due(view.facts, member.fact, &order, plan) {
            let binding = Binding {
                id,
                nonce: report.directory.nonce.clone(),
            };
            plan.chain(orders::send(member.fact, Some(binding), order));
            entering = Some(&member.fact.name);
        } else {
            plan.wait(
                WaitReason::EtcdStarting,
                Some(name),
                format!("{name} is admitted and starting"),
            );
        }
    }
}

/// The member that is on its way in: the list that it has been told must stay what it is until it has looked.
pub(super) fn entering<'a>(view: &View<'a>) -> Option<&'a String> {
    let entering = view.members.iter().find(|member| is_entering(view, member));
    entering.map(|member| &member.fact.name)
}

/// It was told to join, and its etcd does not answer its peers yet. Not for ever: one that hangs must not keep others
/// out.
fn is_entering(view: &View, member: &MemberView) -> bool {
    if !matches!(member.standing, Standing::Joining(_) | Standing::Learner(_)) {
        return false;
    }
    let Some(report) = member.fact.link.live() else {
        return false;
    };
    let now = view.facts.now;
    match report.process.state {
        ProcessState::Starting => {
            // By the clock of another machine.
            let age = now
                .as_second()
                .saturating_sub(report.process.started_at)
                .saturating_abs();
            report.etcd.is_none() && age <= ENTRY.as_secs()
        }
        ProcessState::Held => {
            report.directory.state == DirectoryState::Unborn
                && member
                    .fact
                    .sent
                    .as_ref()
                    .is_some_and(|sent| now.duration_since(sent.at) < JUST_SENT)
        }
        ProcessState::Unspecified | ProcessState::Absent | ProcessState::Running | ProcessState::Stopped => false,
    }
}

fn order(view: &View, list: &MemberList, id: Id) -> Option<Order> {
    let record = &view.facts.cluster.record;
    Some(Order::Join {
        token: record.token.clone()?,
        incarnation: record.incarnation,
        member_id: id,
        cluster_id: record.cluster_id?,
        members: list.members.iter().map(|listed| peer(view, listed)).collect(),
        options: view.facts.cluster.spec.options.clone(),
    })
}

fn peer(view: &View, listed: &super::facts::Listed) -> Peer {
    let ours = view
        .members
        .iter()
        .find(|member| member.listed.is_some_and(|own| own.id == listed.id));
    let name = match ours {
        Some(member) if listed.name.is_empty() => member.fact.name.clone(),
        Some(_) | None => listed.name.clone(),
    };
    Peer {
        name,
        id: listed.id,
        peer_urls: listed.peer_urls.clone(),
    }
}

/// A joiner that got a snapshot while nobody writes loses its own announcement, and never serves until somebody
/// writes (M24).
pub(super) fn nudge(view: &View, via: &str, plan: &mut Plan) {
    let silent = view.members.iter().find(|member| waits_for_a_write(member));
    let Some(silent) = silent else { return };
    let index = view
        .leader()
        .and_then(|leader| leader.fact.link.live()?.etcd.as_ref().map(|etcd| etcd.commit));
    if index.is_some_and(|index| index < NUDGE_ABOVE) {
        return;
    }
    let name = silent.fact.name.as_str();
    plan.wait(
        WaitReason::EtcdStarting,
        Some(name),
        format!("etcd of {name} has joined and does not serve yet"),
    );
    let now = view.facts.now;
    let nudged = view.facts.nudged.as_ref().filter(|nudged| nudged.member == name);
    let every = match nudged {
        Some(nudged) if now.duration_since(nudged.since) >= NUDGE_PATIENCE => NUDGE_SLOWLY,
        Some(_) | None => NUDGE_EVERY,
    };
    let age = view.facts.nudged.as_ref().map(|nudged| now.duration_since(nudged.last));
    if age.is_none_or(|age| age >= every) {
        plan.step(Step::Nudge {
            via: via.to_owned(),
            member: name.to_owned(),
        });
    }
    plan.look_again(every.unsigned_abs());
}

fn waits_for_a_write(member: &MemberView) -> bool {
    matches!(member.standing, Standing::Learner(_))
        && member.fact.link.live().is_some_and(|report| {
            // "Running" too: such a joiner answers on its metrics port long before it serves clients.
            matches!(report.process.state, ProcessState::Starting | ProcessState::Running)
                && report.directory.state == DirectoryState::InUse
                && !report.etcd.as_ref().is_some_and(|etcd| etcd.serving)
        })
}
