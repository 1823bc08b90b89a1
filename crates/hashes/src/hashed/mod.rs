//! Hash-ordered structures in a store's extents: SILT's stores, bundles of arrays, and bundles of
//! trees.
//!
//! The store's log and memtables play the role of SILT's log store. A memtable's share of a
//! structure is flushed to a *hash store*: a run of records in hash order, with a filter in memory.
//! Merges move the data of hash stores to the *sorted store*, one part at a time. A lookup queries
//! the filters of the hash stores and then reads one leaf of the sorted store, whether or not the
//! key is present. A *bundle of arrays* (BOA) reduces write amplification by replacing the sorted
//! store with levels of a few runs each. Each level has a routing filter, which determines the runs
//! that a lookup reads. A *bundle of trees* (BOT) writes each run only once: merges rewrite nothing
//! but hashes, in routing trees that lead to the runs.
//!
//! *Scope*: which runs a structure has, and how they are ordered by age; when runs are merged; how
//! a checkpoint stores the structure.
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
//! - **W1** A version is immutable. Its data stays readable for every guard that was pinned before
//!   the next version was published.
//! - **W2** Ages decrease from the newest hash store to the oldest. A message in a hash store is
//!   newer than all messages of the same key in older hash stores and in the sorted store.
//! - **W3** For its hash range, a part contains the data of all hash stores below a certain age,
//!   and lookups in the part skip these hash stores. A hash store is dropped once all parts contain
//!   its data.
//! - **W4** Only one merge runs at a time. Its input is neither changed nor moved until it has
//!   ended.
//! - **W5** No message has a sequence number above the version's cut.
//! - **U1** The levels of a part are ordered by age, and so are the runs of a level. A run covers a
//!   contiguous range of hash store ages, which starts where the range of the next older run ends.
//! - **U2** The records of a run are in hash order, and the messages of each key are ordered from
//!   newest to oldest (R1).
//! - **U3** A level in a bundle of arrays has fewer than λ runs. A filter stores a run as one of λ
//!   characters, one of which is reserved for "none".
//!
//! Invariants U4 to U6, about routing filters, are in `routing/mod.rs`. Invariants V1 to V4, about
//! routing trees, and the differences from Conway's trees are in `trees/mod.rs`. A bundle of arrays
//! differs from Conway's BOA as follows:
//!
//! - The first level consists of hash stores, each with its own filter in memory, so a memtable
//!   flush never waits for a merge. λ hash stores become one run of the first level described here.
//! - A merge into a level reads all levels above it at once. It processes one part at a time, so it
//!   needs free space for only one part.
//! - Leaves are located by an index in memory, so buckets need no padding.
//! - The filter, and the previous run that each record names, are updated once for all records with
//!   the same prefix. If they were updated for each record, as in the paper, the second record
//!   would name its own run.
//! - A lookup ends at the first message that determines its result.
//! - If a filter is damaged, or if a run of its level has lost records, the level is used without
//!   its filter.

mod check;
mod contract;
pub mod format;
mod incorporate;
pub mod index;
mod ingest;
mod layer_merge;
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
