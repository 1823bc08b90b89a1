//! Builds a filter from hashes that arrive in ascending order.

use super::format::{ListedHeader, append_page};
use super::shape::ListedShape;
use crate::packed::put_checksum;
use crate::{Error, Result};

/// Writes the filter of ascending hashes to `space` and returns its length in bytes.
/// [`ListedShape::most_bytes`] bytes of space are always enough.
///
/// # Errors
/// [`Error::Order`] if a hash is less than the previous one; [`Error::Shape`] if there are more
/// distinct fingerprints than the shape allows, or if `space` is too short.
pub fn write(shape: ListedShape, hashes: impl IntoIterator<Item = u64>, space: &mut [u8]) -> Result<usize> {
    let header = ListedHeader {
        shape,
        first: 0,
        pages: shape.pages(),
    };
    let mut pages = ListedPageWriter::new(header, space)?;
    let (mut last, mut fingerprints) = (0, 0);
    for hash in hashes {
        if hash < last {
            return Err(Error::Order { entry: hash, last });
        }
        last = hash;
        fingerprints += u64::from(pages.push(shape.fingerprint(hash))?);
        if fingerprints > shape.hashes {
            let what = format!("a filter of {} hashes for more", shape.hashes);
            return Err(Error::shape(what, "their number"));
        }
    }
    pages.finish()
}

/// Returns the encoded filter of ascending hashes.
///
/// ```
/// use alluvium_filters::listed::{ListedFilter, ListedShape, encode};
/// let bytes = encode(ListedShape::new(3, 10)?, [1 << 60, 3 << 60, 9 << 60])?;
/// let filter = ListedFilter::open(&bytes[..])?;
/// assert!(filter.may_hold(3 << 60)? && !filter.may_hold(5 << 60)?);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
///
/// # Errors
/// The same errors as [`write()`].
pub fn encode(shape: ListedShape, hashes: impl IntoIterator<Item = u64>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; shape.most_bytes()];
    let len = write(shape, hashes, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Writes the pages of a filter to `space`, one after another.
pub(super) struct ListedPageWriter<'s> {
    header: ListedHeader,
    space: &'s mut [u8],
    /// Number of bytes of `space` written so far.
    at: usize,
    /// `page` is the number of the next page, relative to the first page in the header, and
    /// `fingerprints` are its fingerprints.
    page: u32,
    fingerprints: Vec<u64>,
    bytes: Vec<u8>,
}

impl<'s> ListedPageWriter<'s> {
    /// Starts writing the pages that the header describes.
    pub(super) fn new(header: ListedHeader, space: &'s mut [u8]) -> Result<ListedPageWriter<'s>> {
        header.put(space).ok_or_else(short)?;
        Ok(ListedPageWriter {
            header,
            space,
            at: header.first_byte() as usize,
            page: 0,
            fingerprints: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Adds a fingerprint, which must not be less than the previous one. If the two are equal, does
    /// nothing and returns false.
    pub(super) fn push(&mut self, fingerprint: u64) -> Result<bool> {
        if self.fingerprints.last() == Some(&fingerprint) {
            return Ok(false);
        }
        while self.header.first + self.page < self.header.shape.page(fingerprint) {
            self.end_page()?;
        }
        self.fingerprints.push(fingerprint);
        Ok(true)
    }

    fn end_page(&mut self) -> Result<()> {
        let ListedHeader { shape, first, .. } = self.header;
        self.bytes.clear();
        let step = append_page(shape, first + self.page, &self.fingerprints, &mut self.bytes);
        let end = self.at + self.bytes.len();
        let place = self.space.get_mut(self.at..end).ok_or_else(short)?;
        place.copy_from_slice(&self.bytes);
        self.put_entry(step)?;
        self.at = end;
        self.page += 1;
        self.fingerprints.clear();
        Ok(())
    }

    fn put_entry(&mut self, step: u32) -> Result<()> {
        let begin = self.at as u64 - self.header.first_byte();
        let put = self.header.put_entry(self.space, self.page, begin, step);
        put.ok_or_else(short)
    }

    /// Writes the remaining pages, the directory and the checksum. Returns the total number of
    /// bytes.
    pub(super) fn finish(mut self) -> Result<usize> {
        while self.page < self.header.pages {
            self.end_page()?;
        }
        self.put_entry(0)?;
        put_checksum(self.space, self.at).ok_or_else(short)
    }
}

#[cold]
fn short() -> Error {
    Error::shape("a filter in so few bytes", "as many as its shape says")
}
