//! bbolt, as far as reading goes: the newest valid meta page, buckets by name, the pages of their trees.
//!
//! Format: bbolt `internal/common/{meta,page,bucket}.go`. All numbers are of the machine's own byte order. Every place
//! comes from the file and is trusted by nobody: it is checked against the page it must lie in, pages against the mark
//! that the meta page sets, and the number of pages that are visited is bounded (a tree may point back to itself).

mod meta;
mod page;

pub(crate) use meta::Meta;
#[cfg(any(test, feature = "testing"))]
pub(crate) use meta::fnv_1a;

use crate::Error;
use crate::input::Input;
use page::{Element, Page};

/// Pages and elements that one walk visits. The buckets that are read as a whole are small.
const VISITS: usize = 1 << 17;
/// Levels of a tree. With 4 KiB pages ten of them hold more keys than a disk does.
const DEPTH: usize = 32;
/// Keys and values that are read into memory. etcd's own keys are far smaller; the values are members in JSON.
const KEY: u64 = 1024;
const VALUE: u64 = 256 * 1024;

/// Why nothing was read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The content is wrong there.
    Damaged(Damaged),
    /// The file could not be read.
    Io(Error),
}

/// Wrong content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damaged {
    pub(crate) offset: u64,
    pub(crate) why: &'static str,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Io(error)
    }
}

fn damaged<T>(offset: u64, why: &'static str) -> Result<T, Failure> {
    Err(Failure::Damaged(Damaged { offset, why }))
}

/// An open database, at one of its transactions.
#[derive(Debug)]
pub(crate) struct Db<'f> {
    input: &'f Input,
    pub(crate) meta: Meta,
}

/// One bucket: its root page, or the page that stands in its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket(Root);

#[derive(Debug, Clone, Copy)]
enum Root {
    Page(u64),
    Inline(Page),
}

impl<'f> Db<'f> {
    /// The newest transaction of which the meta page is valid.
    pub(crate) fn open(input: &'f Input) -> Result<Self, Failure> {
        let meta = meta::newest(input)?;
        let needed = meta.high_water.saturating_mul(meta.page_size);
        if input.len < needed {
            return damaged(input.len, "the file is shorter than the pages that are in use");
        }
        Ok(Self { input, meta })
    }

    /// The bucket of that name.
    pub(crate) fn bucket(&self, name: &[u8]) -> Result<Option<Bucket>, Failure> {
        let mut found = None;
        self.each(Bucket(Root::Page(self.meta.root)), &mut |element, page| {
            if element.is_bucket && self.key(page, element)? == name {
                found = Some(self.sub_bucket(page, element)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Keys and values of a small bucket, in order.
    pub(crate) fn pairs(&self, bucket: Bucket, see: &mut impl FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        self.each(bucket, &mut |element, page| {
            if !element.is_bucket {
                see(&self.key(page, element)?, &self.value(page, element)?);
            }
            Ok(())
        })
    }

    /// The last key of a bucket of any size.
    pub(crate) fn last_key(&self, bucket: Bucket) -> Result<Option<Vec<u8>>, Failure> {
        let mut page = self.root(bucket)?;
        for _ in 0..DEPTH {
            let Some(last) = page.count.checked_sub(1) else {
                return Ok(None);
            };
            let element = page.element(self.input, last)?;
            match element.child {
                Some(child) => page = self.page(child, page.offset)?,
                None => return self.key(page, element).map(Some),
            }
        }
        damaged(page.offset, "the tree of pages has no end")
    }

    fn each(&self, bucket: Bucket, see: &mut dyn FnMut(Element, Page) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut left = VISITS;
        self.walk(self.root(bucket)?, DEPTH, &mut left, see)
    }

    fn walk(
        &self,
        page: Page,
        depth: usize,
        left: &mut usize,
        see: &mut dyn FnMut(Element, Page) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let visits = usize::from(page.count) + 1;
        if depth == 0 || *left < visits {
            return damaged(page.offset, "the tree of pages has no end");
        }
        *left -= visits;
        for index in 0..page.count {
            let element = page.element(self.input, index)?;
            match element.child {
                Some(child) => self.walk(self.page(child, page.offset)?, depth - 1, left, see)?,
                None => see(element, page)?,
            }
        }
        Ok(())
    }

    fn root(&self, bucket: Bucket) -> Result<Page, Failure> {
        match bucket.0 {
            Root::Page(id) => self.page(id, 0),
            Root::Inline(page) => Ok(page),
        }
    }

    fn page(&self, id: u64, referrer: u64) -> Result<Page, Failure> {
        if id < 2 || id >= self.meta.high_water {
            return damaged(referrer, "it points to a page that is not in use");
        }
        let offset = id * self.meta.page_size;
        let limit = self.meta.high_water * self.meta.page_size - offset;
        let page = Page::read(self.input, offset, limit, self.meta.page_size)?;
        if page.id != id {
            return damaged(offset, "a page has another page's number");
        }
        Ok(page)
    }

    /// A bucket's value: `{root, sequence}`; with root 0 its only page follows.
    fn sub_bucket(&self, page: Page, element: Element) -> Result<Bucket, Failure> {
        let (start, len) = page.value(element)?;
        let mut header = [0; 16];
        if len < 16 || self.input.read_at(start, &mut header)? < 16 {
            return damaged(start, "a bucket has no header");
        }
        if let Some(root) = header
            .first_chunk()
            .copied()
            .map(u64::from_ne_bytes)
            .filter(|root| *root != 0)
        {
            return Ok(Bucket(Root::Page(root)));
        }
        Ok(Bucket(Root::Inline(Page::read(
            self.input,
            start + 16,
            len - 16,
            len - 16,
        )?)))
    }

    fn key(&self, page: Page, element: Element) -> Result<Vec<u8>, Failure> {
        let (start, len) = page.key(element)?;
        self.bytes(start, len, KEY)
    }

    fn value(&self, page: Page, element: Element) -> Result<Vec<u8>, Failure> {
        let (start, len) = page.value(element)?;
        self.bytes(start, len, VALUE)
    }

    fn bytes(&self, start: u64, len: u64, most: u64) -> Result<Vec<u8>, Failure> {
        if len > most {
            return damaged(start, "a key or a value is larger than etcd makes any");
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        if self.input.read_at(start, &mut bytes)? < bytes.len() {
            return damaged(start, "the file ends within a key or a value");
        }
        Ok(bytes)
    }
}
