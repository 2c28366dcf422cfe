//! The files of a WAL.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// One file: `<sequence>-<index of its first entry>.wal`, both in 16 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Segment {
    pub(crate) sequence: u64,
    pub(crate) index: u64,
    pub(crate) path: PathBuf,
}

/// What a folder holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// In the order in which they were written.
    pub(crate) segments: Vec<Segment>,
    /// A `.wal` file is there whose name is not etcd's: etcd takes the folder for a log and passes over the file.
    pub(crate) strange: bool,
}

/// Lists the folder; nothing is in it when it is not there. `0.tmp` and `*.wal.broken` are no files of the log, as etcd
/// reads it.
pub(crate) fn list(wal: &Path) -> Result<Listing, Error> {
    let mut found = Listing::default();
    let entries = match fs::read_dir(wal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(Error::at(wal))?,
    };
    for entry in entries {
        let name = entry.map_err(Error::at(wal))?.file_name();
        if let Some((sequence, index)) = parse(&name) {
            found.segments.push(Segment {
                sequence,
                index,
                path: wal.join(name),
            });
        } else if Path::new(&name).extension().is_some_and(|extension| extension == "wal") {
            found.strange = true;
        }
    }
    found.segments.sort();
    Ok(found)
}

fn parse(name: &OsStr) -> Option<(u64, u64)> {
    let (sequence, index) = name.to_str()?.strip_suffix(".wal")?.split_once('-')?;
    Some((hex(sequence)?, hex(index)?))
}

/// 16 hex digits.
pub(crate) fn hex(digits: &str) -> Option<u64> {
    let well_formed = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    well_formed.then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn only_files_with_etcds_own_names_are_of_the_log_and_they_come_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "000000000000000a-00000000000000ff.wal",
            "0000000000000009-000000000000000b.wal",
            "0000000000000009-000000000000000b.wal.broken",
            "0.tmp",
            "9-b.wal",
            "000000000000000g-0000000000000000.wal",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let listing = list(folder.path()).unwrap();
        assert!(listing.strange);
        let found: Vec<_> = listing
            .segments
            .iter()
            .map(|segment| (segment.sequence, segment.index))
            .collect();
        assert_eq!(found, [(9, 11), (10, 255)]);
        assert_eq!(list(&folder.path().join("absent")).unwrap(), Listing::default());
    }
}
