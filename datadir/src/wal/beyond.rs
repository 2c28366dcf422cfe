//! What follows the end of the log in its last file.
//!
//! etcd stops at a length of zero and at an incomplete record, and clears what follows. After a crash that is right: what
//! follows belongs to a write that was never synced, of which any sector may be missing. But etcd also does it when a
//! sector or a length in the middle of the file was destroyed, and loses what it had acknowledged (scenario D31).
//!
//! The two can be told apart. One write is at most entries and then a hard state, and the next one begins only once an
//! entry of the one before is synced (etcd `server/storage/wal/wal.go`, `Save`; raft `MustSync`). So where an entry
//! follows a hard state that follows an entry, the first of them was synced, and all before it: a crash has destroyed
//! none of it. The records are found by their running CRC: each one's is right when it continues the one before.

use super::record::{Decoder, Step, kind};
use crate::Error;
use crate::input::{Input, Window, first_non_zero};

/// What is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// Nothing but zeros, as etcd has preallocated them.
    Zeros,
    /// Anything else that may be left of a write that was never synced.
    Rest,
    /// At least two writes, one after the other.
    LaterWrites,
}

/// Candidates for a record are read at the cost of this many times the file at most.
const READ_AGAIN: u64 = 4;

/// Looks from the end of the log on.
pub(crate) fn look(input: &Input, end: u64, window: &mut Window) -> Result<Beyond, Error> {
    let Some(mut at) = first_non_zero(input, window, end)? else {
        return Ok(Beyond::Zeros);
    };
    let mut decoder = Decoder::new();
    let mut budget = input.len.saturating_mul(READ_AGAIN);
    // All records begin at a multiple of 8; at `end` there is none.
    at = (at & !7).max(end.saturating_add(8) & !7);
    while budget > 0 {
        let (reached, proven) = chain(input, &mut decoder, at)?;
        if proven {
            return Ok(Beyond::LaterWrites);
        }
        budget = budget.saturating_sub(reached - at);
        at += 8;
        match first_non_zero(input, window, at)? {
            Some(next) => at = next & !7,
            None => return Ok(Beyond::Rest),
        }
    }
    Ok(Beyond::Rest)
}

/// Reads records that continue the one at `start`: how far that went, and whether they are of more than one write.
fn chain(input: &Input, decoder: &mut Decoder, start: u64) -> Result<(u64, bool), Error> {
    let Some(mut at) = decoder.resume(input, start)? else {
        return Ok((start, false));
    };
    let (mut entry, mut state_after) = (false, false);
    loop {
        match decoder.step(input, at)? {
            Step::Record(record, next) => {
                match record.kind {
                    kind::ENTRY if state_after => return Ok((next, true)),
                    kind::ENTRY => entry = true,
                    kind::STATE => state_after = entry,
                    _ => return Ok((next, false)),
                }
                at = next;
            }
            Step::End | Step::Broken(_) => return Ok((at, false)),
        }
    }
}
