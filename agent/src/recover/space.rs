//! How much room a recovery takes. Looked at before anything is begun, because it must not end half-way on a full volume.

use std::fs;
use std::io;
use std::path::Path;

use super::journal::Mode;

/// etcd makes a segment of the log ahead of its use, and one more ahead of that.
const SEGMENT: u64 = 64_000_000;
/// Segments of the isolated etcd and of the restored directory that are made anew.
const SEGMENTS: u64 = 4;
/// For journals, rounding, and whatever else writes.
const MARGIN: u64 = 16 << 20;

/// What is there, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The database.
    pub db: u64,
    /// All segments of the log: entries that are not in the database yet come into it.
    pub wal: u64,
    /// What a copy of the directory takes: all but the segments that nobody writes to any more.
    pub copied: u64,
    /// Free on the volume.
    pub free: u64,
}

/// The mode there is room for; else the bytes that must be free.
pub fn mode(sizes: Sizes) -> Result<Mode, u64> {
    let made = (sizes.db + sizes.wal) * 2 - sizes.db + SEGMENTS * SEGMENT + MARGIN;
    if sizes.free >= made + sizes.copied {
        Ok(Mode::Copy)
    } else if sizes.free >= made {
        Ok(Mode::InPlace)
    } else {
        Err(made)
    }
}

/// Measures a `member/`.
pub fn measure(member: &Path, volume: &Path) -> io::Result<Sizes> {
    let length = |path: &Path| match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => metadata.map(|metadata| metadata.len()),
    };
    let db = length(&member.join("snap/db"))?;
    let (mut wal, mut last) = (0, 0);
    for segment in segments(&member.join("wal"))? {
        last = length(&segment)?;
        wal += last;
    }
    let stat = rustix::fs::statvfs(volume)?;
    Ok(Sizes {
        db,
        wal,
        copied: db + last,
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

/// The segments of a log, the oldest first.
pub fn segments(wal: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(wal)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_room_for_a_copy_it_is_done_in_place_and_without_room_for_that_not_at_all() {
        let sizes = |free| Sizes {
            db: 1 << 30,
            wal: 1 << 20,
            copied: 1 << 30,
            free,
        };
        assert_eq!(mode(sizes(4 << 30)), Ok(Mode::Copy));
        assert_eq!(mode(sizes(3 << 29)), Ok(Mode::InPlace));
        let needed = mode(sizes(1 << 29)).unwrap_err();
        assert_eq!(mode(sizes(needed)), Ok(Mode::InPlace), "what is asked for is enough");
    }
}
