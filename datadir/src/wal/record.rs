//! One WAL file, record by record, as etcd decodes it (`server/storage/wal/decoder.go`), in bounded memory.
//!
//! Framing: a little-endian length of 8 bytes, whose low 56 bits count the record's bytes and whose high byte is
//! `0x80 | padding` when there is padding; a protobuf `Record{type = 1, crc = 2, data = 3}`; the padding to 8 bytes.
//! The CRC-32C runs over the data of all records, of all files.

use crate::Error;
use crate::input::{Input, Window};
use crate::protobuf;

/// Kinds of records.
pub(crate) mod kind {
    pub(crate) const METADATA: u64 = 1;
    pub(crate) const ENTRY: u64 = 2;
    pub(crate) const STATE: u64 = 3;
    pub(crate) const CRC: u64 = 4;
    pub(crate) const SNAPSHOT: u64 = 5;
}

/// Bytes of the length before each record.
pub(crate) const FRAME: u64 = 8;
/// etcd looks for torn writes by sectors of this size.
const SECTOR: u64 = 512;
/// So much of an entry's data is kept: enough for what stands before its content.
const HEAD: usize = 64;
/// So much of the data of any other record is kept, and of an entry that changes the membership.
const WHOLE: usize = 64 * 1024;

/// One record.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u64,
    /// The CRC that it holds.
    pub(crate) crc: u32,
    /// The beginning of its data: all of it when `whole`.
    pub(crate) data: &'a [u8],
    pub(crate) whole: bool,
}

/// What stands at a place in a file.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A record whose CRC is right, and where the next one begins.
    Record(Record<'a>, u64),
    /// The end of the file, or a length of zero.
    End,
    /// Neither.
    Broken(Broken),
}

/// No record stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    /// etcd takes it for an incomplete write when it is in the last file.
    pub(crate) torn: bool,
    pub(crate) why: &'static str,
}

/// Reads records and keeps the running CRC.
#[derive(Debug)]
pub(crate) struct Decoder {
    window: Window,
    data: Vec<u8>,
    /// Over all data so far.
    pub(crate) crc: u32,
}

/// The length before a record, taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// Bytes of the record.
    pub(crate) bytes: u64,
    /// Bytes of the padding behind it.
    pub(crate) padding: u64,
}

impl Frame {
    pub(crate) fn of(length: u64) -> Self {
        Self {
            bytes: length & (u64::MAX >> 8),
            padding: if length >> 63 == 0 { 0 } else { (length >> 56) & 7 },
        }
    }

    /// From the length to the end of the padding.
    pub(crate) fn whole(self) -> u64 {
        FRAME + self.bytes + self.padding
    }
}

/// The fields of a record, read without holding its data.
struct Parsed {
    kind: u64,
    crc: u32,
    /// Over the data, continuing the running one.
    sum: u32,
    whole: bool,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            window: Window::new(),
            data: Vec::with_capacity(HEAD),
            crc: 0,
        }
    }

    /// Another file comes; the CRC runs on.
    pub(crate) fn next_file(&mut self) {
        self.window.forget();
    }

    /// The buffer, for other reading of the same file.
    pub(crate) fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// What stands at `offset`. The CRC moves on only past a record that is right.
    pub(crate) fn step(&mut self, input: &Input, offset: u64) -> Result<Step<'_>, Error> {
        let bytes = self.window.bytes(input, offset, 8)?;
        let length = match bytes.first_chunk().copied().map(u64::from_le_bytes) {
            Some(length) => length,
            None if bytes.is_empty() => return Ok(Step::End),
            None => return Ok(broken(true, "the file ends within the length of a record")),
        };
        if length == 0 {
            return Ok(Step::End);
        }
        let frame = Frame::of(length);
        let end = offset.saturating_add(frame.whole());
        if end > input.len {
            return Ok(broken(true, "a record is longer than the rest of the file"));
        }
        let body = offset + FRAME;
        let parsed = self.parse(input, body, body + frame.bytes)?;
        let wrong = match &parsed {
            None => Some("a record is no record"),
            Some(parsed) if parsed.kind != kind::CRC && parsed.crc != parsed.sum => {
                Some("the checksum of a record is wrong")
            }
            Some(_) => None,
        };
        match (wrong, parsed) {
            (None, Some(parsed)) => {
                if parsed.kind != kind::CRC {
                    self.crc = parsed.sum;
                }
                let record = Record {
                    kind: parsed.kind,
                    crc: parsed.crc,
                    data: &self.data,
                    whole: parsed.whole,
                };
                Ok(Step::Record(record, end))
            }
            (why, _) => {
                let torn = self.has_zero_sector(input, body, end)?;
                Ok(broken(torn, why.unwrap_or_default()))
            }
        }
    }

    /// Takes the record at `offset` for a right one, whatever its CRC, and goes on from that: where the next one
    /// begins, or `None` when nothing there looks like a record as etcd writes it.
    pub(crate) fn resume(&mut self, input: &Input, offset: u64) -> Result<Option<u64>, Error> {
        let bytes = self.window.bytes(input, offset, 12)?;
        let Some((length, [0x08, 1..=5, 0x10, ..])) = bytes.split_first_chunk() else {
            return Ok(None);
        };
        let length = u64::from_le_bytes(*length);
        let frame = Frame::of(length);
        let end = offset.saturating_add(frame.whole());
        let canonical = frame.whole().is_multiple_of(8) && (length >> 56 == 0 || length >> 56 == 0x80 | frame.padding);
        if !canonical || end > input.len {
            return Ok(None);
        }
        let body = offset + FRAME;
        let parsed = self.parse(input, body, body + frame.bytes)?;
        self.crc = parsed.as_ref().map_or(0, |parsed| parsed.crc);
        Ok(parsed.map(|_| end))
    }

    /// `None` when it is no protobuf.
    fn parse(&mut self, input: &Input, start: u64, end: u64) -> Result<Option<Parsed>, Error> {
        let mut parsed = Parsed {
            kind: 0,
            crc: 0,
            sum: self.crc,
            whole: true,
        };
        self.data.clear();
        let mut at = start;
        while at < end {
            let Some(tag) = self.varint(input, &mut at, end)? else {
                return Ok(None);
            };
            let (number, wire) = (tag >> 3, tag & 7);
            match (number, wire) {
                (0, _) | (3.., 0) => return Ok(None),
                (_, 0) => {
                    let Some(value) = self.varint(input, &mut at, end)? else {
                        return Ok(None);
                    };
                    if number == 1 {
                        parsed.kind = value;
                    } else {
                        // etcd's decoder takes the low 32 bits.
                        let [a, b, c, d, ..] = value.to_le_bytes();
                        parsed.crc = u32::from_le_bytes([a, b, c, d]);
                    }
                }
                (3, 2) => {
                    let Some(len) = self.varint(input, &mut at, end)? else {
                        return Ok(None);
                    };
                    if len > end - at {
                        return Ok(None);
                    }
                    parsed.sum = self.sum(input, at, at + len, parsed.kind)?;
                    parsed.whole = self.data.len() as u64 == len;
                    at += len;
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(parsed))
    }

    /// The CRC over data in the file. Keeps its beginning.
    fn sum(&mut self, input: &Input, mut at: u64, end: u64, kind: u64) -> Result<u32, Error> {
        let mut sum = self.crc;
        let mut keep = WHOLE;
        self.data.clear();
        let start = at;
        while at < end {
            let bytes = self.window.bytes(input, at, 1)?;
            let rest = usize::try_from(end - at).unwrap_or(usize::MAX);
            let chunk = &bytes[..bytes.len().min(rest)];
            if chunk.is_empty() {
                return Err(Error::at(&input.path)(std::io::ErrorKind::UnexpectedEof.into()));
            }
            sum = crc32c::crc32c_append(sum, chunk);
            if at == start && kind == kind::ENTRY && !changes_membership(chunk) {
                keep = HEAD;
            }
            let wanted = keep.saturating_sub(self.data.len()).min(chunk.len());
            self.data.extend_from_slice(&chunk[..wanted]);
            at += chunk.len() as u64;
        }
        Ok(sum)
    }

    fn varint(&mut self, input: &Input, at: &mut u64, end: u64) -> Result<Option<u64>, Error> {
        let bytes = self.window.bytes(input, *at, 10)?;
        let rest = usize::try_from(end - *at).unwrap_or(usize::MAX);
        let mut bytes = &bytes[..bytes.len().min(rest)];
        let before = bytes.len();
        let value = protobuf::varint(&mut bytes);
        *at += (before - bytes.len()) as u64;
        Ok(value)
    }

    /// Is any of its sectors all zero, as far as it is the record's?
    fn has_zero_sector(&mut self, input: &Input, mut at: u64, end: u64) -> Result<bool, Error> {
        while at < end {
            let sector = (SECTOR - at % SECTOR).min(end - at);
            let len = usize::try_from(sector).unwrap_or(usize::MAX);
            let bytes = self.window.bytes(input, at, len)?;
            if bytes.len() < len {
                return Ok(false);
            }
            if bytes[..len].iter().all(|byte| *byte == 0) {
                return Ok(true);
            }
            at += sector;
        }
        Ok(false)
    }
}

/// `Entry{type = 1, ...}` with a type that is not 0 (normal).
fn changes_membership(entry: &[u8]) -> bool {
    matches!(entry, [0x08, 1 | 2, ..])
}

fn broken(torn: bool, why: &'static str) -> Step<'static> {
    Step::Broken(Broken { torn, why })
}
