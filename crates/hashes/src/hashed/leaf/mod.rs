//! Leaves of runs. A leaf is a page of records in the order of their keys' hashes.
//!
//! *Scope*: the encoding of a leaf; which records of a leaf belong to a key.
//!
//! *Must not depend on*: which leaf contains a hash; the location of separate values.
//!
//! Invariants:
//!
//! - **R1** The records of a leaf are ordered by hash. Records with the same hash are ordered by
//!   key, and records with the same key are ordered newest first.

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
