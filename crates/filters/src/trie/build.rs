//! Builds a trie index from keys that arrive in ascending order.

use super::code::TrieCodes;
use super::encode::{BucketKeys, TrieEncoder};
use super::format::{BucketOffset, FRAME, MAX_GROUP_LOG, TrieIndexHeader, encode};
use super::index::TrieIndex;
use super::key::KeyBits;
use super::shape::{MAX_BUCKET_KEYS, MAX_BUCKETS, TrieShape};
use crate::bits::{BitWriter, take};
use crate::{Error, Result};

/// Builds an index while the caller writes its items in key order.
///
/// It needs memory for the index, 16 bytes per bucket, and the keys of one bucket.
///
/// ```
/// use alluvium_filters::trie::{TrieIndexBuilder, TrieCodes, TrieIndex, TrieShape, key_of};
/// let codes = TrieCodes::new(64);
/// let mut builder = TrieIndexBuilder::new(&codes, TrieShape::new(8), 1)?;
/// for hash in [3 << 60, 5 << 60, 6 << 60] {
///     builder.push(&key_of(hash))?;
/// }
/// let bytes = builder.finish();
/// let index = TrieIndex::open(&codes, 8, &bytes)?;
/// assert_eq!(index.lookup(&key_of(5 << 60))?, Some(1));
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Debug)]
pub struct TrieIndexBuilder<'c> {
    codes: &'c TrieCodes,
    shape: TrieShape,
    buckets: u64,
    starts: Vec<BucketOffset>,
    out: BitWriter,
    /// Keys of the bucket being filled, whose number is the length of `starts`.
    bucket: BucketKeys,
    keys: u64,
    last: Vec<u8>,
}

impl<'c> TrieIndexBuilder<'c> {
    /// Starts an index with `buckets` buckets, a number that [`TrieShape::buckets`] computes.
    ///
    /// # Errors
    /// [`Error::Shape`] if a parameter is out of range.
    ///
    /// # Panics
    /// If the codes were created for a different `hmax`.
    pub fn new(codes: &'c TrieCodes, shape: TrieShape, buckets: u64) -> Result<TrieIndexBuilder<'c>> {
        shape.verify()?;
        if !(1..=MAX_BUCKETS).contains(&buckets) {
            let what = format!("{buckets} buckets of a trie index");
            return Err(Error::shape(what, format!("1 to {MAX_BUCKETS}")));
        }
        assert_eq!(codes.hmax(), shape.hmax, "codes of another hmax");
        Ok(TrieIndexBuilder {
            codes,
            shape,
            buckets,
            starts: Vec::new(),
            out: BitWriter::new(),
            bucket: BucketKeys::new(shape.key_bytes as usize - 8),
            keys: 0,
            last: Vec::new(),
        })
    }

    /// Adds the next key.
    ///
    /// # Errors
    /// [`Error::Order`] if the key is not greater than the previous one; [`Error::Shape`] if its
    /// bucket already has [`MAX_BUCKET_KEYS`] keys.
    ///
    /// # Panics
    /// If the key does not have the length that the shape requires.
    pub fn push(&mut self, key: &[u8]) -> Result<()> {
        assert_eq!(key.len(), self.shape.key_bytes as usize, "bytes of a key");
        let (bucket, bits) = KeyBits::of(key, self.buckets);
        if key <= self.last.as_slice() || bucket < self.starts.len() as u64 {
            let (entry, last) = (super::format::head(key).0, super::format::head(&self.last).0);
            return Err(Error::Order { entry, last });
        }
        self.close_until(bucket);
        if self.bucket.len() >= MAX_BUCKET_KEYS as usize {
            let what = format!("more than {MAX_BUCKET_KEYS} keys in a bucket of a trie index");
            return Err(Error::shape(what, "more buckets"));
        }
        self.bucket.push(bits.fraction, bits.rest);
        self.keys += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Copies the bits of a bucket from another index with the same shape and number of buckets, if
    /// possible. It is possible if this bucket has no keys here yet, and if its first item has the
    /// same offset in its block as in the other index. Returns whether the bucket was copied.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bucket's positions in the other index are invalid.
    pub fn copy(&mut self, from: &TrieIndex<'_>, bucket: u64) -> Result<bool> {
        let (old, keys) = (from.part(bucket)?, self.keys);
        let shape = TrieShape {
            keys_per_bucket: self.shape.keys_per_bucket,
            ..from.shape()
        };
        let is_begun = bucket < self.starts.len() as u64
            || (bucket == self.starts.len() as u64 && self.bucket.len() > 0);
        let block_items = u64::from(self.shape.block_items);
        let moved = keys % block_items != old.item % block_items;
        if is_begun || moved || shape != self.shape || from.buckets() != self.buckets {
            return Ok(false);
        }
        self.close_until(bucket);
        self.starts.push(BucketOffset {
            bit: self.out.len(),
            item: keys,
        });
        for at in (old.bit..old.end).step_by(48) {
            let count = (old.end - at).min(48) as u32;
            self.out.push(take(from.stream(), at, count), count);
        }
        self.keys += u64::from(old.keys);
        Ok(true)
    }

    /// Returns the number of keys added so far.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Writes the tries of all buckets before `bucket`, which is filled next.
    fn close_until(&mut self, bucket: u64) {
        while (self.starts.len() as u64) < bucket {
            let item = self.keys - self.bucket.len() as u64;
            self.starts.push(BucketOffset {
                bit: self.out.len(),
                item,
            });
            let encoder = TrieEncoder {
                codes: self.codes,
                keys: &self.bucket,
                block_items: self.shape.block_items,
                key_bits: self.shape.key_bits(),
            };
            let into_block = (item % u64::from(self.shape.block_items)) as u32;
            encoder.encode(&mut self.out, into_block);
            self.bucket.clear();
        }
    }

    /// Writes the remaining buckets and returns the encoded index.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.close_until(self.buckets);
        let header = TrieIndexHeader {
            shape: self.shape,
            group_log: group_log(&self.starts),
            keys: self.keys,
            buckets: self.buckets,
            bits: self.out.len(),
        };
        encode(&header, &self.starts, &self.out.finish())
    }
}

/// Returns the base-2 logarithm of the largest group size that satisfies T5, so that all buckets of
/// a group start close enough to the start of the group.
pub(super) fn group_log(starts: &[BucketOffset]) -> u32 {
    let fits = |log: &u32| {
        starts.chunks(1 << log).all(|group| {
            let (Some(base), Some(last)) = (group.first(), group.last()) else {
                return true;
            };
            (last.bit - base.bit).max(last.item - base.item) <= u16::MAX.into()
        })
    };
    (0..=MAX_GROUP_LOG).rev().find(fits).unwrap_or(0)
}

/// Returns the error for a bucket with invalid positions in the index.
pub(super) fn damaged(bucket: u64, what: &'static str, expected: &str, found: &str) -> Error {
    FRAME.damaged(0, what, expected, format!("{found} (bucket {bucket})"))
}
