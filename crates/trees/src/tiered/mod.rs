//! The tiered tree: a size-tiered Bε-tree of runs and maplets, in which a flush moves no data and a
//! message is compacted at most once on each level.
//!
//! *Knows*: which runs hold which range of keys and in which order they are newer; when they sink,
//! are compacted, split and merged; who uses which extent; how all of that is kept at a checkpoint.
//!
//! *Does not know*: threads, clocks, transactions; who assigns sequence numbers, when a memtable is
//! sealed, when a checkpoint is due.
//!
//! *Read in this order*: `policy.rs` (every decision), `lost.rs` (one more: beside what cannot be
//! read), `trunk/` (nodes, changes of shape, versions), `compact/`, `incorporate/` (what comes in),
//! `lookup/`, `scan/`, `disk/`, `show/`, `tree.rs` (the front of them all), `contract.rs` (the tree
//! as its store sees it).
//!
//! This is SplinterDB's STBε-tree (Conway 2020, chapter 3) with maplets (Conway et al., SIGMOD
//! 2023) on pages that are never overwritten. SplinterDB locks trunk nodes hand over hand and
//! splits them on the way down, before it knows whether it must. Here the trunk is an immutable
//! value of which a new version is published by one store to one pointer: a reader takes no lock
//! and sees one version from root to leaf; a change is made by one writer at a time, and what takes
//! long, compaction, is done outside of it and handed in. A change costs the copy of a path, some
//! microseconds, for every few megabytes written.
//!
//! Invariants:
//!
//! - **T1** In a pivot's stack (its own parts, then its live bundles, oldest to newest) every
//!   message about a key is older than those about it in later parts; what a node holds is newer
//!   than what its children hold.
//! - **T2** A version never changes, but for its digest, which is added to (D1). What it refers to
//!   stays readable while a guard that was pinned before its successor was published is alive.
//! - **T3** A pivot of an index node holds at most 3 F runs after a flush has settled, and of a
//!   leaf whose compactions are done at most as many lie above one key: a lookup asks at most 3 h
//!   F.
//! - **T4** A compaction's result is installed only where its inputs still are the oldest pending
//!   part of the same stack.
//! - **T5** An extent of a run is in use exactly while a pivot, or a compaction that was not
//!   overtaken, has the run in a range that needs it. Where a compaction uses it a pivot does too,
//!   so that a crash leaves nothing unreachable.
//! - **T6** Every key of every run of a group is in the group's maplet, under that run's place.
//! - **T7** Between its calls a scan holds neither a version nor a memtable: a position, counted
//!   frames of the cache, and records that it has decided, which nothing changes any more.
//! - **T8** Filters are asked by compactions only, and only by those that began while filters were
//!   not held back.
//! - **T9** A leaf of a run holds records of one keyspace, and so does a node of separate values.
//! - **T10** Where the trunk names a run with a sequence number, all its records have this number,
//!   whatever the run says.

mod compact;
mod contract;
mod disk;
mod incorporate;
mod lookup;
mod lost;
pub mod policy;
mod scan;
mod show;
mod tree;
mod trunk;

pub use alluvium_dictionary::contract::Progress;
pub use alluvium_dictionary::findings::{Checked, Depth, Examined, Findings};
pub use alluvium_dictionary::horizon::Horizon;
pub use compact::{Job, Maintenance, Step};
pub use disk::{Lost, Salvage, check_files, format, reached};
pub use incorporate::Incorporation;
pub use lookup::{Digesting, Lookup, Reader, Search};
pub use policy::{Shape, Victim};
pub use scan::Iter;
pub use show::{Holdings, Outline, OutlineBundle, OutlineLayer, OutlineNode, OutlinePivot, OutlineRun};
pub use tree::Tree;
pub use trunk::{Adoption, Counts, Debt, Edge, Memory, Stats, TreeOptions, Underway, Version};
