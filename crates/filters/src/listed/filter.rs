//! A filter, or part of one, in bytes of any owner.

use super::format::ListedHeader;
use super::shape::ListedShape;
use crate::Result;
use crate::packed::put_checksum;
use std::ops::{Deref, DerefMut, Range};

/// A filter in bytes, or some of its pages. Any number of threads may query it concurrently.
#[derive(Clone, Debug)]
pub struct ListedFilter<B> {
    pub(super) header: ListedHeader,
    pub(super) bytes: B,
}

impl<B: Deref<Target = [u8]>> ListedFilter<B> {
    /// Opens a filter: reads its header and directory. [`ListedFilter::check`] checks the rest.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if the bytes are not a filter or the length is wrong.
    pub fn open(bytes: B) -> Result<ListedFilter<B>> {
        let header = ListedHeader::read(&bytes)?;
        Ok(ListedFilter { header, bytes })
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the shape of the whole filter.
    #[must_use]
    pub fn shape(&self) -> ListedShape {
        self.header.shape
    }

    /// Returns the range of pages that this filter contains.
    #[must_use]
    pub fn pages(&self) -> Range<u32> {
        self.header.first..self.header.first + self.header.pages
    }

    /// Returns whether the filter contains all pages.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.pages() == (0..self.header.shape.pages())
    }

    /// Returns whether a hash may have been added; always true if the filter does not contain the
    /// hash's page (F13).
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

    /// Returns a filter with some of the pages, in bytes allocated by `zeroed`. Returns `None` if
    /// the range is empty or not contained in this filter.
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
