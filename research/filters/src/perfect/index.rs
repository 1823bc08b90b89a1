//! Lookups in an encoded index.

use super::format::{PerfectHashHeader, WHAT, bucket};
use super::graph::{UNUSED, vertices};
use super::shape::{MAX_BUCKET_KEYS, third};
use crate::{Error, Result};
use alluvium_filters::bits::take;
use std::ops::Range;

/// An encoded index of perfect hash functions. Any number of threads may look up keys
/// concurrently.
#[derive(Clone, Copy, Debug)]
pub struct PerfectHashIndex<'b> {
    pub(super) header: PerfectHashHeader,
    pub(super) bytes: &'b [u8],
    stream: &'b [u8],
}

/// The index's entry for a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PerfectBucket {
    /// The bit at which its vertices begin, and the number of vertices per third.
    pub(super) bit: u64,
    pub(super) third: u32,
    pub(super) item: u64,
    pub(super) keys: u32,
    pub(super) seed: u8,
}

impl<'b> PerfectHashIndex<'b> {
    /// Opens an index of `key_bytes`-byte keys: reads its header and checks the length of the
    /// bytes against it. Only [`PerfectHashIndex::check`] verifies the checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the header is invalid, or the index or its keys have the wrong
    /// length.
    pub fn open(key_bytes: u32, bytes: &'b [u8]) -> Result<PerfectHashIndex<'b>> {
        let header = PerfectHashHeader::read(bytes)?;
        if header.key_bytes != key_bytes {
            let (expected, found) = (key_bytes.to_string(), header.key_bytes.to_string());
            return Err(Error::damaged(WHAT, 8, "bytes of a key", expected, found));
        }
        Ok(PerfectHashIndex {
            header,
            bytes,
            stream: header.stream(bytes),
        })
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.header.keys
    }

    /// Returns the number of buckets.
    #[must_use]
    pub fn buckets(&self) -> u64 {
        self.header.buckets
    }

    /// Returns the length of a key in bytes.
    #[must_use]
    pub fn key_bytes(&self) -> u32 {
        self.header.key_bytes
    }

    /// Returns the bucket of a key.
    #[must_use]
    pub fn bucket_of(&self, key: &[u8]) -> u64 {
        bucket(key, self.header.buckets)
    }

    /// Returns the positions of a bucket's items.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the index has an invalid entry for the bucket.
    pub fn items(&self, bucket: u64) -> Result<Range<u64>> {
        let part = self.part(bucket)?;
        Ok(part.item..part.item + u64::from(part.keys))
    }

    /// Returns the position of a key's item, or `None` if the key is certainly absent. An absent
    /// key may also give a position in its bucket, so the owner compares keys.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the index has an invalid entry for the key's bucket.
    ///
    /// # Panics
    /// When the length of the key is not that of the index's keys.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<u64>> {
        assert_eq!(key.len(), self.header.key_bytes as usize, "bytes of a key");
        let part = self.part(self.bucket_of(key))?;
        if part.keys == 0 {
            return Ok(None);
        }
        let place = place(key, part.seed, part.third, self.stream, part.bit);
        let place = place.filter(|&place| place < part.keys);
        Ok(place.map(|place| part.item + u64::from(place)))
    }

    pub(super) fn stream(&self) -> &'b [u8] {
        self.stream
    }

    /// Reads and validates the index's entry for a bucket.
    #[inline]
    pub(super) fn part(&self, bucket: u64) -> Result<PerfectBucket> {
        let starts = (
            self.header.start(self.bytes, bucket),
            self.header.start(self.bytes, bucket.saturating_add(1)),
        );
        if let (Some(begin), Some(end)) = starts
            && let Some(keys) = end.item.checked_sub(begin.item)
            && keys <= MAX_BUCKET_KEYS.into()
            && end.thirds <= self.header.thirds
            && end.thirds.checked_sub(begin.thirds) == Some(third(keys as u32).into())
        {
            return Ok(PerfectBucket {
                bit: begin.thirds * 6,
                third: third(keys as u32),
                item: begin.item,
                keys: keys as u32,
                seed: begin.seed,
            });
        }
        let found = format!("{starts:?} (bucket {bucket})");
        Err(Error::damaged(
            WHAT,
            0,
            "places of buckets",
            "rising as their keys need",
            found,
        ))
    }
}

/// Returns a key's position in its bucket, whose vertices begin at the given bit of the stream;
/// `None` when the key selects a vertex that is not assigned to a key.
#[inline]
pub(super) fn place(key: &[u8], seed: u8, third: u32, stream: &[u8], bit: u64) -> Option<u32> {
    let edge = vertices(key, seed, third);
    let value = |vertex: u32| take(stream, bit + 2 * u64::from(vertex), 2) as usize;
    let sum: usize = edge.iter().map(|&vertex| value(vertex)).sum();
    let own = *edge.get(sum % 3)?;
    (value(own) != usize::from(UNUSED)).then(|| used_before(stream, bit, own))
}

/// Returns the number of assigned vertices among the first ones.
#[inline]
pub(super) fn used_before(stream: &[u8], bit: u64, vertices: u32) -> u32 {
    const STEP: u32 = 28;
    const LOW: u64 = 0x55_5555_5555_5555;
    let mut unused = 0;
    for begin in (0..vertices).step_by(STEP as usize) {
        let count = (vertices - begin).min(STEP);
        let pairs = take(stream, bit + 2 * u64::from(begin), 2 * count);
        unused += (pairs & pairs >> 1 & LOW).count_ones();
    }
    vertices - unused
}
