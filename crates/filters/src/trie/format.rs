//! Encoding of a trie index, version 1. Integers are little-endian, except that the first 8 bytes
//! of a key are a big-endian integer.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "AECT"
//!      4     1  version, 1
//!      5     1  logarithm of a group's buckets, 0 to 10
//!      6     2  up to how many keys tries are Huffman-coded
//!      8     4  bytes of a key
//!     12     4  items of a block; 1 for a dense index
//!     16     8  keys
//!     24     8  buckets
//!     32     8  bits of all tries
//!     40     d  groups, in order
//! 40 + d     n  a stream of bits: the tries, in the order of their buckets
//!  … + n     8  XXH3-64 of everything before
//! ```
//!
//! A group is encoded as follows. The last group has only the remaining buckets:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  the bit at which the tries of its buckets begin
//!      8     8  the items in the buckets before it
//!     16  4 · b  for each bucket: at which bit its trie begins (2), and the items in the buckets
//!               before it (2), less those of the group
//! ```
//!
//! The bits and the items of a bucket end where those of the next bucket begin. A trie of `n` keys
//! whose first item has offset `r` in its block is empty if `r + n` is at most the number of items
//! per block. Otherwise it is the code word for the number of keys that go left, followed by the
//! left trie and the right trie. If all keys go to the same side, only one trie follows the code
//! word. `huffman.rs` and `code.rs` define the codes, and a test there ensures that they do not
//! change.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::shape::{MAX_BUCKETS, TrieShape};
use crate::Result;
use crate::bits::{TAIL_BYTES, take};
use crate::packed::{CHECKSUM_BYTES, PackedFrame, seal};
use alluvium_base::bytes::ByteWriter;

pub(super) const FRAME: PackedFrame = PackedFrame {
    structure: "trie index",
    magic: *b"AECT",
    version: 1,
};

/// Maximum base-2 logarithm of the number of buckets in a group.
pub(super) const MAX_GROUP_LOG: u32 = 10;

const HEADER_BYTES: u64 = 40;
const GROUP_BYTES: u64 = 16;
const BUCKET_BYTES: u64 = 4;

/// Returns a hash as a key. Its bytes are in big-endian order, so that keys sort in the same order
/// as hashes.
#[must_use]
pub fn key_of(hash: u64) -> [u8; 8] {
    hash.to_be_bytes()
}

/// Splits a key into its first 64 bits, as a number that sorts in the same order, and its remaining
/// bytes.
#[inline]
pub(super) fn head(key: &[u8]) -> (u64, &[u8]) {
    let split = key.split_first_chunk();
    split.map_or((0, key), |(head, rest)| (u64::from_be_bytes(*head), rest))
}

/// The header of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrieIndexHeader {
    pub(super) shape: TrieShape,
    pub(super) group_log: u32,
    pub(super) keys: u64,
    pub(super) buckets: u64,
    pub(super) bits: u64,
}

/// Where a bucket starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketOffset {
    /// Offset of the bucket's trie in the bit stream.
    pub(super) bit: u64,
    /// Number of items in all earlier buckets.
    pub(super) item: u64,
}

/// Encodes an index from its header, its bucket offsets, and the bytes of its bit stream.
pub(super) fn encode(header: &TrieIndexHeader, starts: &[BucketOffset], stream: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(stream.len() + starts.len() * 5 + 64);
    let shape = &header.shape;
    FRAME.begin(&mut bytes);
    ByteWriter::new(&mut bytes)
        .u8(header.group_log as u8)
        .u16(shape.hmax as u16)
        .u32(shape.key_bytes)
        .u32(shape.block_items)
        .u64(header.keys)
        .u64(header.buckets)
        .u64(header.bits);
    for group in starts.chunks(1 << header.group_log) {
        let Some(base) = group.first() else { break };
        ByteWriter::new(&mut bytes).u64(base.bit).u64(base.item);
        for start in group {
            let (bit, item) = (start.bit - base.bit, start.item - base.item);
            assert!(bit.max(item) <= u16::MAX.into(), "T5");
            ByteWriter::new(&mut bytes).u16(bit as u16).u16(item as u16);
        }
    }
    bytes.extend_from_slice(stream);
    seal(&mut bytes);
    bytes
}

impl TrieIndexHeader {
    /// Reads the header and checks that the number of bytes matches it.
    pub(super) fn read(bytes: &[u8]) -> Result<TrieIndexHeader> {
        let (group_log, hmax, [key_bytes, block_items], [keys, buckets, bits]) =
            FRAME.open(bytes, |reader| {
                let (group_log, hmax) = (reader.u8()?, reader.u16()?);
                let shape = [reader.u32()?, reader.u32()?];
                Ok((
                    group_log,
                    hmax,
                    shape,
                    [reader.u64()?, reader.u64()?, reader.u64()?],
                ))
            })?;
        let shape = TrieShape {
            key_bytes,
            hmax: hmax.into(),
            block_items,
            ..TrieShape::new(key_bytes)
        };
        shape
            .verify()
            .map_err(|error| FRAME.damaged(6, "shape", "a valid one", error.to_string()))?;
        if u32::from(group_log) > MAX_GROUP_LOG || !(1..=MAX_BUCKETS).contains(&buckets) {
            let found = format!("groups of 2^{group_log}, {buckets} buckets");
            let expected = format!("groups of at most 2^{MAX_GROUP_LOG}, 1 to {MAX_BUCKETS} buckets");
            return Err(FRAME.damaged(5, "buckets", expected, found));
        }
        let header = TrieIndexHeader {
            shape,
            group_log: group_log.into(),
            keys,
            buckets,
            bits,
        };
        FRAME.check_len(bytes, header.len())?;
        Ok(header)
    }

    /// Returns the length of the whole index in bytes, or `None` if it exceeds the address space.
    fn len(&self) -> Option<u64> {
        let stream = (self.bits.div_ceil(64))
            .checked_mul(8)?
            .checked_add(TAIL_BYTES as u64)?;
        self.stream_at().checked_add(stream)?.checked_add(CHECKSUM_BYTES)
    }

    /// Returns the byte offset of the bit stream.
    fn stream_at(&self) -> u64 {
        let groups = self.buckets.div_ceil(1 << self.group_log);
        HEADER_BYTES + groups * GROUP_BYTES + self.buckets * BUCKET_BYTES
    }

    /// Returns the bytes of the bit stream.
    pub(super) fn stream<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.len().saturating_sub(CHECKSUM_BYTES as usize);
        bytes.get(self.stream_at() as usize..end).unwrap_or_default()
    }

    /// Returns where a bucket starts. If `bucket` is the number of buckets, returns the end of the
    /// last one. Returns `None` for greater numbers.
    #[inline]
    pub(super) fn start(&self, bytes: &[u8], bucket: u64) -> Option<BucketOffset> {
        if bucket >= self.buckets {
            return (bucket == self.buckets).then_some(BucketOffset {
                bit: self.bits,
                item: self.keys,
            });
        }
        let group = bucket >> self.group_log;
        let at = HEADER_BYTES + group * GROUP_BYTES + (group << self.group_log) * BUCKET_BYTES;
        let (base_bit, base_item) = (take_u64(bytes, at)?, take_u64(bytes, at + 8)?);
        let at = at + GROUP_BYTES + (bucket & ((1 << self.group_log) - 1)) * BUCKET_BYTES;
        let both = bytes.get(at as usize..)?.first_chunk()?;
        let both = u32::from_le_bytes(*both);
        Some(BucketOffset {
            bit: base_bit.checked_add((both & 0xffff).into())?,
            item: base_item.checked_add((both >> 16).into())?,
        })
    }

    /// Returns whether only zeros follow the last trie.
    pub(super) fn is_zero_behind(&self, bytes: &[u8]) -> bool {
        let stream = self.stream(bytes);
        (self.bits..stream.len() as u64 * 8).all(|bit| take(stream, bit, 1) == 0)
    }
}

#[inline]
fn take_u64(bytes: &[u8], at: u64) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at as usize..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::super::{TrieCodes, TrieIndexBuilder};
    use super::*;
    use alluvium_base::checksum;

    #[test]
    fn the_bytes_of_an_index_are_these() {
        let codes = TrieCodes::new(64);
        let mut builder = TrieIndexBuilder::new(&codes, TrieShape::new(9), 2).unwrap();
        // Bucket 0 has three keys: one goes left, and the other two differ in their second bit.
        // Bucket 1 has two keys that differ in the first bit of their last byte, 64 levels below
        // the root.
        for key in [[0x10u8, 0], [0x40, 0], [0x60, 0], [0x80, 0], [0x80, 0x80]] {
            let mut bytes = [0; 9];
            bytes[0] = key[0];
            bytes[8] = key[1];
            builder.push(&bytes).unwrap();
        }
        let bytes = builder.finish();
        let mut expected = b"AECT\x01\x0a\x40\0\x09\0\0\0\x01\0\0\0".to_vec();
        expected.extend([
            5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 68, 0, 0, 0, 0, 0, 0, 0,
        ]);
        expected.extend([0; 16]);
        expected.extend([0, 0, 0, 0, 3, 0, 3, 0]);
        // The code word for 1 of 3 keys is "11", and that for 1 of 2 keys is "1". Then follow "0",
        // 64 times, for all of 2 keys, and "1" for 1 of 2 keys.
        expected.extend([0b111, 0, 0, 0, 0, 0, 0, 0, 0b1000, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0; TAIL_BYTES]);
        expected.extend(checksum(&expected).to_le_bytes());
        assert_eq!(bytes, expected);
        assert_eq!(key_of(0x0102_0304_0506_0708), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
