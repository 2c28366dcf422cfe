//! The last lines that etcd wrote. No I/O.
//!
//! A Go panic can be followed by thousands of lines of stacks, so the lines that may tell why etcd has ended are kept
//! apart from the last ones.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::exit;

/// How many last lines are kept.
pub const MAX_LINES: usize = 200;
/// The longest part of a line that is kept: 200 of them fit one message of the socket.
pub const MAX_LINE_BYTES: usize = 2048;
/// How many lines go into the report of an end.
pub const REPORT_LINES: usize = 20;
/// How many telling lines are kept beside the last ones, and how many of them go into a report.
const MAX_TELLING: usize = 40;
const REPORT_TELLING: usize = 5;

/// Which of etcd's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Nearly unused by etcd.
    Stdout,
    /// etcd's log, and Go's panics.
    Stderr,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    number: u64,
    text: String,
}

/// The last lines, and those that may tell why etcd has ended.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Tail {
    lines: VecDeque<Line>,
    telling: VecDeque<Line>,
    /// Lines that have begun, one a stream.
    open: [Vec<u8>; 2],
    /// The next line's number.
    next: u64,
    /// The number of the first line of the present run of etcd.
    run: u64,
}

impl Tail {
    /// A new run of etcd begins: what was written before does not explain its end.
    pub fn begin_run(&mut self) {
        self.close();
        self.run = self.next;
    }

    /// Takes what etcd has written, in pieces of any size.
    pub fn push(&mut self, stream: Stream, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(stream, &bytes[..end]);
            self.end_line(stream);
            bytes = &bytes[end + 1..];
        }
        self.extend(stream, bytes);
    }

    /// The run has ended: what was begun counts as lines.
    pub fn close(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !self.open[stream as usize].is_empty() {
                self.end_line(stream);
            }
        }
    }

    /// The last `count` lines of all runs, at most [`MAX_LINES`].
    #[must_use]
    pub fn last(&self, count: usize) -> Vec<String> {
        let skipped = self.lines.len().saturating_sub(count);
        self.lines.iter().skip(skipped).map(|line| line.text.clone()).collect()
    }

    /// The lines of this run that may tell why it has ended, in the order they came.
    pub fn evidence(&self) -> impl Iterator<Item = &str> + Clone {
        let oldest = self.lines.front().map_or(self.next, |line| line.number);
        self.telling
            .iter()
            .filter(move |line| line.number < oldest)
            .chain(&self.lines)
            .filter(|line| line.number >= self.run)
            .map(|line| line.text.as_str())
    }

    /// At most [`REPORT_LINES`] lines of this run: its last ones, with telling ones that are further back in front.
    #[must_use]
    pub fn report(&self) -> Vec<String> {
        let last: Vec<&Line> = self.lines.iter().filter(|line| line.number >= self.run).collect();
        let first = last.len().saturating_sub(REPORT_LINES);
        let shown_from = last.get(first).map_or(self.next, |line| line.number);
        let earlier: Vec<&Line> = self
            .telling
            .iter()
            .filter(|line| line.number >= self.run && line.number < shown_from)
            .collect();
        let earlier = &earlier[earlier.len().saturating_sub(REPORT_TELLING)..];
        let rest = (REPORT_LINES - earlier.len()).min(last.len());
        earlier
            .iter()
            .chain(&last[last.len() - rest..])
            .map(|line| line.text.clone())
            .collect()
    }

    fn extend(&mut self, stream: Stream, bytes: &[u8]) {
        let open = &mut self.open[stream as usize];
        let room = MAX_LINE_BYTES.saturating_sub(open.len());
        open.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, stream: Stream) {
        let open = &mut self.open[stream as usize];
        let mut text = String::from_utf8_lossy(open).into_owned();
        open.clear();
        // Bytes that are no UTF-8 grow when they are replaced.
        text.truncate(text.floor_char_boundary(MAX_LINE_BYTES));
        let line = Line {
            number: self.next,
            text,
        };
        self.next += 1;
        if is_telling(&line.text) {
            keep(&mut self.telling, line.clone(), MAX_TELLING);
        }
        keep(&mut self.lines, line, MAX_LINES);
    }
}

fn keep(lines: &mut VecDeque<Line>, line: Line, most: usize) {
    if lines.len() == most {
        lines.pop_front();
    }
    lines.push_back(line);
}

/// Cheap: etcd can write thousands of lines a second.
fn is_telling(line: &str) -> bool {
    exit::is_last_word(line)
        || line.starts_with(r#"{"level":"error""#)
        || line.starts_with(r#"{"level":"warn""#) && line.contains("removed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(lines: impl IntoIterator<Item = String>) -> Tail {
        let mut tail = Tail::default();
        for line in lines {
            tail.push(Stream::Stderr, line.as_bytes());
            tail.push(Stream::Stderr, b"\n");
        }
        tail
    }

    #[test]
    fn lines_are_whole_however_they_arrive_and_from_whichever_stream() {
        let mut tail = Tail::default();
        tail.push(Stream::Stderr, b"on");
        tail.push(Stream::Stdout, b"other\n");
        tail.push(Stream::Stderr, b"e\ntwo\nthr");
        assert_eq!(tail.last(9), ["other", "one", "two"]);
        tail.close();
        assert_eq!(tail.last(2), ["two", "thr"]);
    }

    #[test]
    fn long_lines_are_cut_and_only_the_last_lines_stay() {
        let mut tail = tail((0..300).map(|number| number.to_string()));
        assert_eq!(tail.last(1000).len(), MAX_LINES);
        assert_eq!(tail.last(1), ["299"]);
        tail.push(Stream::Stderr, &[0xff; 3 * MAX_LINE_BYTES]);
        tail.push(Stream::Stderr, b"\nnext\n");
        let last = tail.last(2);
        assert!(last[0].len() <= MAX_LINE_BYTES);
        assert_eq!(last[1], "next");
    }

    #[test]
    fn the_panic_is_still_known_after_thousands_of_lines_of_stacks() {
        let stacks = (0..5000).map(|number| format!("goroutine {number}"));
        let tail = tail(std::iter::once("panic: tocommit".to_owned()).chain(stacks));
        assert!(tail.evidence().any(|line| line == "panic: tocommit"));
        let report = tail.report();
        assert_eq!(report.len(), REPORT_LINES);
        assert_eq!(report[0], "panic: tocommit");
        assert_eq!(report[REPORT_LINES - 1], "goroutine 4999");
    }

    #[test]
    fn what_an_earlier_run_wrote_explains_nothing() {
        let mut tail = tail(["panic: old".to_owned()]);
        tail.begin_run();
        tail.push(Stream::Stderr, b"new\n");
        assert_eq!(tail.evidence().collect::<Vec<_>>(), ["new"]);
        assert_eq!(tail.report(), ["new"]);
        assert_eq!(tail.last(9), ["panic: old", "new"]);
    }

    #[test]
    fn each_line_is_evidence_once() {
        let tail = tail(["a".to_owned(), r#"{"level":"fatal"}"#.to_owned(), "b".to_owned()]);
        assert_eq!(tail.evidence().count(), 3);
        assert_eq!(tail.report().len(), 3);
    }
}
