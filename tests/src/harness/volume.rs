//! The data volume of a member, as the machine sees it: its files can be changed behind etcd's back.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::Process;

/// What [`Volume::fill`] writes.
const FILLER: &str = "filler";
/// Blocks of it.
const BLOCK: usize = 1 << 20;

/// A mounted volume, as long as a Pod uses it: only the node's mount namespace has it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// A process in that namespace.
    node: Process,
    /// Where it is mounted there.
    path: String,
}

/// Deletes all that is in a folder.
pub fn empty(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

impl Volume {
    pub(super) fn new(node: Process, path: &Path) -> Result<Self> {
        let path = path.to_str().context("not UTF-8")?.to_owned();
        let volume = Self { node, path };
        let root = volume.root();
        ensure!(root.is_dir(), "{} is no volume", root.display());
        Ok(volume)
    }

    fn root(&self) -> PathBuf {
        self.node.path(&self.path)
    }

    /// etcd's database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root().join("member/snap/db")
    }

    /// Takes all the space that is left.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::create(self.root().join(FILLER))?;
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
        let stat = rustix::fs::statvfs(self.root())?;
        let limit = count.map_or(0, |count| stat.f_files - stat.f_ffree + count);
        // A mount is changed only from its own namespace.
        let done = Command::new("nsenter")
            .args([&format!("--target={}", self.node.id()), "--mount", "mount", "-o"])
            .args([&format!("remount,nr_inodes={limit}"), &self.path])
            .output()
            .context("nsenter cannot be run")?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "cannot limit the files of {}: {said}", self.path);
        Ok(())
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
