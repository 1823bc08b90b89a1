//! Compact filters, which tell whether a key may be present, and hash indexes, which tell where it
//! is stored.
//!
//! *Scope*: fingerprints of hashed keys, and how to pack fingerprints with small values into pages,
//! look them up, merge them and check them. Other structures over hashes: indexes of entropy-coded
//! tries over sorted hashes ([`trie`]), block indexes of packed stores ([`pachash`]), and immutable
//! filters ([`listed`]). All of these are functions of byte slices, which the caller reads, caches
//! and writes, except for the Bloom filters, which exist only in memory.
//!
//! *Must not depend on*: keys (except for hashing them), what values mean, where pages are stored,
//! caches, devices, threads, clocks.
//!
//! Invariants:
//!
//! - **F1** There is no I/O, no thread and no clock: the same arguments always produce the same
//!   bytes.
//! - **F2** A fingerprint that was added more often than it was removed is found.
//! - **F3** Whatever bytes it is given, a reader does not panic, read outside its slice, loop
//!   forever, or allocate memory for more than the entries of a page. Invalid bytes cause an error
//!   or a wrong answer.
//! - **F4** The bytes of a filter depend only on its entries and its geometry, and not on the order
//!   or origin of the entries. Bulk building, inserting, removing, merging and resizing all produce
//!   the same bytes.
//! - **F5** A page contains all entries in its fingerprint range, except for runs that spilled, and
//!   it identifies these runs. A lookup reads one page, and rarely a second one.
//! - **F6** Merging filters, dropping entries and resizing need no keys and keep every bit of a
//!   fingerprint.
//! - **F7** Entries are sorted by ascending fingerprint, and those with the same fingerprint from
//!   the newest value, which is the greatest, to the oldest.
//! - **F8** A Bloom filter finds every key that was added, even in a thread that learns about an
//!   added key while other threads are adding keys.

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
