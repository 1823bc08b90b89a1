//! SILT's stores as a structure of a store: hash stores and a sorted store on extents.
//!
//! The store's log and its memtables are what SILT calls the log store. A share of a memtable
//! becomes a *hash store*: its records in the order of their hashes, a filter in memory. Merges
//! take hash stores into the *sorted store*, one of its parts after the other. A lookup asks the
//! filters of the hash stores, then reads one leaf of the sorted store, whether or not it has the
//! key.
//!
//! *Knows*: which runs there are and in which order they are newer; when they are merged; how all
//! of that is kept at a checkpoint.
//!
//! *Does not know*: threads, clocks, transactions; who assigns sequence numbers, when a memtable is
//! sealed, when a checkpoint is due.
//!
//! *Read in this order*: `options.rs`, `leaf`, `index.rs` (which leaf has a hash), `run`,
//! `policy.rs` (when merges are due), `state.rs` (a version), `structure.rs` (the front),
//! `rules.rs`, `incorporate.rs`, `merge.rs`, `layers.rs` and `ingest.rs`, `read.rs`, `walk.rs`,
//! `format.rs`, `check.rs`, `salvage.rs` and `mend.rs` (repairs), `figures.rs`, `contract.rs`.
//!
//! Lim, Fan, Andersen and Kaminsky, "SILT: A Memory-Efficient, High-Performance Key-Value Store"
//! (SOSP 2011); Lim's thesis (2015), chapter 2; Kurpicz, Lehmann and Sanders, "PaCHash: Packed and
//! Compressed Hash Tables" (2023).
//!
//! ```text
//! memtable ─── incorporate ──→ hash stores ────── merge ──────→ sorted store, 2^p parts
//!                               a filter in memory               an index of leaves in memory
//!              a lookup reads   a leaf where a filter says yes   a leaf
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

mod check;
mod contract;
mod figures;
pub mod format;
mod incorporate;
pub mod index;
mod ingest;
mod layers;
pub mod leaf;
mod mend;
mod merge;
pub mod options;
pub mod policy;
mod read;
mod rules;
pub mod run;
mod salvage;
mod state;
mod structure;
#[cfg(test)]
mod tests;
mod walk;

pub use check::{check_files, reached};
pub use figures::HashedStats;
pub use incorporate::Incorporation;
pub use ingest::Ingest;
pub use mend::{Gone, Mended};
pub use merge::MergeStep;
pub use options::{HashedOptions, IndexKind};
pub use read::{Reader, Search};
pub use salvage::{Survey, survey};
pub use structure::Hashed;
pub use walk::Iter;
