//! Queries of a filter, or of a part of one, whose bytes belong to any owner.

use super::format::ListedHeader;
use super::shape::ListedShape;
use crate::Result;
use crate::packed::put_checksum;
use std::ops::{Deref, DerefMut, Range};

/// A filter in memory, or a part with only some of its pages. Any number of threads may query it
/// concurrently.
#[derive(Clone, Debug)]
pub struct ListedFilter<B> {
    pub(super) header: ListedHeader,
    pub(super) bytes: B,
}

impl<B: Deref<Target = [u8]>> ListedFilter<B> {
    /// Opens a filter by reading its header and directory. [`ListedFilter::check`] checks the rest.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if the bytes are not a filter or have the wrong length.
    pub fn open(bytes: B) -> Result<ListedFilter<B>> {
        let header = ListedHeader::read(&bytes)?;
        Ok(ListedFilter { header, bytes })
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the shape of the complete filter.
    #[must_use]
    pub fn shape(&self) -> ListedShape {
        self.header.shape
    }

    /// Returns the range of pages that are present.
    #[must_use]
    pub fn pages(&self) -> Range<u32> {
        self.header.first..self.header.first + self.header.pages
    }

    /// Returns whether all pages of the filter are present.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.pages() == (0..self.header.shape.pages())
    }

    /// Returns whether a hash may have been added. Always true if the page for the hash is not
    /// present (F13).
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if the bytes are not a valid filter.
    #[inline]
    pub fn may_hold(&self, hash: u64) -> Result<bool> {
        let shape = &self.header.shape;
        let fingerprint = shape.fingerprint(hash);
        let page = shape.page(fingerprint).wrapping_sub(self.header.first);
        if page >= self.header.pages {
            return Ok(true);
        }
        let (bucket, wanted) = shape.place(fingerprint);
        let mut list = self.header.list(&self.bytes, page, bucket)?;
        while let Some(found) = list.read()? {
            if found >= wanted {
                return Ok(found == wanted);
            }
        }
        Ok(false)
    }

    /// Copies some pages to a new, smaller filter. `zeroed` allocates the given number of zeroed
    /// bytes for it. Returns `None` if the range is empty or one of its pages is not present.
    #[must_use]
    pub fn part<T>(&self, pages: Range<u32>, zeroed: impl FnOnce(usize) -> T) -> Option<ListedFilter<T>>
    where
        T: DerefMut<Target = [u8]>,
    {
        let own = self.pages();
        if pages.is_empty() || pages.start < own.start || pages.end > own.end {
            return None;
        }
        let header = ListedHeader {
            first: pages.start,
            pages: pages.end - pages.start,
            ..self.header
        };
        let here = pages.start - own.start..pages.end - own.start;
        let copied = self.header.pages_in(&self.bytes, here.clone());
        let (begin, _) = self.header.entry(&self.bytes, here.start)?;
        let at = header.first_byte() as usize;
        let end = at + copied.len();
        let mut bytes = zeroed(end + size_of::<u64>());
        header.put(&mut bytes)?;
        for (to, from) in here.clone().enumerate() {
            let (byte, step) = self.header.entry(&self.bytes, from)?;
            header.put_entry(&mut bytes, to as u32, byte - begin, step)?;
        }
        header.put_entry(&mut bytes, header.pages, copied.len() as u64, 0)?;
        bytes.get_mut(at..end)?.copy_from_slice(copied);
        put_checksum(&mut bytes, end)?;
        Some(ListedFilter { header, bytes })
    }
}

impl<B: Deref<Target = [u8]>, C: Deref<Target = [u8]>> PartialEq<ListedFilter<C>> for ListedFilter<B> {
    fn eq(&self, other: &ListedFilter<C>) -> bool {
        *self.bytes == *other.bytes
    }
}

impl<B: Deref<Target = [u8]>> Eq for ListedFilter<B> {}
