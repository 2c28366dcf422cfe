//! Steps in words, as transcripts show them.

use operator::plan::step::{Order, Step};

/// One step: its kind, the member, and what matters of it.
#[must_use]
pub fn step(step: &Step) -> String {
    let kind = step.kind();
    let detail = match step {
        Step::Latch { .. } | Step::RecordClusterId { .. } => String::new(),
        Step::NewIncarnation { incarnation, .. } => incarnation.to_string(),
        Step::RecordSeed { seed } => format!("{} {}", seed.member, seed.nonce),
        Step::CreateMembers { count, .. } => count.to_string(),
        Step::SetDormant { member, dormant } => format!("{member} {dormant}"),
        Step::SetVersion { member, version } | Step::SetPodImage { member, version, .. } => {
            format!("{member} {version}")
        }
        Step::LabelPod { member, voter, .. } => format!("{member} {}", if *voter { "voter" } else { "no voter" }),
        Step::ApplyBudget { voters, target } => format!("{voters} voters, target {target}"),
        Step::Bind {
            member,
            binding: Some(binding),
            ..
        } => format!("{member} {} on {}", short(binding.id), binding.nonce),
        Step::Direct { member, order, .. } => format!("{member} {}", self::order(order)),
        Step::AddLearner { via, member, .. } => format!("{member} via {via}"),
        Step::Promote { via, member, id } | Step::MoveLeader { via, member, id } => {
            format!("{member} {} via {via}", short(*id))
        }
        Step::Remove { via, member, id } => {
            let member = if member.is_empty() { "(no object)" } else { member };
            format!("{member} {} via {via}", short(*id))
        }
        other => other.member().unwrap_or_default().to_owned(),
    };
    if detail.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} {detail}")
    }
}

fn order(order: &Order) -> String {
    match order {
        Order::Join { member_id, members, .. } => format!("Join as {} of {}", short(*member_id), members.len()),
        Order::Seed { .. } => "Seed".into(),
        Order::Fence { .. } | Order::Lift { .. } | Order::Recover { .. } => order.kind().into(),
        Order::Quarantine { removed, .. } => format!("Quarantine of {}", short(*removed)),
    }
}

/// The last digits of an ID: those of the model differ in them.
fn short(id: operator::plan::facts::Id) -> String {
    format!("{:04x}", id.0 & 0xffff)
}
