//! Levels: runs without a trunk, merged by one of several policies.
//!
//! A share of a memtable becomes a run with a filter, the newest of level 0. Merges make fewer and
//! larger runs of them, on deeper levels; which and when is what policies differ in. A lookup asks
//! the filters of all runs, newest first, and reads one leaf of the run that has the key.
//!
//! *Knows*: which runs there are and in which order they are newer; when they are merged, and into
//! which level; how all of that is kept at a checkpoint.
//!
//! *Does not know*: threads, clocks, transactions; who assigns sequence numbers, when a memtable is
//! sealed, when a checkpoint is due.
//!
//! *Read in this order*: `options.rs`, `policy.rs` (every decision), `state.rs` (a version),
//! `structure.rs` (the front), `incorporate.rs`, `inputs.rs` and `merge.rs` (with
//! `crate::stitch`: leaves that a merge takes over unread), `sweep.rs` (slices, on a full disk),
//! `defragment.rs`, `waded.rs` (what scans skip), `ingest.rs`, `read.rs`, `scan.rs`, `format.rs`,
//! `check.rs`, `mend.rs` (damaged leaves), `contract.rs`.
//!
//! These are the structures that Spillane 2012 compares in chapter 5, SAMT for one, as one that has
//! many policies. Each extent of a run is given free when the run goes; nothing is shared but
//! separate values, which are counted as for the tiered tree.
//!
//! Invariants:
//!
//! - **V1** A version never changes. What it refers to stays readable while a guard that was pinned
//!   before its successor was published is alive.
//! - **V2** From level to level, and from the newest run of a level to its oldest, ages fall and do
//!   not overlap: every message about a key is newer than those about it in later runs. Parts of
//!   the same ages are neighbours.
//! - **V3** Every key of a run is in the run's filter.
//! - **V4** A run that a merge reads stays where it is until the merge is over, and is in no other
//!   merge.
//! - **V5** No message is above the version's cut.
//! - **V6** A run counts for a range of keys only where slices of it were merged. It needs the
//!   extents of that range, and parts of the same ages have no key in common.

mod check;
mod contract;
mod defragment;
pub mod format;
mod incorporate;
mod ingest;
mod inputs;
mod mend;
mod merge;
pub mod options;
pub mod policy;
mod read;
mod scan;
mod state;
mod structure;
mod sweep;
mod waded;

pub use check::{check_files, reached};
pub use incorporate::Incorporation;
pub use ingest::Ingest;
pub use merge::MergeStep;
pub use options::{Fanout, LevelsOptions, Policy};
pub use read::{Reader, Search};
pub use scan::Iter;
pub use structure::{Levels, LevelsStats};

pub use crate::stitch::{Filters, SameScan, Stitching};
