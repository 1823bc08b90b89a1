//! The bytes of a filter of tags, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "ACKF"
//!      4     1  version, 1
//!      5     1  variant: 1 the tag is the other bucket + 1, 2 exclusive or
//!      6     1  bits of a tag, 1 to 15
//!      7     1  zero
//!      8     4  buckets: 2^bits - 1 for variant 1, a power of two for variant 2
//!     12     4  slots in use
//!     16     n  a stream of bits: the tags of bucket 0's four slots, of bucket 1's, …; 0 for an
//!               empty slot
//! 16 + n     8  XXH3-64 of everything before
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::shape::{CuckooShape, MAX_BUCKET_BITS, SLOTS};
use super::table::CuckooTable;
use crate::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum;
use alluvium_filters::bits::{BitWriter, TAIL_BYTES, take};

/// The structure's name in error messages.
pub(super) const WHAT: &str = "cuckoo filter";

const MAGIC: [u8; 4] = *b"ACKF";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CuckooHeader {
    pub(super) shape: CuckooShape,
    pub(super) entries: u32,
}

/// Encodes the tags of a table as a filter.
#[must_use]
pub fn encode(table: &CuckooTable) -> Vec<u8> {
    let shape = table.shape();
    let mut bytes = Vec::with_capacity(len(&shape));
    ByteWriter::new(&mut bytes)
        .bytes(&MAGIC)
        .u8(VERSION)
        .u8(shape.variant as u8)
        .u8(shape.tag_bits as u8)
        .u8(0)
        .u32(shape.buckets)
        .u32(table.len());
    let mut tags = BitWriter::new();
    for (_, tag) in table.tags() {
        tags.push(tag.into(), shape.tag_bits);
    }
    bytes.extend_from_slice(&tags.finish());
    let sum = checksum(&bytes);
    ByteWriter::new(&mut bytes).u64(sum);
    debug_assert_eq!(bytes.len(), len(&shape));
    bytes
}

/// Returns the encoded size of a filter of this shape, in bytes.
fn len(shape: &CuckooShape) -> usize {
    HEADER_BYTES + stream_words(shape) * 8 + TAIL_BYTES + CHECKSUM_BYTES
}

fn stream_words(shape: &CuckooShape) -> usize {
    (u64::from(shape.slots()) * u64::from(shape.tag_bits)).div_ceil(64) as usize
}

/// The tags of a bucket, packed from the lowest bit.
#[inline]
pub(super) fn tags(bytes: &[u8], shape: &CuckooShape, bucket: u32) -> u64 {
    let bits = shape.tag_bits * SLOTS;
    let at = u64::from(bucket) * u64::from(bits);
    // A bucket starts at a multiple of 4 bits, so one load covers up to 60 bits.
    alluvium_filters::bits::peek(bytes, HEADER_BYTES as u64 * 8 + at) & ((1 << bits) - 1)
}

/// Returns whether the bits after the last slot are all zero.
pub(super) fn is_zero_behind(bytes: &[u8], shape: &CuckooShape) -> bool {
    let used = u64::from(shape.slots()) * u64::from(shape.tag_bits);
    let end = (stream_words(shape) * 8 + TAIL_BYTES) as u64 * 8;
    (used..end).all(|bit| take(bytes, HEADER_BYTES as u64 * 8 + bit, 1) == 0)
}

/// The stored and the computed checksum.
pub(super) fn checksums(bytes: &[u8]) -> Option<(u64, u64)> {
    let (rest, stored) = bytes.split_last_chunk()?;
    Some((u64::from_le_bytes(*stored), checksum(rest)))
}

impl CuckooHeader {
    /// Reads the header and checks the length of the bytes against it.
    pub(super) fn read(bytes: &[u8]) -> Result<CuckooHeader> {
        let bad = |at, what, expected: String, found: String| Error::damaged(WHAT, at, what, expected, found);
        let mut reader = ByteReader::new(bytes);
        let mut read = || -> std::result::Result<_, TruncatedInput> {
            let magic = reader.take(MAGIC.len())?;
            let small = [reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?];
            Ok((magic, small, reader.u32()?, reader.u32()?))
        };
        let (magic, [version, variant, tag_bits, zero], buckets, entries) = read().map_err(|short| {
            bad(
                0,
                "length",
                format!("{HEADER_BYTES} bytes or more"),
                short.to_string(),
            )
        })?;
        if magic != MAGIC || version != VERSION || zero != 0 {
            let found = format!("{magic:02x?} {version} {zero}");
            return Err(bad(0, "magic and version", "ACKF 1".into(), found));
        }
        let shape = match variant {
            1 => CuckooShape::alternate(tag_bits.into()),
            2 => CuckooShape::xor(
                buckets.checked_ilog2().unwrap_or(MAX_BUCKET_BITS + 1),
                tag_bits.into(),
            ),
            _ => Err(Error::shape(format!("variant {variant}"), "1 or 2")),
        };
        let shape = shape.map_err(|error| bad(5, "shape", "one that exists".into(), error.to_string()))?;
        if shape.buckets != buckets || entries > shape.slots() {
            let found = format!("{buckets} buckets, {entries} in use");
            let expected = format!("{} buckets, at most {} in use", shape.buckets, shape.slots());
            return Err(bad(8, "buckets and slots in use", expected, found));
        }
        if bytes.len() != len(&shape) {
            let (expected, found) = (len(&shape).to_string(), bytes.len().to_string());
            return Err(bad(0, "length in bytes", expected, found));
        }
        Ok(CuckooHeader { shape, entries })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_filter_are_these() {
        let mut table = CuckooTable::new(CuckooShape::alternate(3).unwrap(), 1);
        // Bucket 0 with tag 7, its other bucket 6; then bucket 2 with tag 4.
        table.insert(0xffff_ff00_0000, 11).unwrap();
        table.insert(0x70_0000 << 24 | 0x50_0000, 12).unwrap();
        let bytes = encode(&table);
        let mut expected = b"ACKF\x01\x01\x03\x00\x07\0\0\0\x02\0\0\0".to_vec();
        expected.extend([7, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0; TAIL_BYTES]);
        expected.extend(checksum(&expected).to_le_bytes());
        assert_eq!(bytes, expected);
        // In variant 2 the mix of a tag chooses the bucket, so the mix is part of the format.
        let shape = CuckooShape::xor(16, 15).unwrap();
        let [first, second] = shape.places(0x0012_3456_0000_0001);
        assert_eq!((first.bucket, first.tag, second.bucket), (1, 2331, 23_563));
    }
}
