//! The one write: the log is told that all it holds is committed.
//!
//! `--force-new-cluster` drops every entry that the log does not *know* to be committed, and any of these may have been
//! acknowledged: the leader that counted the votes is lost. The longest log among those that are left holds every
//! acknowledged write that any of them holds (it is the one that Raft itself would elect), so on that one a recovery
//! declares the whole log committed before it starts etcd.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::encode;
use super::log::{self, Tail};
use super::record::kind;
use crate::Error;
use crate::inspection::{HardState, Position};

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    /// What the log knew to be committed before.
    pub from: u64,
    /// The end of the log, which is committed now.
    pub to: Position,
    /// False when the log had said so already.
    pub written: bool,
}

/// Appends `HardState{term, vote, commit: last index}` to the WAL in this folder (`member/wal`) and makes it durable. An
/// incomplete last write is cut off before, as etcd does it. Done again, it writes nothing.
///
/// etcd must not run on the directory. Refused where the log is damaged, has never been saved to, or holds a snapshot
/// that it does not know to be committed: the entries beside it may be of another history than the snapshot.
pub fn extend_commit(wal: &Path) -> Result<Extended, Error> {
    let refused = |why: String| Error::Refused {
        path: wal.to_owned(),
        why,
    };
    let log = log::read(wal)?;
    let (Some(state), Some(tail)) = (log.state, &log.tail) else {
        let why = log
            .fault
            .map_or_else(|| "raft has saved nothing in it".to_owned(), |fault| fault.why);
        return Err(refused(why));
    };
    let start = log.snapshot().index;
    if let Some(fault) = log
        .fault
        .as_ref()
        .or(log.cannot_start_from(start).as_ref())
        .or(log.is_inconsistent().as_ref())
    {
        return Err(refused(fault.why.clone()));
    }
    let last = log.last();
    if let Some(snapshot) = log.unproven_snapshot().filter(|snapshot| snapshot.index <= last.index) {
        return Err(refused(format!(
            "it holds a snapshot of index {} that it does not know to be committed; start etcd on it once in its own cluster",
            snapshot.index
        )));
    }
    let extended = Extended {
        from: state.commit,
        to: last,
        written: state.commit != last.index,
    };
    if extended.written {
        let state = HardState {
            commit: last.index,
            ..state
        };
        append(tail, state)?;
    }
    Ok(extended)
}

fn append(tail: &Tail, state: HardState) -> Result<(), Error> {
    let path = &tail.place.path;
    let at = Error::at(path);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(path).map_err(&at)?;
    let end = tail.place.offset;
    if tail.rest {
        // From the front: a length of zero ends the log, whatever is left behind it by a crash meanwhile.
        let len = file.metadata().map_err(&at)?.len();
        let zeros = vec![0; 64 * 1024];
        let mut offset = end;
        while offset < len {
            let rest = usize::try_from(len - offset).unwrap_or(usize::MAX).min(zeros.len());
            file.write_all_at(&zeros[..rest], offset).map_err(&at)?;
            if offset == end {
                file.sync_all().map_err(&at)?;
            }
            offset += rest as u64;
        }
        file.sync_all().map_err(&at)?;
    }
    let mut crc = tail.crc;
    let record = encode::record(kind::STATE, &mut crc, &encode::hard_state(state));
    file.write_all_at(&record, end).map_err(&at)?;
    file.sync_all().map_err(&at)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::testing::Log;

    fn log() -> Log {
        Log::new()
            .crc()
            .identity(7, 9)
            .snapshot(0, 0)
            .entry(1, 1, b"a")
            .state(1, 7, 0)
            .entry(2, 2, b"b")
            .entry(3, 3, b"c")
            .state(4, 8, 1)
    }

    #[test]
    fn the_whole_log_is_committed_and_done_again_nothing_is_written() {
        let wal = log().entry(4, 4, b"d").zeros(4096).done();
        let first = extend_commit(wal.path()).unwrap();
        let to = Position { term: 4, index: 4 };
        assert_eq!(
            first,
            Extended {
                from: 1,
                to,
                written: true
            }
        );
        let read = log::read(wal.path()).unwrap();
        let expected = HardState {
            term: 4,
            vote: crate::Id(8),
            commit: 4,
        };
        assert_eq!((read.state, read.last(), read.fault), (Some(expected), to, None));
        let bytes = std::fs::read(wal.file()).unwrap();
        assert_eq!(
            extend_commit(wal.path()).unwrap(),
            Extended {
                from: 4,
                to,
                written: false
            }
        );
        assert_eq!(std::fs::read(wal.file()).unwrap(), bytes);
    }

    #[test]
    fn an_incomplete_last_write_is_cut_off_and_nothing_of_it_is_left() {
        let whole = log();
        let end = whole.bytes().len();
        let wal = whole
            .raw(&[0, 4, 0, 0, 0, 0, 0, 0, 8, 2, 16, 1, 26, 50, 1, 1])
            .zeros(1200)
            .raw(&[1; 300])
            .done();
        extend_commit(wal.path()).unwrap();
        let read = log::read(wal.path()).unwrap();
        assert_eq!(read.state.unwrap().commit, 3);
        let tail = read.tail.unwrap();
        assert!(!tail.rest && !tail.torn && tail.place.offset > end as u64, "{tail:?}");
    }

    #[test]
    fn a_log_that_ends_with_its_file_grows() {
        let wal = log().done();
        extend_commit(wal.path()).unwrap();
        assert_eq!(log::read(wal.path()).unwrap().state.unwrap().commit, 3);
    }

    #[test]
    fn what_may_be_of_two_histories_is_refused_and_left_as_it_is() {
        for (wal, reason) in [
            (log().snapshot(2, 2).done(), "snapshot of index 2"),
            (Log::new().crc().identity(7, 9).snapshot(0, 0).done(), "saved nothing"),
            (log().raw(&[255; 64]).raw(&log_bytes()).done(), "destroyed"),
            (log().entry(4, 9, b"x").done(), "missing"),
        ] {
            let before = std::fs::read(wal.file()).unwrap();
            let error = extend_commit(wal.path()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert_eq!(std::fs::read(wal.file()).unwrap(), before);
        }
    }

    /// Records of several writes.
    fn log_bytes() -> Vec<u8> {
        let log = log().entry(5, 4, b"x").state(5, 5, 4).entry(5, 5, b"y").done();
        std::fs::read(log.file()).unwrap()
    }
}
