//! What is chosen of an index before it is built.

use crate::{Error, Result};

/// Keys of a bucket, on average: a compromise between size and the time of a lookup.
pub const DEFAULT_KEYS_PER_BUCKET: u32 = 256;

/// Tries of up to this many keys are Huffman-coded.
pub const DEFAULT_HMAX: u32 = 64;

/// The most keys of a Huffman-coded trie: a symbol is a byte.
pub const MAX_HMAX: u32 = 256;

/// The most bytes of a key.
pub const MAX_KEY_BYTES: u32 = 64;

/// The fewest bytes of a key: its bucket is computed from them.
pub(super) const MIN_KEY_BYTES: u32 = 8;

/// The most keys of a bucket: an Elias-gamma code of their number is loaded at once.
pub const MAX_BUCKET_KEYS: u32 = 1 << 26;

/// The most buckets: an index of them alone has 16 GiB.
pub(super) const MAX_BUCKETS: u64 = 1 << 32;

/// The most items of a block.
pub(super) const MAX_BLOCK_ITEMS: u32 = 1 << 20;

/// What is chosen of an index.
///
/// ```
/// use alluvium_filters::trie::Shape;
/// let dense = Shape::new(20);
/// assert_eq!(dense.buckets(1_000_000), 3906);
/// let sparse = Shape { block_items: 16, ..dense };
/// assert_eq!(sparse.buckets(10), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a hashed key, 8 to [`MAX_KEY_BYTES`].
    pub key_bytes: u32,
    /// Tries of up to this many keys are Huffman-coded, larger ones Elias-gamma-coded. 1 to
    /// [`MAX_HMAX`].
    pub hmax: u32,
    /// Items of a block: a lookup finds the item if 1, a block of items otherwise.
    pub block_items: u32,
    /// Keys of a bucket on average.
    pub keys_per_bucket: u32,
}

impl Shape {
    /// Creates the default shape for keys of some bytes: a dense index.
    #[must_use]
    pub fn new(key_bytes: u32) -> Shape {
        Shape {
            key_bytes,
            hmax: DEFAULT_HMAX,
            block_items: 1,
            keys_per_bucket: DEFAULT_KEYS_PER_BUCKET,
        }
    }

    /// Returns into how many buckets a number of keys is split.
    #[must_use]
    pub fn buckets(&self, keys: u64) -> u64 {
        let each = u64::from(self.keys_per_bucket.max(1));
        ((keys + each / 2) / each).clamp(1, MAX_BUCKETS)
    }

    /// Returns how many bits tell keys apart: the most levels of a trie.
    pub(super) fn key_bits(&self) -> u32 {
        self.key_bytes * 8
    }

    pub(super) fn verify(&self) -> Result<()> {
        let bounds = [
            (self.key_bytes, MIN_KEY_BYTES, MAX_KEY_BYTES, "bytes of a key"),
            (self.hmax, 1, MAX_HMAX, "keys of a Huffman-coded trie"),
            (self.block_items, 1, MAX_BLOCK_ITEMS, "items of a block"),
        ];
        for (number, least, most, what) in bounds {
            if !(least..=most).contains(&number) {
                return Err(Error::shape(
                    format!("{number} {what} of a trie"),
                    format!("{least} to {most}"),
                ));
            }
        }
        Ok(())
    }
}
