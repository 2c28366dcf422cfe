//! The data volume of a member, as the machine sees it: its files can be changed behind etcd's back.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount_remount};

/// What [`Volume::fill`] writes.
const FILLER: &str = "filler";
/// Blocks of it.
const BLOCK: usize = 1 << 20;

/// A mounted volume.
#[derive(Clone, Debug)]
pub struct Volume(PathBuf);

impl Volume {
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        ensure!(path.is_dir(), "{} is no volume", path.display());
        Ok(Self(path))
    }

    /// etcd's database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.0.join("member/snap/db")
    }

    /// Takes all the space that is left.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::create(self.0.join(FILLER))?;
        for size in [BLOCK, 4096, 512] {
            let block = vec![1_u8; size];
            loop {
                match file.write(&block) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Lets only so many more files be made; `None`: as many as one likes.
    pub fn leave_files(&self, count: Option<u64>) -> Result<()> {
        let stat = rustix::fs::statvfs(&self.0)?;
        let limit = count.map_or(0, |count| stat.f_files - stat.f_ffree + count);
        let options = std::ffi::CString::new(format!("nr_inodes={limit}"))?;
        mount_remount(&self.0, MountFlags::empty(), options.as_c_str())
            .with_context(|| format!("cannot limit the files of {}", self.0.display()))
    }
}

/// Where this text stands in a file.
pub fn places(path: &Path, text: &[u8]) -> Result<Vec<u64>> {
    let content = fs::read(path)?;
    let found = content
        .windows(text.len())
        .enumerate()
        .filter(|(_, window)| *window == text);
    found.map(|(at, _)| Ok(u64::try_from(at)?)).collect()
}

/// Puts `to` in the place of `from`, of the same length, wherever it stands. A database of etcd has no checksum over its
/// pages, so it notices nothing.
pub fn change(path: &Path, from: &[u8], to: &[u8]) -> Result<()> {
    ensure!(from.len() == to.len(), "both must have one length");
    let found = places(path, from)?;
    ensure!(!found.is_empty(), "it stands nowhere in {}", path.display());
    let file = OpenOptions::new().write(true).open(path)?;
    for at in found {
        file.write_all_at(to, at)?;
    }
    Ok(file.sync_all()?)
}
