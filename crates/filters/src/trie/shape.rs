//! The parameters of an index, chosen before it is built.

use crate::{Error, Result};

/// Default average number of keys per bucket: a compromise between size and lookup time.
pub const DEFAULT_KEYS_PER_BUCKET: u32 = 256;

/// Default maximum number of keys of a Huffman-coded trie.
pub const DEFAULT_HMAX: u32 = 64;

/// Maximum number of keys of a Huffman-coded trie: a symbol is a byte.
pub const MAX_HMAX: u32 = 256;

/// Maximum length of a key in bytes.
pub const MAX_KEY_BYTES: u32 = 64;

/// Minimum length of a key in bytes: the bucket is computed from them.
pub(super) const MIN_KEY_BYTES: u32 = 8;

/// Maximum number of keys in a bucket: the Elias-gamma code of their number fits one load.
pub const MAX_BUCKET_KEYS: u32 = 1 << 26;

/// Maximum number of buckets; their positions alone then have 16 GiB.
pub(super) const MAX_BUCKETS: u64 = 1 << 32;

/// Maximum number of items in a block.
pub(super) const MAX_BLOCK_ITEMS: u32 = 1 << 20;

/// The parameters of an index.
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
    /// Length of a hashed key in bytes, 8 to [`MAX_KEY_BYTES`].
    pub key_bytes: u32,
    /// Tries of up to this number of keys are Huffman-coded, larger ones Elias-gamma-coded. 1 to
    /// [`MAX_HMAX`].
    pub hmax: u32,
    /// Items per block: a lookup finds an item if this is 1, and a block of items otherwise.
    pub block_items: u32,
    /// Average number of keys per bucket.
    pub keys_per_bucket: u32,
}

impl TrieShape {
    /// Creates the default shape for keys of `key_bytes` bytes: a dense index.
    #[must_use]
    pub fn new(key_bytes: u32) -> TrieShape {
        TrieShape {
            key_bytes,
            hmax: DEFAULT_HMAX,
            block_items: 1,
            keys_per_bucket: DEFAULT_KEYS_PER_BUCKET,
        }
    }

    /// Returns the number of buckets for a number of keys.
    #[must_use]
    pub fn buckets(&self, keys: u64) -> u64 {
        let each = u64::from(self.keys_per_bucket.max(1));
        ((keys + each / 2) / each).clamp(1, MAX_BUCKETS)
    }

    /// Returns the number of bits in a key: the maximum depth of a trie.
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
