//! A report is hostile input: what of it is kept, and in which shape.

use prost_types::Timestamp;
use proto::agent::{DataDirectory, Etcd, Exit, Identity, MemberRef, Process, Report};

/// Characters that a text of a report may have.
const TEXT: usize = 256;
/// Lines of etcd that a report may carry.
const LINES: usize = 20;
/// Alarms and features that one agent may list.
const NAMES: usize = 16;
/// The highest number of a directive that is believed. A member's status keeps it as an `int64`, and counting on from
/// it must not run over; an agent that counts honestly never comes near it.
const DIRECTIVE: u64 = 1 << 62;
/// The last second of the year 9999: the API server takes no later time.
const LAST_SECOND: i64 = 253_402_300_799;

/// A text without control characters, of at most 256 characters.
pub(super) fn text(raw: &str) -> String {
    let clean = |c: char| !c.is_control() && !is_direction(c);
    raw.chars().filter(|c| clean(*c)).take(TEXT).collect()
}

/// Marks that turn the direction of a text: on a terminal they make it read as something else.
const fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A time between 1970 and 9999; any other is none.
fn time(raw: Option<Timestamp>) -> Option<Timestamp> {
    raw.filter(|at| (0..=LAST_SECOND).contains(&at.seconds) && (0..1_000_000_000).contains(&at.nanos))
}

/// A list of bounded length of such texts.
pub(super) fn texts(raw: Vec<String>) -> Vec<String> {
    raw.into_iter().take(NAMES).map(|one| text(&one)).collect()
}

/// The report with every text and list bounded, and no time or number that cannot be reckoned with. Destructured, so
/// that a new field cannot slip through.
pub(super) fn report(raw: Report) -> Report {
    let Report {
        member,
        observed_at,
        agent_version,
        directive,
        data_directory,
        process,
        etcd,
        disk,
        waiting_for,
        certificate,
        recovery,
    } = raw;
    Report {
        member: member.map(member_ref),
        observed_at: time(observed_at),
        agent_version: text(&agent_version),
        directive: directive.min(DIRECTIVE),
        data_directory: data_directory.map(directory),
        process: process.map(self::process),
        etcd: etcd.map(self::etcd),
        disk,
        waiting_for: text(&waiting_for),
        certificate: certificate.map(|mut certificate| {
            certificate.fingerprint = text(&certificate.fingerprint);
            certificate.not_after = time(certificate.not_after);
            certificate
        }),
        recovery: recovery.map(|mut recovery| {
            recovery.detail = text(&recovery.detail);
            recovery.mode = text(&recovery.mode);
            recovery
        }),
    }
}

/// Who the agent says it speaks for, bounded.
pub(super) fn member_ref(raw: MemberRef) -> MemberRef {
    let MemberRef {
        name,
        namespace,
        cluster_name,
        cluster_uid,
    } = raw;
    MemberRef {
        name: text(&name),
        namespace: text(&namespace),
        cluster_name: text(&cluster_name),
        cluster_uid: text(&cluster_uid),
    }
}

fn directory(raw: DataDirectory) -> DataDirectory {
    let DataDirectory {
        state,
        detail,
        nonce,
        identity,
        bytes,
        started,
        log,
        fenced,
        fence_ordered,
        quarantined,
    } = raw;
    DataDirectory {
        quarantined: quarantined.iter().map(|name| text(name)).take(16).collect(),
        state,
        detail: text(&detail),
        nonce: text(&nonce),
        identity: identity.map(|identity| {
            let Identity {
                cluster_uid,
                incarnation,
                token,
                cluster_id,
                member_id,
                member_name,
                nonce,
            } = identity;
            Identity {
                cluster_uid: text(&cluster_uid),
                incarnation,
                token: text(&token),
                cluster_id,
                member_id,
                member_name: text(&member_name),
                nonce: text(&nonce),
            }
        }),
        bytes,
        started,
        log,
        fenced,
        fence_ordered,
    }
}

fn process(raw: Process) -> Process {
    let Process {
        state,
        pid,
        started_at,
        etcd_version,
        supervisor_version,
        restarts,
        oom_kills,
        exit,
    } = raw;
    Process {
        state,
        pid,
        started_at: time(started_at),
        etcd_version: text(&etcd_version),
        supervisor_version: text(&supervisor_version),
        restarts,
        oom_kills,
        exit: exit.map(|exit| {
            let Exit {
                code,
                signal,
                class,
                last_lines,
                at,
            } = exit;
            let skipped = last_lines.len().saturating_sub(LINES);
            let last_lines = last_lines.iter().skip(skipped).map(|line| text(line)).collect();
            Exit {
                code,
                signal,
                class: text(&class),
                last_lines,
                at: time(at),
            }
        }),
    }
}

fn etcd(raw: Etcd) -> Etcd {
    Etcd {
        version: text(&raw.version),
        alarms: texts(raw.alarms),
        ..raw
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_text_carries_control_characters_or_turns_its_direction() {
        assert_eq!(text("a\u{1b}[31mb\nc\u{0}\u{202e}d\u{85}e"), "a[31mbcde");
        assert_eq!(text(&"\u{e4}".repeat(1000)).chars().count(), 256);
    }

    #[test]
    fn the_last_lines_are_kept_not_the_first() {
        let exit = Exit {
            last_lines: (0..100).map(|n| n.to_string()).collect(),
            ..Exit::default()
        };
        let process = process(Process {
            exit: Some(exit),
            ..Process::default()
        });
        let lines = process.exit.unwrap().last_lines;
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (20, Some("99")));
    }

    #[test]
    fn numbers_and_times_that_nobody_can_reckon_with_are_not_believed() {
        let at = |seconds| {
            Some(Timestamp {
                seconds,
                ..Timestamp::default()
            })
        };
        for wild in [i64::MIN, -1, LAST_SECOND + 1, i64::MAX] {
            let bounded = report(Report {
                directive: u64::MAX,
                process: Some(Process {
                    started_at: at(wild),
                    exit: Some(Exit {
                        at: at(wild),
                        ..Exit::default()
                    }),
                    ..Process::default()
                }),
                ..Report::default()
            });
            let process = bounded.process.unwrap();
            assert_eq!((process.started_at, process.exit.unwrap().at), (None, None), "{wild}");
            assert!(i64::try_from(bounded.directive + 1_000_000).is_ok());
        }
        let honest = report(Report {
            directive: 7,
            observed_at: at(1_800_000_000),
            ..Report::default()
        });
        assert_eq!((honest.directive, honest.observed_at), (7, at(1_800_000_000)));
    }

    proptest! {
        #[test]
        fn whatever_is_said_what_is_kept_is_bounded(raw in ".{0,600}", many in 0_usize..200) {
            let exit = Exit { class: raw.clone(), last_lines: vec![raw.clone(); many], ..Exit::default() };
            let bounded = report(Report {
                member: Some(MemberRef { name: raw.clone(), cluster_uid: raw.clone(), ..MemberRef::default() }),
                waiting_for: raw.clone(),
                process: Some(Process { exit: Some(exit), etcd_version: raw.clone(), ..Process::default() }),
                etcd: Some(Etcd { alarms: vec![raw.clone(); many], ..Etcd::default() }),
                ..Report::default()
            });
            let exit = bounded.process.unwrap().exit.unwrap();
            prop_assert!(exit.last_lines.len() <= 20);
            prop_assert!(bounded.etcd.unwrap().alarms.len() <= 16);
            for text in exit.last_lines.iter().chain([&bounded.waiting_for, &bounded.member.unwrap().name]) {
                prop_assert!(text.chars().count() <= 256 && !text.chars().any(char::is_control));
            }
        }
    }
}
