//! Leaves of runs. A leaf is a page of records, ordered by the hashes of their keys.
//!
//! *Scope*: the encoding of a leaf; which records of a leaf belong to a key.
//!
//! *Must not depend on*: which leaf contains a hash; where separate values are stored.
//!
//! Invariants:
//!
//! - **R1** The records of a leaf are ordered by hash, those with the same hash by key, and those
//!   with the same key from newest to oldest.

pub mod format;

pub use format::{HashLeafBuilder, HashLeafEntry, KeyAt, LeafEntryIter};

use alluvium_filters::hash;

impl KeyAt<'_> {
    /// Returns the hash of the key under `seed`, the seed of its run.
    #[must_use]
    pub fn hash(&self, seed: u64) -> u64 {
        match self {
            KeyAt::Here(key) => hash(seed, key),
            KeyAt::Apart { hash, .. } => *hash,
        }
    }
}
