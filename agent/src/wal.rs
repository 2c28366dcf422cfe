//! Has etcd ever made anything durable in this WAL?
//!
//! etcd creates its WAL (a checksum, its IDs, an empty snapshot) before raft saves anything. Killed in between, it comes
//! up on the next start without a single entry: a seed has no voters then and waits for ever, whatever is asked of it
//! (seen on 3.6.16; 3.5.35 and 3.7.3 write their records in the same order). Nothing was ever promised on such a WAL: raft acknowledges and votes only after a
//! save, and every first save has a `HardState` (scenario D25). So a directory is unborn until that is there.
//!
//! Framing (etcd `server/storage/wal/decoder.go`): a little-endian length of 8 bytes, whose low 56 bits count the
//! record's bytes and whose high byte is `0x80 | padding`; then a protobuf that begins with its type.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

const METADATA: u8 = 1;
const STATE: u8 = 3;
/// The first segment: sequence number and index are 0. Later ones are only ever made after saves.
const FIRST: &str = "0000000000000000-0000000000000000.wal";

/// Was anything saved? When that cannot be told, it was: a directory taken for unborn may be cleared.
pub fn is_born(wal: &Path) -> io::Result<bool> {
    match first_segment(wal)? {
        Segments::None => Ok(false),
        Segments::More => Ok(true),
        Segments::First(path) => {
            let mut file = open(&path)?;
            Ok(match records(&mut file)? {
                Records::Saved | Records::Strange => true,
                // A zeroed length in mid-file looks like the end; only a file that was never written to has no more.
                Records::Empty => !is_zero(&mut file)?,
            })
        }
    }
}

/// The same while etcd writes there, and cheaper: true as soon as the first save is seen.
pub fn has_saved(wal: &Path) -> io::Result<bool> {
    match first_segment(wal)? {
        Segments::None => Ok(false),
        Segments::More => Ok(true),
        Segments::First(path) => Ok(matches!(records(&mut open(&path)?)?, Records::Saved)),
    }
}

enum Segments {
    None,
    First(PathBuf),
    More,
}

/// `wal.tmp`, `0.tmp` and `*.broken` are no segments.
fn first_segment(wal: &Path) -> io::Result<Segments> {
    let entries = match fs::read_dir(wal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Segments::None),
        entries => at(wal, entries)?,
    };
    let mut found = Segments::None;
    for entry in entries {
        let name = at(wal, entry)?.file_name();
        if Path::new(&name).extension().is_none_or(|extension| extension != "wal") {
            continue;
        }
        if name != FIRST {
            return Ok(Segments::More);
        }
        found = Segments::First(wal.join(name));
    }
    Ok(found)
}

enum Records {
    /// A `HardState` is among them.
    Saved,
    /// What etcd writes when it creates the file, and then zeros.
    Empty,
    /// Anything else.
    Strange,
}

/// Reads to the first `HardState`, or to the first length of zero.
fn records(file: &mut impl Read) -> io::Result<Records> {
    let mut metadata = false;
    loop {
        let mut length = [0; 8];
        if !fill(file, &mut length)? {
            return Ok(if metadata { Records::Empty } else { Records::Strange });
        }
        let [low @ .., high] = length;
        let bytes = low.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let padding = if high & 0x80 == 0 { 0 } else { u64::from(high & 0x07) };
        if bytes == 0 {
            return Ok(if metadata && high == 0 {
                Records::Empty
            } else {
                Records::Strange
            });
        }
        let mut head = [0; 2];
        if bytes < 2 || !fill(file, &mut head)? || head[0] != 0x08 {
            return Ok(Records::Strange);
        }
        match head[1] {
            STATE => return Ok(Records::Saved),
            METADATA => metadata = true,
            _ => {}
        }
        let rest = bytes - 2 + padding;
        if io::copy(&mut file.take(rest), &mut io::sink())? < rest {
            return Ok(Records::Strange);
        }
    }
}

/// False at the end of the file.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        result => result.map(|()| true),
    }
}

fn is_zero(file: &mut impl Read) -> io::Result<bool> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut buffer = vec![0; ZEROS.len()];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(true),
            read if buffer[..read] != ZEROS[..read] => return Ok(false),
            _ => {}
        }
    }
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    at(path, File::open(path)).map(BufReader::new)
}

/// The error with the path it is about.
fn at<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// As etcd 3.6.16 has written them.
    const CRC: &[u8] = &[4, 0, 0, 0, 0, 0, 0, 0x84, 0x08, 0x04, 0x10, 0x00, 0, 0, 0, 0];
    const IDS: &[u8] = &[6, 0, 0, 0, 0, 0, 0, 0x82, 0x08, 0x01, 0x10, 0xbb, 0x81, 0x01, 0, 0];
    const ENTRY: &[u8] = &[8, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x02, 0x10, 0xc2, 0xee, 0x01, 0x1a, 0x00];
    const SAVED: &[u8] = &[8, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x03, 0x10, 0x9d, 0xe0, 0x01, 0x1a, 0x00];

    fn wal(records: &[&[u8]], rest: &[u8]) -> tempfile::TempDir {
        let wal = tempfile::tempdir().unwrap();
        fs::write(wal.path().join(FIRST), [records.concat(), rest.to_vec()].concat()).unwrap();
        wal
    }

    fn both(wal: &tempfile::TempDir) -> (bool, bool) {
        (is_born(wal.path()).unwrap(), has_saved(wal.path()).unwrap())
    }

    #[test]
    fn d25_a_wal_that_was_only_created_is_not_born() {
        assert_eq!(both(&wal(&[CRC, IDS], &vec![0; 200_000])), (false, false));
        assert_eq!(
            both(&wal(&[CRC, IDS, ENTRY], &[0; 4096])),
            (false, false),
            "its save was never whole"
        );
        assert_eq!(both(&wal(&[CRC, IDS], &[])), (false, false));
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(both(&nothing), (false, false));
        assert!(!is_born(&nothing.path().join("absent")).unwrap());
        fs::write(nothing.path().join("0.tmp"), "x").unwrap();
        assert_eq!(both(&nothing), (false, false));
    }

    #[test]
    fn a_first_save_is_the_birth() {
        assert_eq!(both(&wal(&[CRC, IDS, ENTRY, SAVED], &[0; 4096])), (true, true));
    }

    #[test]
    fn what_cannot_be_told_is_never_taken_for_unborn() {
        // A length or a sector zeroed in mid-file.
        assert_eq!(
            both(&wal(&[CRC, IDS, &[0; 512], ENTRY, SAVED], &[0; 4096])),
            (true, false)
        );
        let late = [vec![0; 100_000], vec![1]].concat();
        assert_eq!(both(&wal(&[CRC, IDS], &late)), (true, false));
        for strange in [&[0_u8; 64][..], b"x", &[4, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9], &[255; 64]] {
            assert_eq!(both(&wal(&[], strange)), (true, false), "{strange:?}");
        }
        let later = wal(&[CRC, IDS], &[0; 64]);
        fs::write(later.path().join("0000000000000001-0000000000000100.wal"), "").unwrap();
        assert_eq!(both(&later), (true, true));
        assert!(is_born(&later.path().join(FIRST)).is_err(), "not a folder");
    }
}
