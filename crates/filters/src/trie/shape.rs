//! Parameters of a trie index, chosen before it is built.

use crate::{Error, Result};

/// Default average number of keys in a bucket: a compromise between index size and lookup time.
pub const DEFAULT_KEYS_PER_BUCKET: u32 = 256;

/// Default maximum number of keys in a Huffman-coded trie.
pub const DEFAULT_HMAX: u32 = 64;

/// Maximum value of `hmax`, because a symbol is stored in a byte.
pub const MAX_HMAX: u32 = 256;

/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: u32 = 64;

/// Minimum length of a key, in bytes, because these bytes determine the bucket.
pub(super) const MIN_KEY_BYTES: u32 = 8;

/// Maximum number of keys in a bucket. With this limit, the Elias-gamma code of a number of keys
/// fits in one load.
pub const MAX_BUCKET_KEYS: u32 = 1 << 26;

/// Maximum number of buckets, whose positions take up 16 GiB.
pub(super) const MAX_BUCKETS: u64 = 1 << 32;

/// Maximum number of items in a block.
pub(super) const MAX_BLOCK_ITEMS: u32 = 1 << 20;

/// Parameters of a trie index.
///
/// ```
/// use alluvium_filters::trie::TrieShape;
/// let dense = TrieShape::new(20);
/// assert_eq!(dense.buckets(1_000_000), 3906);
/// let sparse = TrieShape { block_items: 16, ..dense };
/// assert_eq!(sparse.buckets(10), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrieShape {
    /// Length of a hashed key in bytes, from 8 to [`MAX_KEY_BYTES`].
    pub key_bytes: u32,
    /// Maximum number of keys in a Huffman-coded trie, from 1 to [`MAX_HMAX`]. Larger tries use the
    /// Elias-gamma code.
    pub hmax: u32,
    /// Number of items in a block. If it is 1, a lookup finds an item, and otherwise a block of
    /// items.
    pub block_items: u32,
    /// Average number of keys in a bucket.
    pub keys_per_bucket: u32,
}

impl TrieShape {
    /// Creates the default parameters of a dense index for keys of `key_bytes` bytes.
    #[must_use]
    pub fn new(key_bytes: u32) -> TrieShape {
        TrieShape {
            key_bytes,
            hmax: DEFAULT_HMAX,
            block_items: 1,
            keys_per_bucket: DEFAULT_KEYS_PER_BUCKET,
        }
    }

    /// Returns the number of buckets that an index of `keys` keys should have.
    #[must_use]
    pub fn buckets(&self, keys: u64) -> u64 {
        let each = u64::from(self.keys_per_bucket.max(1));
        ((keys + each / 2) / each).clamp(1, MAX_BUCKETS)
    }

    /// Returns the number of bits in a key, which is the maximum depth of a trie.
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
