//! Levels: runs without a trunk, merged by one of several policies.
//!
//! Each share of a memtable becomes a run with a filter, the newest run of level 0. Merges combine
//! runs into fewer and larger ones on deeper levels. A policy decides which runs are merged and
//! when. A lookup probes the filters of all runs, newest first, and reads one leaf of the run that
//! has the key.
//!
//! *Scope*: which runs exist and their order by age; when they are merged, and into which level;
//! how a checkpoint stores all of that.
//!
//! *Must not depend on*: threads, clocks, transactions; who assigns sequence numbers; when a
//! memtable is sealed; when a checkpoint is due.
//!
//! Spillane 2012 compares these structures in chapter 5 (SAMT is one of them); here they are one
//! structure with several policies. All extents of a run are freed with the run. Runs share nothing
//! except separate values, which are reference-counted as in the tiered tree.
//!
//! Invariants:
//!
//! - **V1** A version never changes. Everything it refers to stays readable while a guard is alive
//!   that was pinned before its successor was published.
//! - **V2** From level to level, and from the newest run of a level to its oldest, ages decrease
//!   and do not overlap: every message about a key is newer than those about it in later runs.
//!   Parts of the same ages are neighbours.
//! - **V3** Every key of a run is in the run's filter.
//! - **V4** A run that a merge reads keeps its place until the merge is over, and no other merge
//!   reads it.
//! - **V5** No message is above the version's cut.
//! - **V6** A member counts for a range of keys. A run counts for all keys until a slice is merged:
//!   then the inputs count only for the keys outside the slice, and the result only for the keys
//!   within it. A member needs the extents of its range only. Parts of the same ages have no key in
//!   common.

mod check;
mod contract;
mod defragment;
pub mod format;
mod incorporate;
mod ingest;
mod inputs;
mod merge;
pub mod options;
pub mod policy;
mod read;
mod repair;
mod scan;
mod skipped_tombstones;
mod state;
mod structure;
mod sweep;

pub use check::{check_files, reached};
pub use incorporate::LevelsIncorporation;
pub use ingest::LevelsIngest;
pub use merge::MergeStep;
pub use options::{LevelFanout, LevelsOptions, MergePolicy};
pub use read::{LevelsReader, LevelsSearch};
pub use scan::LevelsIter;
pub use structure::{LevelsDictionary, LevelsStats};

pub use crate::merge::stitch::{FilterSource, SameScan, StitchPolicy};
