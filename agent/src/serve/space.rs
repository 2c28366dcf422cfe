//! What is left on the data volume. Pure, but for reading it.

use std::fmt;
use std::path::Path;

use proto::agent as wire;
use proto::room::{FULL_BYTES, FULL_INODES, ROOM_BYTES};

/// Size and what is free of it; all 0 while it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Size of the volume, bytes.
    pub total_bytes: u64,
    /// What etcd can still take of it.
    pub free_bytes: u64,
    /// Files that fit on it; 0 where the file system does not count them.
    pub total_inodes: u64,
    /// Files that can still be made.
    pub free_inodes: u64,
}

/// How bad it is. Each is told as soon as it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Not bad, or not known.
    Ample,
    /// etcd goes on for a while, and cannot begin its next log file.
    Low,
    /// Nothing goes on.
    Full,
}

impl Space {
    /// Asks the file system.
    pub fn read(volume: &Path) -> Result<Self, String> {
        let stat = rustix::fs::statvfs(volume).map_err(|error| format!("{}: {error}", volume.display()))?;
        Ok(Self {
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_inodes: stat.f_files,
            free_inodes: stat.f_favail,
        })
    }

    /// How bad it is.
    #[must_use]
    pub fn level(self) -> Level {
        let few_files = self.total_inodes > 0 && self.free_inodes < FULL_INODES;
        match (self.total_bytes, self.free_bytes) {
            (0, _) => Level::Ample,
            _ if few_files => Level::Full,
            (_, free) if free < FULL_BYTES => Level::Full,
            (_, free) if free < ROOM_BYTES => Level::Low,
            _ => Level::Ample,
        }
    }
}

impl From<&wire::Disk> for Space {
    fn from(disk: &wire::Disk) -> Self {
        Self {
            total_bytes: disk.total_bytes,
            free_bytes: disk.free_bytes,
            total_inodes: disk.total_inodes,
            free_inodes: disk.free_inodes,
        }
    }
}

impl From<Space> for wire::Disk {
    fn from(space: Space) -> Self {
        Self {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            total_inodes: space.total_inodes,
            free_inodes: space.free_inodes,
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total_inodes > 0 && self.free_inodes < FULL_INODES {
            return write!(
                out,
                "{} of {} files can still be made on the data volume",
                self.free_inodes, self.total_inodes
            );
        }
        let mib = |bytes: u64| bytes >> 20;
        write!(
            out,
            "{} of {} MiB are free on the data volume, etcd's log needs {}",
            mib(self.free_bytes),
            mib(self.total_bytes),
            mib(ROOM_BYTES)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Space = Space {
        total_bytes: 1 << 30,
        free_bytes: 1 << 29,
        total_inodes: 1000,
        free_inodes: 500,
    };

    #[test]
    fn d11_a_volume_without_bytes_or_without_files_is_full_and_an_unknown_one_is_not() {
        let bytes = |free_bytes| Space { free_bytes, ..SPACE };
        assert_eq!(SPACE.level(), Level::Ample);
        assert_eq!(bytes(ROOM_BYTES - 1).level(), Level::Low);
        assert_eq!(bytes(FULL_BYTES - 1).level(), Level::Full);
        let files = |total_inodes, free_inodes| Space {
            total_inodes,
            free_inodes,
            ..SPACE
        };
        assert_eq!(files(1000, 3).level(), Level::Full);
        assert_eq!(files(0, 0).level(), Level::Ample, "it does not count them");
        assert_eq!(Space::default().level(), Level::Ample);
        assert!(files(1000, 3).to_string().contains("3 of 1000 files"));
    }
}
