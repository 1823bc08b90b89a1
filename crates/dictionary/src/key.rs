//! A key together with its hash.

use alluvium_filters::hash;
use std::fmt;

/// Seed of key hashes. Maplets on disk are built from these hashes.
///
/// A fixed seed reveals nothing: a client learns from a filter only whether a key may be present.
pub const SEED: u64 = 0;

/// A key with its hash, which is computed once and then used by the filters of memtables, the
/// record cache and the maplets of a tree.
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

    /// Creates a key from its bytes and their known hash.
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
