//! Leaves: pages of records in the order of their keys' hashes.
//!
//! *Knows*: the bytes of a leaf; which of its records are about a key.
//!
//! *Does not know*: which leaf has a hash; where values are that are kept apart.
//!
//! *Read in this order*: `format`.
//!
//! Invariants:
//!
//! - **R1** Records of a leaf ascend by hash, those of one hash by key, and those of one key are
//!   newest first.

pub mod format;

pub use format::{Draft, Entries, Entry, KeyAt};

use alluvium_filters::hash;

impl KeyAt<'_> {
    /// Returns the key's hash under the seed of its run.
    #[must_use]
    pub fn hash(&self, seed: u64) -> u64 {
        match self {
            KeyAt::Here(key) => hash(seed, key),
            KeyAt::Apart { hash, .. } => *hash,
        }
    }
}
