//! A key and its hash.

use alluvium_base::checksum::seeded;

/// A key and its hash, which is computed only once, either by a client or on receipt of a request.
///
/// ```
/// use alluvium_hashes::mica::HashedKey;
/// let key = HashedKey::new(7, b"apple");
/// assert_eq!(key.hash(), HashedKey::new(7, b"apple").hash());
/// assert_eq!(key.bytes(), b"apple");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedKey<'a> {
    hash: u64,
    bytes: &'a [u8],
}

impl<'a> HashedKey<'a> {
    /// Creates a key and computes its hash under the table's seed.
    #[must_use]
    #[inline]
    pub fn new(seed: u64, bytes: &'a [u8]) -> HashedKey<'a> {
        let hash = seeded(seed, bytes);
        HashedKey { hash, bytes }
    }

    /// Creates a key with a hash that a client has computed under the table's seed. If the client
    /// sends any other hash, the key can be found only with that same hash, and S3-FIFO evicts it
    /// early.
    #[must_use]
    #[inline]
    pub fn received(hash: u64, bytes: &'a [u8]) -> HashedKey<'a> {
        HashedKey { hash, bytes }
    }

    #[must_use]
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}
