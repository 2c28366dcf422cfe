//! Orders to agents: which number, and whether one is due.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    facts::{Binding, Facts, Member},
    report::ProcessState,
    step::{Order, Plan, Step},
};

/// An accepted order that shows no effect is sent again after this.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// A start order that must be changed (the member list has) waits this long for the effect of the last one.
const CHANGED: SignedDuration = SignedDuration::from_millis(500);

/// The number for the next directive: above all that the agent has accepted and all that were recorded.
pub(super) fn next_number(member: &Member) -> u64 {
    member
        .record
        .directive
        .max(member.link.live().map_or(0, |report| report.directive))
        .saturating_add(1)
}

/// May a start order be sent now? The supervisor waits for one, and the same order was not sent a moment ago.
pub(super) fn start_is_due(facts: &Facts, member: &Member, order: &Order, plan: &mut Plan) -> bool {
    let Some(report) = member.link.live() else { return false };
    match report.process.state {
        ProcessState::Held | ProcessState::Stopped => not_just_sent(facts, member, order, plan),
        ProcessState::Unspecified | ProcessState::Absent | ProcessState::Starting | ProcessState::Running => false,
    }
}

/// Was the same order not sent within the last moments?
pub(super) fn not_just_sent(facts: &Facts, member: &Member, order: &Order, plan: &mut Plan) -> bool {
    let Some(sent) = &member.sent else { return true };
    let patience = if sent.order == *order { AGAIN } else { CHANGED };
    let age = facts.now.duration_since(sent.at);
    if age < patience {
        plan.look_again(Duration::try_from(patience - age).unwrap_or(Duration::ZERO));
        return false;
    }
    true
}

/// Record, then send: in this order, so that a number is never used twice and an ID never starts twice.
pub(super) fn send(member: &Member, binding: Option<Binding>, order: Order) -> Vec<Step> {
    let number = next_number(member);
    let nonce = match (&order, &binding) {
        (Order::Seed { .. } | Order::Join { .. }, Some(binding)) => binding.nonce.clone(),
        (
            Order::Seed { .. }
            | Order::Join { .. }
            | Order::Quarantine { .. }
            | Order::Fence { .. }
            | Order::Lift { .. }
            | Order::Recover { .. },
            _,
        ) => String::new(),
    };
    vec![
        Step::Bind {
            member: member.name.clone(),
            binding,
            directive: number,
        },
        Step::Direct {
            member: member.name.clone(),
            number,
            nonce,
            order,
        },
    ]
}
