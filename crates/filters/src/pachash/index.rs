//! An index in bytes: the blocks of a hash.

use super::format::{FRAME, Header};
use super::sequence::Sequence;
use super::shape::Shape;
use crate::Result;
use std::ops::Range;

/// The index of a packed store in bytes. Any number of threads may ask at once.
#[derive(Clone, Copy, Debug)]
pub struct Index<'b> {
    pub(super) header: Header,
    pub(super) bytes: &'b [u8],
    pub(super) sequence: Sequence<'b>,
}

impl<'b> Index<'b> {
    /// Opens an index: reads its header, and checks that the bytes are as many as it says. The
    /// checksum is left to [`Index::check`].
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when the header is none or the length is wrong.
    pub fn open(bytes: &'b [u8]) -> Result<Index<'b>> {
        let header = Header::read(bytes)?;
        Ok(Index {
            header,
            bytes,
            sequence: header.sequence(bytes),
        })
    }

    /// Returns the shape it was made for.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.header.shape
    }

    /// Returns how many objects there are.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.header.objects
    }

    /// Returns the blocks in which a hash's objects are if there are any (B1): one after the
    /// other, to be read at once. None in an empty store.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when the index has no answer.
    #[inline]
    pub fn blocks(&self, hash: u64) -> Result<Range<u64>> {
        let shape = &self.header.shape;
        if shape.bytes == 0 {
            return Ok(0..0);
        }
        let bin = shape.bin(hash);
        let sample = self.header.sample(self.bytes, bin);
        match sample.and_then(|sample| self.sequence.rank(bin, sample)) {
            Some((less, not_greater)) if not_greater > 0 => Ok(less.max(1) - 1..not_greater),
            found => Err(FRAME.damaged(
                0,
                "first bins",
                "a sequence from 0 that rises",
                format!("{found:?} for bin {bin}"),
            )),
        }
    }
}
