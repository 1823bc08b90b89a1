//! Lookups in a trie index.

use super::build::damaged;
use super::code::TrieCodes;
use super::format::{FRAME, TrieIndexHeader};
use super::key::KeyBits;
use super::shape::{MAX_BUCKET_KEYS, TrieShape};
use super::walk::{TrieFault, TrieWalk};
use crate::{Error, Result};
use alluvium_base::prefetch;
use std::ops::Range;

/// A trie index in memory. Any number of threads may look up keys concurrently.
#[derive(Clone, Copy, Debug)]
pub struct TrieIndex<'a> {
    codes: &'a TrieCodes,
    pub(super) header: TrieIndexHeader,
    pub(super) bytes: &'a [u8],
    stream: &'a [u8],
}

/// The bits and the items of a bucket: the bit offsets at which its trie starts and ends, the index
/// of its first item, and the number of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketSpan {
    pub(super) bit: u64,
    pub(super) end: u64,
    pub(super) item: u64,
    pub(super) keys: u32,
}

impl<'a> TrieIndex<'a> {
    /// Returns the `hmax` of an encoded index, for which the caller must create the codes before
    /// opening the index.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes are not an index.
    pub fn hmax_of(bytes: &[u8]) -> Result<u32> {
        Ok(TrieIndexHeader::read(bytes)?.shape.hmax)
    }

    /// Opens an index of keys of `key_bytes` bytes by reading its header and checking that the
    /// number of bytes matches it. Only [`TrieIndex::check`] verifies the checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the header, the length or the key length is wrong; [`Error::Shape`] if
    /// the codes were created for a different `hmax`.
    pub fn open(codes: &'a TrieCodes, key_bytes: u32, bytes: &'a [u8]) -> Result<TrieIndex<'a>> {
        let header = TrieIndexHeader::read(bytes)?;
        if header.shape.key_bytes != key_bytes {
            let (expected, found) = (key_bytes.to_string(), header.shape.key_bytes.to_string());
            return Err(FRAME.damaged(8, "bytes of a key", expected, found));
        }
        if header.shape.hmax != codes.hmax() {
            let what = format!("a trie index with codes for {} keys", codes.hmax());
            return Err(Error::shape(what, format!("codes for {}", header.shape.hmax)));
        }
        Ok(TrieIndex {
            codes,
            header,
            bytes,
            stream: header.stream(bytes),
        })
    }

    /// Returns the shape of the index. Its average number of keys per bucket is computed from the
    /// index and rounded down.
    #[must_use]
    pub fn shape(&self) -> TrieShape {
        let average = self.header.keys / self.header.buckets;
        TrieShape {
            keys_per_bucket: average.try_into().unwrap_or(u32::MAX),
            ..self.header.shape
        }
    }

    /// Returns the number of keys in the index.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.header.keys
    }

    /// Returns the number of buckets.
    #[must_use]
    pub fn buckets(&self) -> u64 {
        self.header.buckets
    }

    /// Returns the total length of all tries in bits, excluding bucket positions.
    #[must_use]
    pub fn trie_bits(&self) -> u64 {
        self.header.bits
    }

    /// Returns the number of the bucket for a key.
    ///
    /// # Panics
    /// If the key does not have the length that the shape requires.
    #[must_use]
    pub fn bucket_of(&self, key: &[u8]) -> u64 {
        self.split(key).0
    }

    /// Returns the range of item indexes in a bucket.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bucket's positions are invalid.
    pub fn items(&self, bucket: u64) -> Result<Range<u64>> {
        let part = self.part(bucket)?;
        Ok(part.item..part.item + u64::from(part.keys))
    }

    /// Prefetches the first bytes of the trie that a lookup of this key reads.
    pub fn prefetch(&self, key: &[u8]) {
        if let Some(start) = self.header.start(self.bytes, self.split(key).0) {
            prefetch(self.stream, (start.bit / 8) as usize);
        }
    }

    /// Returns where a key is if it is present: the index of its item in a dense index, or the
    /// number of its block in a sparse index. Returns `None` if the key's bucket is empty. For an
    /// absent key, the result is an arbitrary item or block of the bucket, so the caller must
    /// compare keys.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bucket's trie is invalid.
    ///
    /// # Panics
    /// If the key does not have the length that the shape requires.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<u64>> {
        let (bucket, bits) = self.split(key);
        let part = self.part(bucket)?;
        if part.keys == 0 {
            return Ok(None);
        }
        let block_items = self.header.shape.block_items;
        let block = u64::from(block_items);
        let into_block = if block_items == 1 {
            0
        } else {
            (part.item % block) as u32
        };
        let rank = self.walk(&part).rank(bits, part.keys, into_block);
        let item = part.item + u64::from(rank.map_err(|bad| not_a_trie(bucket, bad))?);
        Ok(Some(if block_items == 1 { item } else { item / block }))
    }

    pub(super) fn walk(&self, part: &BucketSpan) -> TrieWalk<'a> {
        TrieWalk {
            codes: self.codes,
            stream: self.stream,
            at: part.bit,
            end: part.end,
            block_items: self.header.shape.block_items,
            key_bits: self.header.shape.key_bits(),
        }
    }

    pub(super) fn stream(&self) -> &'a [u8] {
        self.stream
    }

    /// Returns the bits and the items of a bucket, after checking that they are in range.
    #[inline]
    pub(super) fn part(&self, bucket: u64) -> Result<BucketSpan> {
        let starts = (
            self.header.start(self.bytes, bucket),
            self.header.start(self.bytes, bucket.saturating_add(1)),
        );
        if let (Some(begin), Some(end)) = starts
            && begin.bit <= end.bit
            && end.bit <= self.header.bits
            && begin.item <= end.item
            && end.item - begin.item <= MAX_BUCKET_KEYS.into()
        {
            return Ok(BucketSpan {
                bit: begin.bit,
                end: end.bit,
                item: begin.item,
                keys: (end.item - begin.item) as u32,
            });
        }
        let found = format!("{starts:?}");
        Err(damaged(bucket, "places of buckets", "rising", &found))
    }

    #[inline]
    fn split<'k>(&self, key: &'k [u8]) -> (u64, KeyBits<'k>) {
        assert_eq!(key.len(), self.header.shape.key_bytes as usize, "bytes of a key");
        KeyBits::of(key, self.header.buckets)
    }
}

/// Returns the error for a bucket whose bits are not a valid trie.
pub(super) fn not_a_trie(bucket: u64, bad: TrieFault) -> Error {
    let found = match bad {
        TrieFault::Word => "an invalid code word, or none",
        TrieFault::Depth => "more levels than a key has bits",
    };
    damaged(bucket, "trie", "as many code words as its keys need", found)
}
