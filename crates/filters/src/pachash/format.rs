//! Encoding of a block index, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "APCH"
//!      4     1  version, 1
//!      5     1  logarithm of a block's bins, 0 to 16
//!      6     2  zero
//!      8     4  bytes of a block
//!     12     4  zero
//!     16     8  bytes of all objects; blocks = this / bytes of a block, rounded up
//!     24     8  objects
//!     32   8·s  s = blocks / 512 + 1 samples: the bit at which the blocks begin whose first bins have
//!               the upper part 512 · i
//!      …     u  a stream of 2 · blocks bits: for each upper part from 0, a set bit for every block
//!               whose first bin has it, then a zero
//!      …     l  a stream of bits: each block's lower bits, as many as the logarithm
//!      …     8  XXH3-64 of everything before
//! ```
//!
//! The bin of a hash is `hash · bins / 2^64`, rounded down, where bins = blocks · 2^logarithm. The
//! upper part of a bin is everything above its lower bits.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::sequence::{self, EliasFanoSequence, SAMPLED};
use super::shape::BlockIndexShape;
use crate::Result;
use crate::bits::TAIL_BYTES;
use crate::packed::{CHECKSUM_BYTES, PackedFrame, seal};
use alluvium_base::bytes::ByteWriter;

pub(super) const FRAME: PackedFrame = PackedFrame {
    structure: "block index",
    magic: *b"APCH",
    version: 1,
};

const HEADER_BYTES: u64 = 32;
const SAMPLE_BYTES: u64 = 8;

/// Header of a block index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockIndexHeader {
    pub(super) shape: BlockIndexShape,
    pub(super) objects: u64,
}

/// Encodes an index from its header and the complete sequence of first bins.
pub(super) fn encode(header: &BlockIndexHeader, sequence: sequence::SequenceWriter) -> Vec<u8> {
    let shape = &header.shape;
    let mut bytes = Vec::with_capacity(header.len() as usize);
    FRAME.begin(&mut bytes);
    ByteWriter::new(&mut bytes)
        .u8(shape.bins_log as u8)
        .u16(0)
        .u32(shape.block_bytes)
        .u32(0)
        .u64(shape.bytes)
        .u64(header.objects);
    for sample in sequence.samples {
        ByteWriter::new(&mut bytes).u64(sample);
    }
    bytes.extend_from_slice(&sequence.upper.finish());
    bytes.extend_from_slice(&sequence.lower.finish());
    seal(&mut bytes);
    debug_assert_eq!(bytes.len() as u64, header.len());
    bytes
}

impl BlockIndexHeader {
    /// Reads the header and checks that the number of bytes matches it.
    pub(super) fn read(bytes: &[u8]) -> Result<BlockIndexHeader> {
        let (bins_log, zero, [block_bytes, also_zero], [object_bytes, objects]) =
            FRAME.open(bytes, |reader| {
                let (bins_log, zero) = (reader.u8()?, reader.u16()?);
                let block = [reader.u32()?, reader.u32()?];
                Ok((bins_log, zero, block, [reader.u64()?, reader.u64()?]))
            })?;
        if zero != 0 || also_zero != 0 {
            let found = format!("{zero} and {also_zero}");
            return Err(FRAME.damaged(6, "unused bytes", "0 and 0", found));
        }
        let shape = BlockIndexShape::with_bins(object_bytes, block_bytes, bins_log.into())
            .map_err(|error| FRAME.damaged(5, "shape", "a valid one", error.to_string()))?;
        let header = BlockIndexHeader { shape, objects };
        FRAME.check_len(bytes, Some(header.len()))?;
        Ok(header)
    }

    /// Returns the length of the whole index, in bytes.
    fn len(&self) -> u64 {
        let lower = stream(self.shape.blocks() * u64::from(self.shape.bins_log));
        self.lower_at() + lower + CHECKSUM_BYTES
    }

    fn samples(&self) -> u64 {
        self.shape.blocks() / SAMPLED + 1
    }

    fn upper_at(&self) -> u64 {
        HEADER_BYTES + self.samples() * SAMPLE_BYTES
    }

    fn lower_at(&self) -> u64 {
        self.upper_at() + stream(2 * self.shape.blocks())
    }

    /// Returns the decoder of the sequence of the blocks' first bins.
    pub(super) fn sequence<'b>(&self, bytes: &'b [u8]) -> EliasFanoSequence<'b> {
        let (upper, lower) = (self.upper_at() as usize, self.lower_at() as usize);
        let end = bytes.len().saturating_sub(CHECKSUM_BYTES as usize);
        EliasFanoSequence {
            upper: bytes.get(upper..lower).unwrap_or_default(),
            lower: bytes.get(lower..end).unwrap_or_default(),
            lower_bits: self.shape.bins_log,
            len: self.shape.blocks(),
        }
    }

    /// Returns the sample at which the search for a bin starts, or `None` if the bytes end before
    /// it.
    #[inline]
    pub(super) fn sample(&self, bytes: &[u8], bin: u64) -> Option<u64> {
        let at = HEADER_BYTES + (bin >> self.shape.bins_log) / SAMPLED * SAMPLE_BYTES;
        Some(u64::from_le_bytes(*bytes.get(at as usize..)?.first_chunk()?))
    }
}

/// Returns the length of a stream of `bits` bits, in bytes.
fn stream(bits: u64) -> u64 {
    bits.div_ceil(64) * 8 + TAIL_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::super::BlockIndexBuilder;
    use super::*;
    use alluvium_base::checksum;

    #[test]
    fn the_bytes_of_an_index_are_these() {
        // There are four blocks of 10 bytes with 8 bins each, so a hash's bin is in its five
        // highest bits.
        let mut builder = BlockIndexBuilder::new(BlockIndexShape::new(40, 10).unwrap());
        for (bin, bytes) in [(0, 4), (1, 6), (7, 3), (9, 20), (31, 7)] {
            builder.push(bin << 59, bytes).unwrap();
        }
        let bytes = builder.finish().unwrap();
        let mut expected = b"APCH\x01\x03\0\0\x0a\0\0\0\0\0\0\0".to_vec();
        expected.extend([40, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0; 8]);
        // The first bins are 0; 2, because an object starts at the block boundary and 2 is the
        // smallest bin above 1; 9; and 9. Two of them have upper part 0, two have 1, and none has 2
        // or 3.
        expected.extend([0b0001_1011, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0; 8]);
        // The lower bits of the first bins are 0, 2, 1 and 1.
        expected.extend([0b0101_0000, 0b0000_0010, 0, 0, 0, 0, 0, 0]);
        expected.extend([0; 8]);
        expected.extend(checksum(&expected).to_le_bytes());
        assert_eq!(bytes, expected);
    }
}
