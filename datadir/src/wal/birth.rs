//! Has raft ever made anything durable in this WAL?
//!
//! etcd creates its WAL (a checksum, its IDs, an empty snapshot) before raft saves anything. Killed in between, it comes
//! up on the next start without a single entry: a seed has no voters then and waits for ever, whatever is asked of it
//! (seen on 3.6.16; 3.5.35 and 3.7.3 write their records in the same order). Nothing was ever promised on such a WAL:
//! raft acknowledges and votes only after a save, and every first save has a `HardState` (scenario D25). So a directory
//! is unborn until that is there.
//!
//! Only the first records are read: this is asked before each start and while etcd runs.

use std::path::Path;

use super::record::{Decoder, Step, kind};
use super::segments;
use crate::Error;
use crate::input::{Input, first_non_zero};

/// Was anything saved? When that cannot be told, it was: a directory taken for unborn may be cleared.
pub fn is_born(wal: &Path) -> Result<bool, Error> {
    Ok(match begin(wal)? {
        Beginning::None | Beginning::Created => false,
        Beginning::Saved | Beginning::Strange => true,
    })
}

/// The same while etcd writes there: true as soon as the first save is seen.
pub fn has_saved(wal: &Path) -> Result<bool, Error> {
    Ok(match begin(wal)? {
        Beginning::None | Beginning::Created | Beginning::Strange => false,
        Beginning::Saved => true,
    })
}

enum Beginning {
    /// No file.
    None,
    /// What etcd writes when it creates the file, and then zeros.
    Created,
    /// A `HardState`, or files that are only ever made after saves.
    Saved,
    /// Anything else.
    Strange,
}

fn begin(wal: &Path) -> Result<Beginning, Error> {
    let listing = segments::list(wal)?;
    let first = match listing.segments.as_slice() {
        [] if !listing.strange => return Ok(Beginning::None),
        [first] if (first.sequence, first.index) == (0, 0) => first,
        _ => return Ok(Beginning::Saved),
    };
    let input = Input::open(&first.path)?;
    let (mut decoder, mut offset, mut identity) = (Decoder::new(), 0, false);
    loop {
        match decoder.step(&input, offset)? {
            Step::Record(record, next) => {
                match record.kind {
                    kind::STATE => return Ok(Beginning::Saved),
                    kind::METADATA => identity = true,
                    _ => {}
                }
                offset = next;
            }
            Step::Broken(_) => return Ok(Beginning::Strange),
            Step::End => break,
        }
    }
    // A zeroed length in mid-file looks like the end; only a file that was never written to has nothing more.
    let rest = first_non_zero(&input, decoder.window(), offset)?;
    Ok(if identity && rest.is_none() {
        Beginning::Created
    } else {
        Beginning::Strange
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::testing::Log;
    use crate::wal::testing::Written;

    fn both(wal: &Written) -> (bool, bool) {
        (is_born(wal.path()).unwrap(), has_saved(wal.path()).unwrap())
    }

    fn created() -> Log {
        Log::new().crc().identity(7, 9).snapshot(0, 0)
    }

    #[test]
    fn d25_a_wal_that_was_only_created_is_not_born() {
        assert_eq!(both(&created().zeros(200_000).done()), (false, false));
        assert_eq!(both(&created().done()), (false, false));
        let whole_save_is_missing = created().entry(1, 1, b"x").zeros(4096);
        assert_eq!(both(&whole_save_is_missing.done()), (false, false));
        let nothing = tempfile::tempdir().unwrap();
        assert!(!is_born(nothing.path()).unwrap());
        assert!(!is_born(&nothing.path().join("absent")).unwrap());
        std::fs::write(nothing.path().join("0.tmp"), "x").unwrap();
        assert!(!is_born(nothing.path()).unwrap());
    }

    #[test]
    fn a_first_save_is_the_birth() {
        let wal = created().entry(1, 1, b"x").state(1, 7, 0).zeros(4096).done();
        assert_eq!(both(&wal), (true, true));
    }

    #[test]
    fn what_cannot_be_told_is_never_taken_for_unborn() {
        let zeroed_sector = created().zeros(512).entry(1, 1, b"x").state(1, 7, 0).zeros(4096).done();
        assert_eq!(both(&zeroed_sector), (true, false));
        assert_eq!(both(&created().zeros(100_000).raw(&[1]).done()), (true, false));
        for strange in [&[0_u8; 64][..], b"x", &[4, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9], &[255; 64]] {
            assert_eq!(both(&Log::new().raw(strange).done()), (true, false), "{strange:?}");
        }
        let later = created().done();
        std::fs::write(later.path().join("0000000000000001-0000000000000100.wal"), "").unwrap();
        assert_eq!(both(&later), (true, true));
        assert!(
            is_born(&later.path().join("0000000000000000-0000000000000000.wal")).is_err(),
            "not a folder"
        );
    }
}
