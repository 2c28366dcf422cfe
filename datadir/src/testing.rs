//! Small data directories, written byte by byte, for tests: here and in crates that build on this one (feature
//! `testing`).

use std::fs;
use std::io;
use std::path::Path;

use crate::protobuf::put_varint;
use crate::wal::encode::{numbers, record};
use crate::wal::kind;

/// The name of a log's first file.
pub const FIRST_FILE: &str = "0000000000000000-0000000000000000.wal";

/// The content of a WAL file, record by record.
#[derive(Debug, Clone, Default)]
pub struct Log {
    bytes: Vec<u8>,
    crc: u32,
}

impl Log {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn record(mut self, kind: u64, data: &[u8]) -> Self {
        let bytes = record(kind, &mut self.crc, data);
        self.raw(&bytes)
    }

    /// The record that begins each file.
    #[must_use]
    pub fn crc(self) -> Self {
        self.record(kind::CRC, &[])
    }

    /// The next file, which goes on where this one ends.
    #[must_use]
    pub fn next_file(&self) -> Self {
        let empty = Self {
            bytes: Vec::new(),
            crc: self.crc,
        };
        empty.crc()
    }

    /// Whose log it is.
    #[must_use]
    pub fn identity(self, member: u64, cluster: u64) -> Self {
        self.record(kind::METADATA, &numbers(&[member, cluster]))
    }

    /// A snapshot record.
    #[must_use]
    pub fn snapshot(self, index: u64, term: u64) -> Self {
        self.record(kind::SNAPSHOT, &numbers(&[index, term]))
    }

    /// A normal entry.
    #[must_use]
    pub fn entry(self, term: u64, index: u64, content: &[u8]) -> Self {
        let mut data = numbers(&[0, term, index]);
        data.push(0x22);
        put_varint(&mut data, content.len() as u64);
        data.extend_from_slice(content);
        self.record(kind::ENTRY, &data)
    }

    /// A hard state.
    #[must_use]
    pub fn state(self, term: u64, vote: u64, commit: u64) -> Self {
        self.record(kind::STATE, &numbers(&[term, vote, commit]))
    }

    /// As etcd preallocates them.
    #[must_use]
    pub fn zeros(self, count: usize) -> Self {
        self.raw(&vec![0; count])
    }

    /// Anything.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// What was written so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A log of one lone member that has committed `entries` entries.
#[must_use]
pub fn log(member: u64, cluster: u64, entries: u64) -> Log {
    let begun = Log::new().crc().identity(member, cluster).snapshot(0, 0);
    (1..=entries).fold(begun, |log, index| {
        log.entry(1, index, b"content").state(1, member, index)
    })
}

/// A db in which `applied` is recorded, of etcd 3.5.
#[must_use]
pub fn db(applied: u64) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut bytes = Vec::new();
    for transaction in 0..2_u64 {
        let mut meta = Vec::new();
        for word in [0xED0C_DAED_u32, 2, 4096, 0] {
            meta.extend(word.to_ne_bytes());
        }
        // Root page, its sequence, no free list, pages in use, transaction.
        for word in [2, 0, u64::MAX, 3, transaction] {
            meta.extend(word.to_ne_bytes());
        }
        let sum = crate::bolt::fnv_1a(&meta);
        meta.extend(sum.to_ne_bytes());
        bytes.extend(page(transaction, 0x04, 0));
        bytes.extend(meta);
        bytes.resize((usize::try_from(transaction).unwrap_or(0) + 1) * PAGE, 0);
    }
    let values: [(&[u8], Vec<u8>); 2] = [
        (b"consistent_index", applied.to_be_bytes().to_vec()),
        (b"term", 1_u64.to_be_bytes().to_vec()),
    ];
    let mut bucket = vec![0; 16];
    bucket.extend(leaf(0, 0, &values));
    bytes.extend(leaf(2, 1, &[(b"meta", bucket)]));
    bytes.resize(3 * PAGE, 0);
    bytes
}

fn page(id: u64, flags: u16, count: u16) -> Vec<u8> {
    let mut header = id.to_ne_bytes().to_vec();
    header.extend(flags.to_ne_bytes());
    header.extend(count.to_ne_bytes());
    header.extend(0_u32.to_ne_bytes());
    header
}

fn leaf(id: u64, flags: u32, pairs: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut bytes = page(id, 0x02, u16::try_from(pairs.len()).unwrap_or(u16::MAX));
    let mut contents = Vec::new();
    for (at, (key, value)) in pairs.iter().enumerate() {
        let position = (pairs.len() - at) * 16 + contents.len();
        for word in [flags as usize, position, key.len(), value.len()] {
            bytes.extend(u32::try_from(word).unwrap_or(u32::MAX).to_ne_bytes());
        }
        contents.extend_from_slice(key);
        contents.extend_from_slice(value);
    }
    bytes.extend(contents);
    bytes
}

/// Writes `member/` with this log and a db that has applied so much.
pub fn directory(path: &Path, log: &Log, applied: u64) -> io::Result<()> {
    let (wal, snap) = (path.join("member/wal"), path.join("member/snap"));
    fs::create_dir_all(&wal)?;
    fs::create_dir_all(&snap)?;
    fs::write(wal.join(FIRST_FILE), log.bytes())?;
    fs::write(snap.join("db"), db(applied))
}

/// Writes the directory of a lone member that is whole.
pub fn intact(path: &Path, member: u64, cluster: u64) -> io::Result<()> {
    directory(path, &log(member, cluster, 5).zeros(4096), 5)
}
