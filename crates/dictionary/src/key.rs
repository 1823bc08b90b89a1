//! A key and its hash.

use alluvium_filters::hash;
use std::fmt;

/// Hash seed for keys. It must never change, because maplets on disk are built from these hashes.
///
/// The seed need not be secret: all that a client can learn from a filter is whether a key may be
/// present.
pub const SEED: u64 = 0;

/// A key and its hash. The hash is computed once and shared by the memtable filters, the record
/// cache and the maplets of a tree.
///
/// ```
/// use alluvium_dictionary::key::LookupKey;
/// let key = LookupKey::new(b"river");
/// assert_eq!(key.bytes(), b"river");
/// assert_eq!(key.hash(), alluvium_filters::hash(0, b"river"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LookupKey<'k> {
    bytes: &'k [u8],
    hash: u64,
}

impl<'k> LookupKey<'k> {
    /// Creates the key and computes its hash.
    #[must_use]
    #[inline]
    pub fn new(bytes: &'k [u8]) -> LookupKey<'k> {
        LookupKey {
            bytes,
            hash: hash(SEED, bytes),
        }
    }

    /// Creates a key from `bytes` and a hash that the caller has already computed.
    #[must_use]
    #[inline]
    pub fn hashed(bytes: &'k [u8], known: u64) -> LookupKey<'k> {
        debug_assert!(known == hash(SEED, bytes), "K3: a key travels with its own hash");
        LookupKey { bytes, hash: known }
    }

    #[must_use]
    #[inline]
    pub fn bytes(self) -> &'k [u8] {
        self.bytes
    }

    /// Returns the hash of the bytes under [`SEED`].
    #[must_use]
    #[inline]
    pub fn hash(self) -> u64 {
        self.hash
    }
}

impl fmt::Debug for LookupKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.bytes.escape_ascii())
    }
}
