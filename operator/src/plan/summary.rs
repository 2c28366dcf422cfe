//! The state in one line: how it is, what is waited for, on which member, and since when.

use jiff::Timestamp;

use super::{
    quorum::{self, Quorum},
    step::{Plan, Wait},
    view::View,
};

/// What a person should look at first.
pub(super) fn first_wait(plan: &Plan) -> Option<&Wait> {
    plan.waits.iter().min_by_key(|wait| wait.reason)
}

/// The state in one line.
pub(super) fn summary(view: &View, plan: &Plan, quorum: &Quorum, done: bool, old: &str) -> String {
    let head = match quorum {
        Quorum::AllLost => "All members lost".to_owned(),
        _ if view.is_paused() && view.facts.cluster.record.token.is_some() => "Paused".to_owned(),
        Quorum::NotFormed => "Forming".to_owned(),
        Quorum::Healthy | Quorum::Serving { .. } => {
            format!(
                "{} of {} voters healthy",
                view.healthy_voters(),
                view.voters().max(view.target())
            )
        }
        Quorum::Lost { .. } => format!(
            "Quorum lost: {} of {} voters healthy",
            view.healthy_voters(),
            view.voters()
        ),
        Quorum::Unreachable => "Unreachable".to_owned(),
        Quorum::Undecided => return old.to_owned(),
    };
    let waited_for = first_wait(plan)
        .filter(|wait| !done || wait.reason.is_trouble())
        .map(named);
    match waited_for.or_else(|| quorum::strangers(view)) {
        Some(words) => since(&head, &words, old, view.facts.now),
        None => head,
    }
}

/// What is waited for, and on which member.
pub(super) fn named(wait: &Wait) -> String {
    match &wait.member {
        Some(member) if !wait.message.contains(member.as_str()) => format!("{member}: {}", wait.message),
        Some(_) | None => wait.message.clone(),
    }
}

/// With the time since when it is so. The line that stands already is what remembers it, over restarts, too.
fn since(head: &str, words: &str, old: &str, now: Timestamp) -> String {
    let told = format!("; {words} (since ");
    let before = old
        .find(&told)
        .and_then(|at| old.get(at + told.len()..)?.strip_suffix(')')?.parse::<Timestamp>().ok());
    format!("{head}{told}{:.0})", before.unwrap_or(now))
}
