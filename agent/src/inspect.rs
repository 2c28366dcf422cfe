//! `etcd-agent inspect`: what a data directory is, for people and scripts.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use datadir::{AlarmKind, Facts, Inspection, Options, Schema, Source, State};

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// etcd's data directory: the folder that holds `member/`. Nothing is written to it.
    dir: PathBuf,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Told beside the report, for scripts.
pub const EXIT_CODES: &str = "Exit codes:
  0  whole: etcd can start on it, and has lost nothing
  1  it could not be read
  3  nothing is there (or a first start that never came to its end)
  4  etcd runs on it: only what can be read beside it was read
  5  damaged
  6  written by etcd 3.4 or older";

/// Prints the report. The exit code tells the state, see [`EXIT_CODES`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let inspection = datadir::inspect(&args.dir, &Options::default())?;
    match args.output {
        Format::Text => print!("{}", text(&inspection)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&inspection)?),
    }
    Ok(ExitCode::from(code(&inspection.state)))
}

fn code(state: &State) -> u8 {
    match state {
        State::Intact | State::TornTail => 0,
        State::Unborn => 3,
        State::InUse => 4,
        State::Damaged(_) => 5,
        State::TooOld => 6,
    }
}

fn text(inspection: &Inspection) -> String {
    let state = match &inspection.state {
        State::Unborn => "Unborn: etcd has saved nothing here".to_owned(),
        State::Intact => "Intact".to_owned(),
        State::TornTail => "TornTail: the last write is incomplete, etcd cuts it off by itself".to_owned(),
        State::Damaged(damage) => format!("Damaged: {damage}"),
        State::TooOld => "TooOld: written by etcd 3.4 or older; start it with 3.5 once".to_owned(),
        State::InUse => "InUse: etcd runs on it, and what follows may be a moment old".to_owned(),
    };
    let mut lines = vec![("State", state)];
    lines.extend(facts(&inspection.facts));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, value) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:width$}  {}", escaped(&value));
    }
    out
}

fn facts(facts: &Facts) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let mut line = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    line(
        "Member ID",
        facts.identity.map(|identity| identity.member_id.to_string()),
    );
    line(
        "Cluster ID",
        facts.identity.map(|identity| identity.cluster_id.to_string()),
    );
    line(
        "Hard state",
        facts
            .hard_state
            .map(|state| format!("term {}, vote {}, commit {}", state.term, state.vote, state.commit)),
    );
    line("Commit", facts.commit.map(|commit| commit.to_string()));
    line(
        "Last entry",
        facts
            .last
            .map(|last| format!("term {}, index {}", last.term, last.index)),
    );
    line(
        "Snapshot",
        facts
            .snapshot
            .map(|snapshot| format!("term {}, index {}", snapshot.term, snapshot.index)),
    );
    line("Applied", facts.applied.map(|applied| applied.to_string()));
    line(
        "Revision",
        facts.revision.map(|revision| format!("{revision} (as the db has it)")),
    );
    line(
        "Schema",
        facts.schema.as_ref().map(|schema| match schema {
            Schema::V3_5 => "3.5".to_owned(),
            Schema::Recorded(version) => version.clone(),
        }),
    );
    line("Cluster version", facts.cluster_version.clone());
    line(
        "Auth",
        facts.auth_enabled.map(|on| if on { "on" } else { "off" }.to_owned()),
    );
    for alarm in &facts.alarms {
        let kind = match alarm.kind {
            AlarmKind::NoSpace => "NOSPACE".to_owned(),
            AlarmKind::Corrupt => "CORRUPT".to_owned(),
            AlarmKind::Other(number) => format!("number {number}"),
        };
        line("Alarm", Some(format!("{kind}, member {}", alarm.member_id)));
    }
    if let Some(membership) = &facts.membership {
        let source = match membership.source {
            Source::Log => "snapshot and log",
            Source::Db => "db",
        };
        line("Members", Some(format!("{} (from {source})", membership.members.len())));
        for member in &membership.members {
            let kind = if member.learner { "learner" } else { "voter" };
            let urls = member.peer_urls.join(",");
            line("  Member", Some(format!("{} {kind} {} {urls}", member.id, member.name)));
        }
        if !membership.removed.is_empty() {
            let removed: Vec<String> = membership.removed.iter().map(ToString::to_string).collect();
            line("  Removed", Some(removed.join(" ")));
        }
    }
    let sizes = facts.sizes;
    line(
        "Bytes",
        Some(format!(
            "WAL {}, snapshots {}, db {}",
            sizes.wal, sizes.snapshots, sizes.db
        )),
    );
    lines
}

/// What a file says goes to a terminal.
fn escaped(text: &str) -> String {
    let escape = |char: char| -> String {
        if char.is_control() {
            char.escape_default().to_string()
        } else {
            char.to_string()
        }
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn look(folder: &tempfile::TempDir) -> Inspection {
        datadir::inspect(folder.path(), &Options::default()).unwrap()
    }

    #[test]
    fn the_report_tells_state_and_facts_and_the_code_tells_the_state() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(code(&look(&folder).state), 3);
        datadir::testing::intact(folder.path(), 7, 9).unwrap();
        let whole = look(&folder);
        assert_eq!(code(&whole.state), 0);
        let text = text(&whole);
        for line in [
            "State       Intact",
            "Member ID   0000000000000007",
            "Last entry  term 1, index 5",
            "Applied     5",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
        }
        let json = serde_json::to_value(&whole).unwrap();
        assert_eq!(json["state"]["name"], "intact");
        assert_eq!(json["facts"]["identity"]["clusterId"], "0000000000000009");
        std::fs::remove_dir_all(folder.path().join("member/wal")).unwrap();
        let damaged = look(&folder);
        assert_eq!(code(&damaged.state), 5);
        assert_eq!(serde_json::to_value(&damaged).unwrap()["state"]["part"], "wal");
    }

    #[test]
    fn nothing_that_a_file_holds_steers_the_terminal() {
        assert_eq!(escaped("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
    }
}
