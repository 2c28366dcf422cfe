//! How a disk damages etcd's log, behind etcd's back.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The newest file of the log on a data volume.
pub fn log_file(volume: &Path) -> Result<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(volume.join("member/wal"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "wal"))
        .collect();
    files.sort();
    files.pop().context("no WAL")
}

/// Where a record in the middle of the log begins.
pub fn record_in_log(log: &Path) -> Result<u64> {
    let file = File::open(log)?;
    let (mut records, mut at) = (Vec::new(), 0);
    loop {
        let mut length = [0; 8];
        if file.read_at(&mut length, at)? < 8 || length == [0; 8] {
            break;
        }
        records.push(at);
        let length = u64::from_le_bytes(length);
        let padding = if length >> 63 == 1 { (length >> 56) & 7 } else { 0 };
        at += 8 + (length & (u64::MAX >> 8)) + padding;
    }
    records.get(records.len() / 2).copied().context("no record")
}

/// Puts bytes in the place of others.
pub fn overwrite(path: &Path, at: u64, bytes: &[u8]) -> Result<()> {
    Ok(OpenOptions::new().write(true).open(path)?.write_all_at(bytes, at)?)
}

/// Flips a byte of a record in the middle of the log on a data volume.
pub fn flip_in_log(volume: &Path) -> Result<()> {
    let log = log_file(volume)?;
    let at = record_in_log(&log)? + 12;
    let mut byte = [0];
    File::open(&log)?.read_exact_at(&mut byte, at)?;
    overwrite(&log, at, &[!byte[0]])
}
