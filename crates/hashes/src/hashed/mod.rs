//! Unordered structures that a store can host: SILT's stores, a bundle of arrays, or a bundle of
//! trees, on extents.
//!
//! The store's log and memtables play the role of SILT's log store. A share of a memtable becomes a
//! *hash store*: its records in hash order, with a filter in memory. Merges move hash stores into
//! the *sorted store*, one part at a time. A lookup queries the filters of the hash stores, then
//! reads one leaf of the sorted store, whether or not the key is present. A *bundle of arrays*
//! (BOA) has levels of a few runs instead of the sorted store, which reduces write amplification; a
//! routing filter per level determines which of its runs a lookup reads. A *bundle of trees* (BOT)
//! writes each run once: only hashes are moved from level to level, in trees that lead to the runs.
//!
//! *Scope*: the runs and their order of age; when they are merged; how the structure is stored by a
//! checkpoint.
//!
//! *Must not depend on*: threads, clocks, transactions; who assigns sequence numbers, when a
//! memtable is sealed, when a checkpoint is due.
//!
//! Lim, Fan, Andersen and Kaminsky, "SILT: A Memory-Efficient, High-Performance Key-Value Store"
//! (SOSP 2011); Lim's thesis (2015), chapter 2; Kurpicz, Lehmann and Sanders, "PaCHash: Packed and
//! Compressed Hash Tables" (2023); Conway, "Understanding Dictionaries at the Intersection of
//! Theory and Practice" (2020), chapter 2.
//!
//! ```text
//! memtable ─── incorporate ──→ hash stores ────── merge ──────→ sorted store, 2^p parts
//!                               a filter in memory               an index of leaves in memory
//!              a lookup reads   a leaf where a filter says yes   a leaf
//!
//! memtable ─── incorporate ──→ hash stores ────── merge ──────→ levels of 2^p parts
//!                               a filter in memory               a filter of each in pages
//!              a lookup reads   a leaf where a filter says yes   a page of each level's filter,
//!                                                                and a leaf where one says yes
//! ```
//!
//! Invariants:
//!
//! - **W1** A version is immutable. Data that it refers to stays readable while a guard is alive
//!   that was pinned before the next version was published.
//! - **W2** Ages decrease from the newest hash store to the oldest: every message about a key is
//!   newer than those in later hash stores and in the sorted store.
//! - **W3** A part contains the data of all hash stores below an age for its range of hashes, so
//!   lookups in the part skip these hash stores. A hash store is dropped once all parts contain its
//!   data.
//! - **W4** Only one merge runs at a time. Its input is not changed or moved until it has ended.
//! - **W5** No message is above the version's cut.
//! - **U1** The levels of a part are in order of age, and so are the runs of a level: a run covers
//!   the hash stores from the age at which the next older run ends up to its own age.
//! - **U2** A run is in hash order; the messages of a key are in order newest first (R1).
//! - **U3** A level of a bundle of arrays has fewer than λ runs, because one character is reserved
//!   for "none".
//!
//! U4 to U6, about routing filters, are in `routing/mod.rs`. V1 to V4, about routing trees, and
//! their differences from Conway's, are in `trees/mod.rs`. Differences from Conway's BOA:
//!
//! - The first level consists of hash stores, each with its own filter in memory, so writing out a
//!   memtable never waits for a merge. λ of them become one run of the first level here.
//! - The input of a merge into a level comes from all levels above at once, part by part, so that a
//!   merge needs the space of one part.
//! - Runs locate their leaves by an index in memory, so buckets need no padding.
//! - A filter and the previous runs named by records are updated for all records of a prefix
//!   together. If they were updated one by one, as in the paper, the second record would name its
//!   own run.
//! - A lookup ends at the first message that decides it.
//! - A level is used without a filter if the filter is damaged or a run of the level has lost
//!   records.

mod check;
mod contract;
pub mod format;
mod incorporate;
pub mod index;
mod ingest;
mod layers;
pub mod leaf;
pub mod lists;
mod merge;
pub mod options;
pub mod pages;
mod place;
pub mod policy;
mod read;
mod repair;
pub mod routing;
mod rules;
pub mod run;
mod salvage;
mod state;
mod stats;
mod structure;
#[cfg(test)]
mod tests;
mod tree_search;
pub mod trees;
mod unordered_iter;

pub use check::{check_files, reached};
pub use incorporate::HashStoreFlush;
pub use ingest::HashIngest;
pub use merge::MergeStep;
pub use options::{HashedForm, HashedOptions, IndexKind};
pub use read::{HashedReader, HashedSearch};
pub use repair::{HashRepairResult, LostData};
pub use salvage::{SalvageReport, survey};
pub use stats::HashedStats;
pub use structure::HashedStructure;
pub use unordered_iter::UnorderedIter;
