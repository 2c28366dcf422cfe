//! WAL files written record by record, for tests.
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

use std::fs;
use std::path::Path;

use super::encode::{numbers, record};
use super::record::kind;
use crate::protobuf::put_varint;

/// A WAL of one file.
pub(crate) struct Written {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
    crc: u32,
}

impl Written {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            bytes: Vec::new(),
            crc: 0,
        }
    }

    fn record(mut self, kind: u64, data: &[u8]) -> Self {
        let bytes = record(kind, &mut self.crc, data);
        self.raw(&bytes)
    }

    pub(crate) fn crc(self) -> Self {
        self.record(kind::CRC, &[])
    }

    pub(crate) fn identity(self, member: u64, cluster: u64) -> Self {
        self.record(kind::METADATA, &numbers(&[member, cluster]))
    }

    pub(crate) fn snapshot(self, index: u64, term: u64) -> Self {
        self.record(kind::SNAPSHOT, &numbers(&[index, term]))
    }

    pub(crate) fn entry(self, term: u64, index: u64, content: &[u8]) -> Self {
        let mut data = numbers(&[0, term, index]);
        data.push(0x22);
        put_varint(&mut data, content.len() as u64);
        data.extend_from_slice(content);
        self.record(kind::ENTRY, &data)
    }

    pub(crate) fn state(self, term: u64, vote: u64, commit: u64) -> Self {
        self.record(kind::STATE, &numbers(&[term, vote, commit]))
    }

    pub(crate) fn zeros(self, count: usize) -> Self {
        self.raw(&vec![0; count])
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the file.
    pub(crate) fn done(self) -> Self {
        fs::write(self.file(), &self.bytes).unwrap();
        self
    }

    pub(crate) fn file(&self) -> std::path::PathBuf {
        self.path().join("0000000000000000-0000000000000000.wal")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}
