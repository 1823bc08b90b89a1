//! The encoding of an index of perfect hash functions, version 1. Integers are little-endian,
//! except for the heads of keys.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "AEPH"
//!      4     1  version, 1
//!      5     3  zero
//!      8     4  bytes of a key
//!     12     4  zero
//!     16     8  keys
//!     24     8  buckets
//!     32     8  vertices / 3
//!     40     d  groups of 64 buckets, in order
//! 40 + d     n  a stream of bits: the values of all vertices, 2 bits each; 3 for a vertex that is no
//!               key's own
//!  … + n     8  XXH3-64 of everything before
//! ```
//!
//! A group; the last group may be shorter:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  the vertices of the buckets before it / 3
//!      8     8  the keys in the buckets before it
//!     16  5 · b  for each bucket: vertices / 3 (2) and keys (2) in the buckets before it, less those
//!               of the group; its seed (1)
//! ```
//!
//! A key's bucket is `first 64 bits · buckets / 2^64`, rounded down. Its vertices come from
//! XXH3-64 of the key with the bucket's seed: 21 bits for each third of the bucket's vertices,
//! from the lowest. A bucket of n > 0 keys has 3 · (⌈0.41 · n⌉ + 2) vertices.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::shape::{KEY_BYTES, MAX_BUCKETS};
use crate::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum;
use alluvium_filters::bits::{TAIL_BYTES, take};

/// The structure's name in error messages.
pub(super) const WHAT: &str = "perfect hash index";

/// Number of consecutive buckets that form a group.
const GROUP: u64 = 64;

const MAGIC: [u8; 4] = *b"AEPH";
const VERSION: u8 = 1;
const HEADER_BYTES: u64 = 40;
const GROUP_BYTES: u64 = 16;
const BUCKET_BYTES: u64 = 5;
const CHECKSUM_BYTES: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PerfectHashHeader {
    pub(super) key_bytes: u32,
    pub(super) keys: u64,
    pub(super) buckets: u64,
    pub(super) thirds: u64,
}

/// The start of a bucket, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketStart {
    /// The number of vertices in earlier buckets, divided by 3.
    pub(super) thirds: u64,
    /// The number of keys in earlier buckets.
    pub(super) item: u64,
    pub(super) seed: u8,
}

/// Returns the bucket of a key.
#[inline]
pub(super) fn bucket(key: &[u8], buckets: u64) -> u64 {
    let head = key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
    ((u128::from(head) * u128::from(buckets)) >> 64) as u64
}

/// Returns the first 64 bits of a key, for error messages.
pub(super) fn head(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
}

/// Encodes an index from the starts of its buckets and the bytes of its bit stream.
pub(super) fn encode(header: &PerfectHashHeader, starts: &[BucketStart], stream: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(stream.len() + starts.len() * 6 + 64);
    ByteWriter::new(&mut bytes)
        .bytes(&MAGIC)
        .u8(VERSION)
        .bytes(&[0; 3])
        .u32(header.key_bytes)
        .u32(0)
        .u64(header.keys)
        .u64(header.buckets)
        .u64(header.thirds);
    for group in starts.chunks(GROUP as usize) {
        let Some(base) = group.first() else { break };
        ByteWriter::new(&mut bytes).u64(base.thirds).u64(base.item);
        for start in group {
            let (thirds, item) = (start.thirds - base.thirds, start.item - base.item);
            assert!(thirds.max(item) <= u16::MAX.into(), "64 small buckets");
            ByteWriter::new(&mut bytes)
                .u16(thirds as u16)
                .u16(item as u16)
                .u8(start.seed);
        }
    }
    bytes.extend_from_slice(stream);
    let sum = checksum(&bytes);
    ByteWriter::new(&mut bytes).u64(sum);
    bytes
}

impl PerfectHashHeader {
    /// Reads the header and checks the length of the bytes against it.
    pub(super) fn read(bytes: &[u8]) -> Result<PerfectHashHeader> {
        let bad = |at, what, expected: String, found: String| Error::damaged(WHAT, at, what, expected, found);
        let mut reader = ByteReader::new(bytes);
        let mut read = || -> std::result::Result<_, TruncatedInput> {
            let magic = reader.take(MAGIC.len())?;
            let (version, zeros) = (reader.u8()?, reader.take(3)?);
            let (key_bytes, zero) = (reader.u32()?, reader.u32()?);
            let is_zero = zeros == [0; 3] && zero == 0;
            Ok((
                magic,
                version,
                is_zero,
                key_bytes,
                [reader.u64()?, reader.u64()?, reader.u64()?],
            ))
        };
        let (magic, version, is_zero, key_bytes, [keys, buckets, thirds]) = read().map_err(|short| {
            let expected = format!("{HEADER_BYTES} bytes or more");
            bad(0, "length", expected, short.to_string())
        })?;
        if magic != MAGIC || version != VERSION || !is_zero {
            let found = format!("{magic:02x?} {version}");
            return Err(bad(0, "magic, version and zeros", "AEPH 1".into(), found));
        }
        if !KEY_BYTES.contains(&key_bytes) || !(1..=MAX_BUCKETS).contains(&buckets) {
            let found = format!("keys of {key_bytes} bytes, {buckets} buckets");
            let expected = format!("keys of {KEY_BYTES:?} bytes, 1 to {MAX_BUCKETS} buckets");
            return Err(bad(8, "shape", expected, found));
        }
        let header = PerfectHashHeader {
            key_bytes,
            keys,
            buckets,
            thirds,
        };
        if header.len() != Some(bytes.len() as u64) {
            let expected = header.len().map_or("less".into(), |len| len.to_string());
            return Err(bad(0, "length in bytes", expected, bytes.len().to_string()));
        }
        Ok(header)
    }

    /// The number of bits of all values, or `None` on overflow.
    fn bits(&self) -> Option<u64> {
        self.thirds.checked_mul(6)
    }

    /// The number of bytes of the index, or `None` on overflow.
    fn len(&self) -> Option<u64> {
        let stream = self
            .bits()?
            .div_ceil(64)
            .checked_mul(8)?
            .checked_add(TAIL_BYTES as u64)?;
        self.stream_at().checked_add(stream)?.checked_add(CHECKSUM_BYTES)
    }

    fn stream_at(&self) -> u64 {
        HEADER_BYTES + self.buckets.div_ceil(GROUP) * GROUP_BYTES + self.buckets * BUCKET_BYTES
    }

    /// The bytes of the bit stream.
    pub(super) fn stream<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.len().saturating_sub(CHECKSUM_BYTES as usize);
        bytes.get(self.stream_at() as usize..end).unwrap_or_default()
    }

    /// The start of a bucket. For the number of buckets it is the end of the last bucket; beyond
    /// that `None`.
    #[inline]
    pub(super) fn start(&self, bytes: &[u8], bucket: u64) -> Option<BucketStart> {
        if bucket >= self.buckets {
            return (bucket == self.buckets).then_some(BucketStart {
                thirds: self.thirds,
                item: self.keys,
                seed: 0,
            });
        }
        let group = bucket / GROUP;
        let at = HEADER_BYTES + group * (GROUP_BYTES + GROUP * BUCKET_BYTES);
        let mut base = ByteReader::new(bytes.get(at as usize..)?);
        let (thirds, item) = (base.u64().ok()?, base.u64().ok()?);
        let at = at + GROUP_BYTES + bucket % GROUP * BUCKET_BYTES;
        let mut own = ByteReader::new(bytes.get(at as usize..)?);
        Some(BucketStart {
            thirds: thirds.checked_add(own.u16().ok()?.into())?,
            item: item.checked_add(own.u16().ok()?.into())?,
            seed: own.u8().ok()?,
        })
    }

    /// Returns whether the bits after the last value are all zero.
    pub(super) fn is_zero_behind(&self, bytes: &[u8]) -> bool {
        let stream = self.stream(bytes);
        let end = stream.len() as u64 * 8;
        (self.bits().unwrap_or(end)..end).all(|bit| take(stream, bit, 1) == 0)
    }
}

/// The stored and the computed checksum.
pub(super) fn checksums(bytes: &[u8]) -> Option<(u64, u64)> {
    let (rest, stored) = bytes.split_last_chunk()?;
    Some((u64::from_le_bytes(*stored), checksum(rest)))
}

#[cfg(test)]
mod tests {
    use super::super::PerfectHashBuilder;
    use super::*;

    #[test]
    fn the_bytes_of_an_index_are_these() {
        let mut builder = PerfectHashBuilder::new(8, 2, |_, _| {}).unwrap();
        builder.push(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        builder.push(&[0x90, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        builder.push(&[0x91, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let bytes = builder.finish().unwrap();
        let mut expected = b"AEPH\x01\0\0\0\x08\0\0\0\0\0\0\0".to_vec();
        expected.extend([
            3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,
        ]);
        expected.extend([0; 16]);
        expected.extend([0, 0, 0, 0, 0, 3, 0, 1, 0, 0]);
        // Nine vertices of each bucket, all 3 but those that keys own: vertex 6 of the first
        // has 2, vertices 4 and 6 of the second have 1 and 2.
        expected.extend([0xff, 0xef, 0xff, 0xdf, 0x0d, 0, 0, 0]);
        expected.extend([0; TAIL_BYTES]);
        expected.extend(checksum(&expected).to_le_bytes());
        assert_eq!(bytes, expected);
    }
}
