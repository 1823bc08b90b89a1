//! Building a filter from hashes that ascend.

use super::format::{Header, append_page};
use super::shape::Shape;
use crate::packed::put_checksum;
use crate::{Error, Result};

/// Writes the filter of hashes that ascend into `space`, and returns how many bytes it takes.
/// [`Shape::most_bytes`] are enough for any.
///
/// # Errors
/// [`Error::Order`] when a hash is less than the one before; [`Error::Shape`] when they have more
/// fingerprints than the shape says, or `space` is too short.
pub fn write(shape: Shape, hashes: impl IntoIterator<Item = u64>, space: &mut [u8]) -> Result<usize> {
    let header = Header {
        shape,
        first: 0,
        pages: shape.pages(),
    };
    let mut pages = Pages::new(header, space)?;
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

/// Returns the bytes of the filter of hashes that ascend.
///
/// ```
/// use alluvium_filters::listed::{Filter, Shape, encode};
/// let bytes = encode(Shape::new(3, 10)?, [1 << 60, 3 << 60, 9 << 60])?;
/// let filter = Filter::open(&bytes[..])?;
/// assert!(filter.may_hold(3 << 60)? && !filter.may_hold(5 << 60)?);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
///
/// # Errors
/// As [`write()`].
pub fn encode(shape: Shape, hashes: impl IntoIterator<Item = u64>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; shape.most_bytes()];
    let len = write(shape, hashes, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Pages that are written one after the other.
pub(super) struct Pages<'s> {
    header: Header,
    space: &'s mut [u8],
    /// The end of what is written.
    at: usize,
    /// The page that comes next, of those that the header says, and its fingerprints.
    page: u32,
    fingerprints: Vec<u64>,
    bytes: Vec<u8>,
}

impl<'s> Pages<'s> {
    /// Begins the pages that the header says.
    pub(super) fn new(header: Header, space: &'s mut [u8]) -> Result<Pages<'s>> {
        header.put(space).ok_or_else(short)?;
        Ok(Pages {
            header,
            space,
            at: header.first_byte() as usize,
            page: 0,
            fingerprints: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Adds a fingerprint that is not below the last one, and returns whether it was not there.
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
        let Header { shape, first, .. } = self.header;
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

    /// Writes the pages that are left, and returns how many bytes there are.
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
