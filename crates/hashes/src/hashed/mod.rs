//! Structures without order of keys that a store hosts: SILT's stores, a bundle of arrays, or a
//! bundle of trees, on extents.
//!
//! The store's log and its memtables are what SILT calls the log store. A share of a memtable
//! becomes a *hash store*: its records in the order of their hashes, a filter in memory. Merges
//! take hash stores into the *sorted store*, one of its parts after the other. A lookup asks
//! the filters of the hash stores, then reads one leaf of the sorted store, whether or not it
//! has the key. A *bundle of arrays* (BOA) has levels of a few runs in place of the sorted
//! store, so that less is written again; a routing filter of each level says which of its runs
//! a lookup reads. A *bundle of trees* (BOT) writes a run once: only hashes go on from level to
//! level, into trees that lead to the runs.
//!
//! *Knows*: which runs there are and in which order they are newer; when they are merged; how all
//! of that is kept at a checkpoint.
//!
//! *Does not know*: threads, clocks, transactions; who assigns sequence numbers, when a memtable is
//! sealed, when a checkpoint is due.
//!
//! *Read in this order*: `options.rs`, `leaf`, `index.rs` (which leaf has a hash), `pages`, `run`,
//! `lists`, `routing` and `trees` (which runs of a level have a hash), `policy.rs` (when merges are
//! due), `state.rs` (a version), `structure.rs` (the front), `rules.rs`, `place.rs` (tiers),
//! `incorporate.rs`, `merge/mod.rs`, `layers.rs` and `ingest.rs`, `read.rs` and `descend.rs`,
//! `walk.rs`, `format.rs`, `check.rs`, `salvage.rs` and `mend.rs` (repairs), `figures.rs`,
//! `contract.rs`.
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
//! - **W1** A version never changes. What it refers to stays readable while a guard that was pinned
//!   before its successor was published is alive.
//! - **W2** Ages fall from the newest hash store to the oldest: every message about a key is newer
//!   than those about it in later ones, and than that in the sorted store.
//! - **W3** A part has what all hash stores below an age say of its hashes: lookups in it leave
//!   those out. A hash store goes when all parts have it.
//! - **W4** One merge runs at a time. What it reads stays where it is until it is over.
//! - **W5** No message is above the version's cut.
//! - **U1** Levels of a part are in order of age, and so are the runs of a level: a run has hash
//!   stores from the age at which the older run behind it ends up to its own.
//! - **U2** A run is in order of hashes; of a key, the newest message comes first (R1).
//! - **U3** A level of a bundle of arrays has fewer than λ runs: one character is left for none.
//!
//! U4 to U6, of routing filters, are in `routing/mod.rs`; V1 to V4, of routing trees, and how they
//! differ from Conway's, in `trees/mod.rs`. Where this differs from Conway's BOA:
//!
//! - The first level is that of hash stores, each with a filter of its own in memory: writing a
//!   memtable out waits for no merge. λ of them become one run of the first level here.
//! - What is merged into a level comes from all levels above at once, part by part: a merge needs
//!   the space of one part.
//! - Runs find their leaves by an index in memory, so that buckets need not be padded.
//! - A filter and the runs before that records name are updated for all records of a prefix
//!   together. For each apart, as the paper has it, the second would name its own run.
//! - A lookup ends at the first message that decides it.
//! - A level whose filter is damaged, or of which a run has lost records, goes without one.

mod check;
mod contract;
mod descend;
mod figures;
pub mod format;
mod incorporate;
pub mod index;
mod ingest;
mod layers;
pub mod leaf;
pub mod lists;
mod mend;
mod merge;
pub mod options;
pub mod pages;
mod place;
pub mod policy;
mod read;
pub mod routing;
mod rules;
pub mod run;
mod salvage;
mod state;
mod structure;
#[cfg(test)]
mod tests;
pub mod trees;
mod walk;

pub use check::{check_files, reached};
pub use figures::HashedStats;
pub use incorporate::Incorporation;
pub use ingest::Ingest;
pub use mend::{Gone, Mended};
pub use merge::MergeStep;
pub use options::{HashedForm, HashedOptions, IndexKind};
pub use read::{Reader, Search};
pub use salvage::{Survey, survey};
pub use structure::Hashed;
pub use walk::Iter;
