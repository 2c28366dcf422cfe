//! The two meta pages.

use super::{Failure, damaged};
use crate::input::Input;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Where a meta stands in its page.
const AT: u64 = 16;
/// Its bytes, the checksum among them.
const LEN: usize = 64;
/// The second meta page is looked for at these page sizes (bbolt `db.go`, `getPageSizeFromSecondMeta`).
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 10..=24;

/// What a valid meta page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_size: u64,
    /// Page of the root bucket.
    pub(crate) root: u64,
    /// The first page that is not in use, nor is any after it.
    pub(crate) high_water: u64,
    pub(crate) transaction: u64,
}

/// The valid one of the two with the higher transaction.
pub(crate) fn newest(input: &Input) -> Result<Meta, Failure> {
    let first = read(input, 0)?;
    let second = match first {
        Some(first) => read(input, first.page_size)?,
        None => second_alone(input)?,
    };
    match first.into_iter().chain(second).max_by_key(|meta| meta.transaction) {
        Some(meta) => Ok(meta),
        None => damaged(0, "neither of its two meta pages is valid"),
    }
}

fn second_alone(input: &Input) -> Result<Option<Meta>, Failure> {
    for power in PAGE_SIZES {
        let page_size = 1_u64 << power;
        if let Some(meta) = read(input, page_size)?
            && meta.page_size == page_size
        {
            return Ok(Some(meta));
        }
    }
    Ok(None)
}

fn read(input: &Input, page: u64) -> Result<Option<Meta>, Failure> {
    let mut bytes = [0; LEN];
    if input.read_at(page + AT, &mut bytes)? < LEN {
        return Ok(None);
    }
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8; LEN]) -> Option<Meta> {
    let (content, checksum) = bytes.split_last_chunk::<8>()?;
    if fnv_1a(content) != u64::from_ne_bytes(*checksum) {
        return None;
    }
    let u32_at = |at: usize| Some(u32::from_ne_bytes(*content.get(at..)?.first_chunk()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(*content.get(at..)?.first_chunk()?));
    let page_size = u64::from(u32_at(8)?);
    let sound = u32_at(0)? == MAGIC && u32_at(4)? == VERSION && page_size.is_power_of_two() && page_size >= 1024;
    sound.then_some(Meta {
        page_size,
        root: u64_at(16)?,
        high_water: u64_at(40)?,
        transaction: u64_at(48)?,
    })
}

/// FNV-1a, 64 bits.
pub(crate) fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
