//! Block index queries, which map a hash to blocks.

use super::format::{BlockIndexHeader, FRAME};
use super::sequence::EliasFanoSequence;
use super::shape::BlockIndexShape;
use crate::Result;
use std::ops::Range;

/// The index of a packed store, in memory. Any number of threads may query it concurrently.
#[derive(Clone, Copy, Debug)]
pub struct BlockIndex<'b> {
    pub(super) header: BlockIndexHeader,
    pub(super) bytes: &'b [u8],
    pub(super) sequence: EliasFanoSequence<'b>,
}

impl<'b> BlockIndex<'b> {
    /// Opens an index by reading its header and checking that the number of bytes matches it. Only
    /// [`BlockIndex::check`] verifies the checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) if the header or the length is invalid.
    pub fn open(bytes: &'b [u8]) -> Result<BlockIndex<'b>> {
        let header = BlockIndexHeader::read(bytes)?;
        Ok(BlockIndex {
            header,
            bytes,
            sequence: header.sequence(bytes),
        })
    }

    /// Returns the shape of the index.
    #[must_use]
    pub fn shape(&self) -> BlockIndexShape {
        self.header.shape
    }

    /// Returns the number of objects in the packed store.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.header.objects
    }

    /// Returns the range of blocks that contains all objects with this hash, if there are any (B1).
    /// One request can read the whole range. It is empty if the store is.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) if the index is invalid.
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
