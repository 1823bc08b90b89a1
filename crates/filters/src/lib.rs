//! Compact approximate-membership filters and hash indexes: may a key be present, and where.
//!
//! *Scope*: fingerprints of hashed keys, and how to pack them with small values into pages, look
//! them up, merge them and check them. Other structures over hashes: indexes of entropy-coded tries
//! over sorted hashes ([`trie`]), block indexes of packed stores ([`pachash`]), and immutable
//! filters ([`listed`]). All are functions of byte slices, which the owner reads, caches and
//! writes, except the Bloom filters, which live in memory.
//!
//! *Must not depend on*: keys (except for hashing them), the meaning of values, the location of
//! pages, caches, devices, threads, clocks.
//!
//! Invariants:
//!
//! - **F1** No I/O, no threads, no clock: the same arguments give the same bytes.
//! - **F2** A fingerprint that was added more often than removed is found.
//! - **F3** No input bytes make a reader panic, read outside its slice, loop forever or allocate
//!   more than a page's entries. Wrong bytes give an error or a wrong answer.
//! - **F4** A filter's bytes depend only on its entries and its geometry, not on their order or
//!   origin: bulk building, inserting, removing, merging and resizing yield the same bytes.
//! - **F5** A page holds all entries of its range of fingerprints, except the runs that spilled,
//!   which it identifies. A lookup reads one page, and rarely a second.
//! - **F6** Merging, dropping and resizing need no keys and preserve every bit of a fingerprint.
//! - **F7** Entries are sorted in ascending order: by fingerprint, then from the newest (greatest)
//!   value to the oldest.
//! - **F8** A Bloom filter finds every added key, even in a thread that learns of it while other
//!   threads add keys.

pub mod bits;
pub mod bloom;
mod entry;
mod error;
pub mod fingerprint;
pub mod golomb;
mod hash;
pub mod listed;
pub mod pachash;
mod packed;
pub mod quotient;
pub mod routing;
mod sort;
mod sync;
pub mod trie;

pub use bloom::{BloomBlock, BloomFilter, BloomPosition, LineBlock, WordBlock};
pub use entry::{FilterEntry, Fingerprint, MAX_FINGERPRINT_BITS, MAX_VALUE_BITS};
pub use error::{Error, Result};
pub use hash::hash;
pub use quotient::{
    BuildStats, CountedEntry, EntryChunk, FilterBuilder, FilterGeometry, FilterImage, FilterMerge,
    FilterShape, FilterViolation, FingerprintPresence, FingerprintValues, ImageValues, MergeProgress,
    MergeStats, PageLookup, PageView, QuotientMaplet, SpillView, lookup_many, merge,
};
pub use sort::sort;
