//! The report of what the agent knows. Pure.

use std::time::Instant;

use proto::agent as wire;

use super::act::Phase;
use super::decide::{Decision, Why};
use super::directory::State as DirectoryState;
use super::standing::Fence;
use super::state::State;
use crate::recover::journal::{Journal, Mode, Phase as Step};

/// Lines of etcd's log beside an exit.
const EXIT_LINES: usize = 20;
/// Characters of one of them: with all lines the report stays far below its limit.
const EXIT_LINE_CHARS: usize = 512;
/// Directories that were set aside.
const QUARANTINED: usize = 16;
/// Characters of a sentence for people.
const LINE_CHARS: usize = 500;

/// The report at this moment.
#[must_use]
pub fn report(
    state: &State,
    now: Instant,
    observed_at: prost_types::Timestamp,
    certificate: Option<&wire::Certificate>,
) -> wire::Report {
    wire::Report {
        member: Some(state.args.member_ref()),
        observed_at: Some(observed_at),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        directive: state.standing.as_ref().map_or(0, |standing| standing.number),
        data_directory: Some(data_directory(state)),
        process: Some(process(state)),
        etcd: state.etcd.clone(),
        disk: Some(state.directory.space.into()),
        waiting_for: line(&waiting_for(state, now)),
        certificate: certificate.cloned(),
        recovery: state.directory.recovery.as_ref().map(recovery),
    }
}

fn recovery(journal: &Journal) -> wire::Recovery {
    use wire::recovery::Phase as Wire;
    let phase = match journal.phase {
        Step::NeedsSpace => Wire::NeedsSpace,
        Step::Ordered | Step::Applied | Step::Restored | Step::Swapping => Wire::Rebuilding,
        Step::Done => Wire::Done,
    };
    wire::Recovery {
        number: journal.order.number,
        phase: phase.into(),
        detail: line(&journal.detail),
        needed_bytes: journal.needed_bytes,
        mode: journal.mode.map(Mode::as_str).unwrap_or_default().to_owned(),
        last_term: journal.kept.map_or(0, |kept| kept.term),
        last_index: journal.kept.map_or(0, |kept| kept.index),
        revision: journal.revision,
        incarnation: journal.order.identity.incarnation,
    }
}

fn data_directory(state: &State) -> wire::DataDirectory {
    use wire::data_directory::State as Wire;
    let directory = &state.directory;
    let damaged = match state.decision() {
        Decision::Wait(Why::Damaged(detail)) => Some(detail),
        _ => None,
    };
    let (wire_state, detail) = match &directory.state {
        DirectoryState::Unborn => (Wire::Unborn, ""),
        // etcd itself has found what this agent's reading has not.
        DirectoryState::Intact | DirectoryState::TornTail if damaged.is_some() => {
            (Wire::Damaged, damaged.as_deref().unwrap_or_default())
        }
        DirectoryState::Intact => (Wire::Intact, ""),
        DirectoryState::TornTail => (Wire::TornTail, ""),
        DirectoryState::Damaged { detail } => (Wire::Damaged, detail.as_str()),
        DirectoryState::Foreign { detail } => (Wire::Foreign, detail.as_str()),
        DirectoryState::InUse => (Wire::InUse, ""),
        DirectoryState::Unreadable { error } => (Wire::Unreadable, error.as_str()),
    };
    wire::DataDirectory {
        state: wire_state.into(),
        detail: line(detail),
        nonce: directory.nonce.as_ref().map(ToString::to_string).unwrap_or_default(),
        identity: directory.identity.as_ref().map(Into::into),
        bytes: directory.bytes,
        started: directory.started,
        log: directory.log.map(|log| wire::Log {
            term: log.term,
            index: log.index,
            commit: log.commit,
            revision: log.revision,
            is_learner: log.is_learner,
        }),
        fenced: directory.fenced,
        fence_ordered: state
            .standing
            .as_ref()
            .is_some_and(|standing| matches!(standing.fence, Fence::Up { .. })),
        quarantined: directory
            .quarantined
            .iter()
            .map(|aside| line(&aside.name))
            .take(QUARANTINED)
            .collect(),
    }
}

fn process(state: &State) -> wire::Process {
    use wire::process::State as Wire;
    let heard = state.process.clone().unwrap_or_default();
    let has_served = heard.served || state.etcd.as_ref().is_some_and(|etcd| etcd.serving);
    let wire_state = match state.phase() {
        Phase::Absent => Wire::Absent,
        Phase::Running if has_served => Wire::Running,
        Phase::Running => Wire::Starting,
        Phase::BackingOff | Phase::Stopping => Wire::Stopped,
        Phase::Working => Wire::Held,
        Phase::Waiting => match state.decision() {
            Decision::Once(_) | Decision::Repeatable => Wire::Stopped,
            Decision::Observe
            | Decision::Stop(_)
            | Decision::Renew
            | Decision::SetAside
            | Decision::PutFence
            | Decision::LiftFence
            | Decision::Recover
            | Decision::Retry(_)
            | Decision::Wait(_) => Wire::Held,
        },
    };
    let hello = state.link.as_ref().map(|link| &link.hello);
    wire::Process {
        state: wire_state.into(),
        pid: heard.pid,
        started_at: heard.started_at,
        etcd_version: hello.map(|hello| hello.etcd_version.clone()).unwrap_or_default(),
        supervisor_version: hello.map(|hello| hello.version.clone()).unwrap_or_default(),
        restarts: heard.restarts,
        oom_kills: heard.oom_kills,
        exit: heard.exit.map(exit),
    }
}

/// One line of a bounded length: what a file or an error says may hold anything, and lands in logs and in a report that
/// has a limit.
fn line(text: &str) -> String {
    let whole = text.chars().flat_map(|char| {
        let escaped = char.is_control().then(|| char.escape_default());
        let plain = escaped.is_none().then_some(char);
        escaped.into_iter().flatten().chain(plain)
    });
    whole.take(LINE_CHARS).collect()
}

fn exit(exit: proto::supervisor::Exit) -> wire::Exit {
    let surplus = exit.last_lines.len().saturating_sub(EXIT_LINES);
    let shorten = |line: String| line.chars().take(EXIT_LINE_CHARS).collect();
    wire::Exit {
        code: exit.code,
        signal: exit.signal,
        class: exit.class,
        last_lines: exit.last_lines.into_iter().skip(surplus).map(shorten).collect(),
        at: exit.at,
    }
}

/// One short sentence; empty when nothing is waited for.
fn waiting_for(state: &State, now: Instant) -> String {
    let decision = state.decision();
    match state.phase() {
        Phase::Absent => return "the supervisor in the etcd container to connect".to_owned(),
        Phase::Stopping => return "etcd to stop".to_owned(),
        Phase::Working => return Why::Recovery.to_string(),
        Phase::Running if matches!(decision, Decision::Observe) => return String::new(),
        Phase::Running | Phase::Waiting | Phase::BackingOff => {}
    }
    if let Some(fault) = &state.fault {
        return format!("another try; {fault}");
    }
    match &decision {
        Decision::Wait(why) | Decision::Stop(why) => why.to_string(),
        Decision::Retry(error) => format!("the directory to be readable: {error}"),
        Decision::Renew | Decision::SetAside => "the directory to be prepared".to_owned(),
        Decision::PutFence | Decision::LiftFence => "the fence to be written".to_owned(),
        Decision::Recover => Why::Recovery.to_string(),
        Decision::Observe => String::new(),
        Decision::Once(_) | Decision::Repeatable => {
            if let Err(why) = state.minor() {
                return format!("another etcd image: {why}");
            }
            match state.not_before.filter(|at| *at > now) {
                // Without the rest of the time: it would make each report differ from the last.
                Some(_) => "a back-off after a failed start to be over".to_owned(),
                None => "etcd to start".to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_one_line_of_bounded_length() {
        assert_eq!(
            line("of member \"\u{e9}\"\n\u{1b}[31mforged"),
            "of member \"\u{e9}\"\\n\\u{1b}[31mforged"
        );
        assert_eq!(line(&"\n\u{10ffff}".repeat(100_000)).chars().count(), LINE_CHARS);
    }
}
