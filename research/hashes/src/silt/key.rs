//! The hashed form of a key, which determines the order of a sorted store.

use alluvium_filters::{hash, trie::key_of};

/// Two hashes of a key, 128 bits in total. Collisions of different keys are negligible, as long
/// as clients do not know the seed.
///
/// ```
/// use research_hashes::silt::HashedKey;
/// let key = HashedKey::of(7, b"apple");
/// assert_eq!(key, HashedKey::of(7, b"apple"));
/// assert_ne!(key, HashedKey::of(7, b"pear"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashedKey {
    first: u64,
    second: u64,
}

impl HashedKey {
    /// The length of a hashed key in bytes.
    pub const BYTES: u32 = 16;

    /// Hashes a key under a store's seed.
    #[must_use]
    pub fn of(seed: u64, key: &[u8]) -> HashedKey {
        HashedKey {
            first: hash(seed, key),
            second: hash(seed ^ 0x9e37_79b9_7f4a_7c15, key),
        }
    }

    /// Returns the bytes, which sort in the order of hashed keys. Tries are built from them.
    #[must_use]
    pub fn bytes(self) -> [u8; Self::BYTES as usize] {
        let mut bytes = [0; Self::BYTES as usize];
        bytes[..8].copy_from_slice(&key_of(self.first));
        bytes[8..].copy_from_slice(&key_of(self.second));
        bytes
    }

    /// Returns the half that cuckoo tables use. The other half determines the position in a
    /// sorted store.
    #[must_use]
    pub fn tag_hash(self) -> u64 {
        self.second
    }
}
