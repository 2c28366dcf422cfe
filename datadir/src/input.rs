//! A file that is read at given places: what is read is bounded by the reader's own buffers, never by what the file says.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::Error;

/// An open file, its length when it was opened, and its path for messages.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    file: File,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::at(path))?;
        let metadata = file.metadata().map_err(Error::at(path))?;
        if !metadata.is_file() {
            return Err(Error::at(path)(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a regular file",
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            len: metadata.len(),
            file,
        })
    }

    /// Fills the buffer as far as the file goes, and tells how far.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self
                .file
                .read_at(&mut buffer[filled..], offset.saturating_add(filled as u64))
            {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::at(&self.path)(error)),
            }
        }
        Ok(filled)
    }
}

/// How much of a file is held at a time.
const WINDOW: usize = 128 * 1024;

/// Reads one file from a place onwards, or again from an earlier one, through one buffer.
#[derive(Debug)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    start: u64,
    filled: usize,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; WINDOW],
            start: 0,
            filled: 0,
        }
    }

    /// Another file comes.
    pub(crate) fn forget(&mut self) {
        self.filled = 0;
    }

    /// The bytes from `offset` on: at least `wanted` (which is at most the window), unless the file ends before.
    pub(crate) fn bytes(&mut self, input: &Input, offset: u64, wanted: usize) -> Result<&[u8], Error> {
        let end = self.start + self.filled as u64;
        let held = offset >= self.start && offset.saturating_add(wanted as u64) <= end;
        if !held {
            self.filled = 0;
            self.filled = input.read_at(offset, &mut self.buffer)?;
            self.start = offset;
        }
        let from = usize::try_from(offset - self.start)
            .unwrap_or(usize::MAX)
            .min(self.filled);
        Ok(&self.buffer[from..self.filled])
    }
}

/// The first place from `offset` on that is not zero.
pub(crate) fn first_non_zero(input: &Input, window: &mut Window, mut offset: u64) -> Result<Option<u64>, Error> {
    loop {
        let bytes = window.bytes(input, offset, 1)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let (chunk, zeros) = (bytes.len() as u64, zeros(bytes));
        if (zeros as u64) < chunk {
            return Ok(Some(offset + zeros as u64));
        }
        offset += chunk;
    }
}

/// How many bytes at the beginning are zero.
fn zeros(bytes: &[u8]) -> usize {
    const WORD: usize = 64;
    let whole = bytes.chunks_exact(WORD).take_while(|word| **word == [0; WORD]).count() * WORD;
    whole + bytes[whole..].iter().take_while(|byte| **byte == 0).count()
}
