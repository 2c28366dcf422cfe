//! The verdict on a history, by porcupine (`kube/go/linearize`).

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::{Operation, Outcome, What};
use crate::kube::{Binaries, project};

/// What the checker says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// There is an order in which everything answered makes sense.
    Ok {
        /// How many registers it has looked at.
        keys: usize,
    },
    /// There is none.
    Violation {
        /// The register that shows it.
        key: String,
        /// The longest part that makes sense, and what does not fit on it.
        why: Vec<String>,
    },
    /// There are too many orders to try them all.
    Undecided {
        /// Of this register.
        key: String,
    },
}

/// Is it linearizable?
pub fn check(history: &[Operation]) -> Result<Verdict> {
    let mut child = Command::new(Binaries::linearize()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the checker")?;
    let mut input = child.stdin.take().context("the checker has no input")?;
    let lines = lines_of(history)?;
    // It may end before it has read all of it, and then says why.
    let writer = thread::spawn(move || input.write_all(&lines));
    let output = child.wait_with_output()?;
    let _ = writer.join();
    ensure!(
        output.status.success(),
        "the checker failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("the checker's answer makes no sense")
}

/// It is linearizable, and worth something: clients have read what was written. One that is not is kept under `target/`.
pub fn demand(name: &str, history: &[Operation]) -> Result<()> {
    let verdict = check(history)?;
    let seen: BTreeSet<&str> = history
        .iter()
        .filter_map(|operation| match &operation.what {
            What::Get { found: Some(found) } if operation.outcome == Outcome::Ok => Some(found.as_str()),
            What::Get { .. } | What::Put { .. } | What::Cas { .. } => None,
        })
        .collect();
    ensure!(
        seen.len() > 10,
        "the history proves nothing: only {} values were ever read",
        seen.len()
    );
    let what = match verdict {
        Verdict::Ok { .. } => return Ok(()),
        Verdict::Violation { key, why } => format!("is not linearizable, see {key}:\n{}", why.join("\n")),
        Verdict::Undecided { key } => format!("has too many possible orders of {key} to be decided"),
    };
    let file = project().join("target").join(format!("history-{name}.jsonl"));
    fs::write(&file, lines_of(history)?).with_context(|| format!("cannot write {}", file.display()))?;
    bail!("the history {what}\nall of it is in {}", file.display())
}

fn lines_of(history: &[Operation]) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    for operation in history {
        serde_json::to_writer(&mut lines, operation)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(client: usize, value: &str, call: u64, end: u64) -> Operation {
        operation(client, What::Put { value: value.into() }, call, end)
    }

    fn get(client: usize, found: Option<&str>, call: u64, end: u64) -> Operation {
        let found = found.map(str::to_owned);
        operation(client, What::Get { found }, call, end)
    }

    fn cas(client: usize, expected: Option<&str>, value: &str, swapped: bool, call: u64, end: u64) -> Operation {
        let what = What::Cas {
            expected: expected.map(str::to_owned),
            value: value.into(),
            swapped,
        };
        operation(client, what, call, end)
    }

    fn operation(client: usize, what: What, call: u64, end: u64) -> Operation {
        Operation {
            client,
            key: "a".into(),
            what,
            outcome: Outcome::Ok,
            call,
            end,
        }
    }

    fn but(outcome: Outcome, operation: Operation) -> Operation {
        Operation { outcome, ..operation }
    }

    fn is_ok(history: &[Operation]) -> bool {
        match check(history).unwrap() {
            Verdict::Ok { .. } => true,
            Verdict::Violation { key, why } => {
                assert_eq!(key, "a");
                assert!(why.iter().any(|line| line.starts_with("not so:")), "{why:?}");
                false
            }
            Verdict::Undecided { .. } => panic!("undecided"),
        }
    }

    #[test]
    fn what_makes_sense_in_some_order_is_linearizable() {
        let rows: [&[Operation]; 5] = [
            &[put(0, "x", 0, 9), get(1, None, 1, 2), get(1, Some("x"), 3, 4)],
            &[put(0, "x", 0, 9), put(1, "y", 1, 8), get(2, Some("x"), 10, 11)],
            &[cas(0, None, "x", true, 0, 1), cas(1, None, "y", false, 2, 3)],
            &[
                cas(0, None, "x", true, 0, 5),
                cas(1, Some("x"), "y", true, 0, 5),
                get(2, Some("y"), 6, 7),
            ],
            &[
                but(Outcome::Failed, put(0, "x", 0, 1)),
                get(1, None, 2, 3),
                get(1, None, 4, 5),
            ],
        ];
        for row in rows {
            assert!(is_ok(row), "{row:?}");
        }
    }

    #[test]
    fn a_stale_read_is_found() {
        assert!(!is_ok(&[put(0, "x", 0, 1), put(0, "y", 2, 3), get(1, Some("x"), 4, 5)]));
        // Two reads one after the other that go back in time, during one write.
        assert!(!is_ok(&[
            put(0, "x", 0, 9),
            get(1, Some("x"), 1, 2),
            get(2, None, 3, 4)
        ]));
    }

    #[test]
    fn a_lost_write_is_found() {
        assert!(!is_ok(&[put(0, "x", 0, 1), get(1, None, 2, 3)]));
        assert!(!is_ok(&[
            put(0, "x", 0, 1),
            cas(1, Some("x"), "y", true, 2, 3),
            get(2, Some("x"), 4, 5)
        ]));
    }

    #[test]
    fn a_swap_that_cannot_have_been_is_found() {
        assert!(!is_ok(&[cas(0, None, "x", true, 0, 5), cas(1, None, "y", true, 0, 5)]));
        assert!(!is_ok(&[put(0, "x", 0, 1), cas(1, Some("x"), "y", false, 2, 3)]));
    }

    #[test]
    fn a_write_of_unknown_outcome_may_take_effect_at_any_later_time_but_only_once() {
        let late = but(Outcome::Unknown, put(0, "x", 0, 1));
        assert!(is_ok(&[late.clone(), get(1, None, 2, 3)]), "never");
        assert!(
            is_ok(&[late.clone(), get(1, None, 2, 3), get(1, Some("x"), 4, 5)]),
            "late"
        );
        assert!(
            !is_ok(&[
                late,
                get(1, Some("x"), 2, 3),
                put(1, "y", 4, 5),
                get(1, Some("y"), 6, 7),
                get(1, Some("x"), 8, 9)
            ]),
            "twice"
        );
        let swap = but(Outcome::Unknown, cas(0, Some("z"), "x", false, 0, 1));
        assert!(
            is_ok(&[swap.clone(), put(1, "z", 2, 3), get(1, Some("x"), 4, 5)]),
            "it fits later"
        );
        assert!(!is_ok(&[swap, get(1, Some("x"), 4, 5)]), "it never could");
    }

    #[test]
    fn of_many_registers_the_broken_one_is_named() {
        let mut history = vec![];
        for key in ["b", "c", "d"] {
            for operation in [put(0, "x", 0, 1), get(1, (key != "c").then_some("x"), 2, 3)] {
                history.push(Operation {
                    key: key.into(),
                    ..operation
                });
            }
        }
        assert!(matches!(check(&history).unwrap(), Verdict::Violation { key, .. } if key == "c"));
    }

    #[test]
    fn a_history_in_which_nothing_was_read_is_no_proof() {
        let error = demand("nothing", &[put(0, "x", 0, 1)]).unwrap_err().to_string();
        assert!(error.contains("proves nothing"), "{error}");
    }
}
