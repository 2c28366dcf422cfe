//! How long it takes to read a data directory of 1 GiB, and how much memory.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use datadir::testing::{self, Log};

use super::{experiment::Readings, process::MIB};
use crate::kube::project;

/// Files of the log, as many as etcd keeps, and one that is being written.
const FILES: u64 = 6;
const FILE_BYTES: usize = 64_000_000;
const DIRECTORY_BYTES: u64 = 1 << 30;
/// What a client writes with one request.
const CONTENT: [u8; 4000] = [7; 4000];

/// `inspect-1g-seconds` and `inspect-1g-rss`: `etcd-agent inspect`, all files in the page cache.
pub fn run() -> Result<Readings> {
    let binary = project().join("target/x86_64-unknown-linux-musl/release/etcd-agent");
    ensure!(binary.exists(), "{} is not there; run `make images`", binary.display());
    let folder = project().join("target/bench/inspect-1g");
    if !folder.exists() {
        write(&folder)?;
    }
    inspect(&binary, &folder)?;
    let (seconds, resident) = inspect(&binary, &folder)?;
    Ok(vec![("inspect-1g-seconds", seconds), ("inspect-1g-rss", resident)])
}

fn write(folder: &Path) -> Result<()> {
    let wal = folder.join("member/wal");
    let (mut index, mut log) = (0, Log::new().crc().identity(7, 9).snapshot(0, 0));
    testing::directory(folder, &Log::new(), 1)?;
    for file in 0..FILES {
        let first = if file == 0 { 0 } else { index + 1 };
        while log.bytes().len() < FILE_BYTES {
            index += 1;
            log = log.entry(1, index, &CONTENT).state(1, 7, index);
        }
        fs::write(wal.join(format!("{file:016x}-{first:016x}.wal")), log.bytes())?;
        log = log.next_file().identity(7, 9).state(1, 7, index);
    }
    // The rest is the db's, of which only a few pages are read.
    let db = fs::OpenOptions::new().write(true).open(folder.join("member/snap/db"))?;
    Ok(db.set_len(DIRECTORY_BYTES - FILES * FILE_BYTES as u64)?)
}

/// Seconds, and the most memory that was resident, in MiB.
fn inspect(binary: &Path, folder: &Path) -> Result<(f64, f64)> {
    let begin = Instant::now();
    let mut child = Command::new(binary)
        .arg("inspect")
        .arg(folder)
        .stdout(Stdio::null())
        .spawn()
        .context("cannot run the agent")?;
    let mut most = 0.0_f64;
    loop {
        if let Some(resident) = high_water(child.id()) {
            most = most.max(resident);
        }
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "inspect ended with {status}");
            return Ok((begin.elapsed().as_secs_f64(), most / MIB));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn high_water(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024.0)
}
