//! One page and its elements. Nothing of it is held in memory.

use super::{Failure, damaged};
use crate::input::Input;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
/// Bytes of a page's header, and of each of its elements.
const HEADER: u64 = 16;
const ELEMENT: u64 = HEADER;
/// Flag of a leaf element whose value is a bucket.
const IS_BUCKET: u32 = 1;

/// The header of a branch or leaf page, and where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) id: u64,
    pub(crate) offset: u64,
    pub(crate) count: u16,
    len: u64,
    branch: bool,
}

/// One element, with places that are not checked yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element {
    /// The page below, in a branch.
    pub(crate) child: Option<u64>,
    pub(crate) is_bucket: bool,
    offset: u64,
    position: u64,
    key: u64,
    value: u64,
}

impl Page {
    /// Reads the header. The page, with the pages that it runs over into, must end within `limit`.
    pub(crate) fn read(input: &Input, offset: u64, limit: u64, page_size: u64) -> Result<Self, Failure> {
        let mut header = [0_u8; 16];
        if limit < HEADER || input.read_at(offset, &mut header)? < header.len() {
            return damaged(offset, "the file ends within a page");
        }
        let [i0, i1, i2, i3, i4, i5, i6, i7, f0, f1, c0, c1, o0, o1, o2, o3] = header;
        let flags = u16::from_ne_bytes([f0, f1]);
        let overflow = u64::from(u32::from_ne_bytes([o0, o1, o2, o3]));
        let len = (overflow + 1).saturating_mul(page_size);
        if flags != BRANCH && flags != LEAF {
            return damaged(offset, "a page is neither a branch nor a leaf");
        }
        if len > limit {
            return damaged(offset, "a page runs over the pages that are in use");
        }
        let count = u16::from_ne_bytes([c0, c1]);
        if HEADER + u64::from(count) * ELEMENT > len {
            return damaged(offset, "a page has more elements than it can hold");
        }
        Ok(Self {
            id: u64::from_ne_bytes([i0, i1, i2, i3, i4, i5, i6, i7]),
            offset,
            count,
            len,
            branch: flags == BRANCH,
        })
    }

    pub(crate) fn element(self, input: &Input, index: u16) -> Result<Element, Failure> {
        let offset = self.offset + HEADER + u64::from(index) * ELEMENT;
        let mut bytes = [0_u8; 16];
        if input.read_at(offset, &mut bytes)? < bytes.len() {
            return damaged(offset, "the file ends within a page");
        }
        let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = bytes;
        let first = u32::from_ne_bytes([a0, a1, a2, a3]);
        let second = u32::from_ne_bytes([b0, b1, b2, b3]);
        let third = u32::from_ne_bytes([c0, c1, c2, c3]);
        let fourth = u32::from_ne_bytes([d0, d1, d2, d3]);
        Ok(if self.branch {
            Element {
                child: Some(u64::from_ne_bytes([c0, c1, c2, c3, d0, d1, d2, d3])),
                is_bucket: false,
                offset,
                position: first.into(),
                key: second.into(),
                value: 0,
            }
        } else {
            Element {
                child: None,
                is_bucket: first & IS_BUCKET != 0,
                offset,
                position: second.into(),
                key: third.into(),
                value: fourth.into(),
            }
        })
    }

    /// Place and length of the key.
    pub(crate) fn key(self, element: Element) -> Result<(u64, u64), Failure> {
        self.within(element, element.position, element.key)
    }

    /// Place and length of the value.
    pub(crate) fn value(self, element: Element) -> Result<(u64, u64), Failure> {
        self.within(element, element.position + element.key, element.value)
    }

    fn within(self, element: Element, position: u64, len: u64) -> Result<(u64, u64), Failure> {
        let start = element.offset + position;
        if start + len > self.offset + self.len {
            return damaged(element.offset, "a key or a value lies outside of its page");
        }
        Ok((start, len))
    }
}
