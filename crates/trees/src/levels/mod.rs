//! A log-structured merge tree (LSM tree): sorted runs on levels, merged according to one of
//! several policies.
//!
//! Flushing a slice of a memtable creates a run with a filter, which becomes the newest run of
//! level 0. Merges combine runs into fewer and larger runs on deeper levels. The policy determines
//! which runs are merged, and when. A lookup probes the filters of all runs from newest to oldest.
//! If a filter matches, the lookup reads one leaf of its run.
//!
//! *Scope*: which runs exist, and their order by age; when runs are merged, and into which level;
//! how a checkpoint stores the list of runs.
//!
//! *Must not depend on*: threads, clocks, transactions; who assigns sequence numbers; when a
//! memtable is sealed; when a checkpoint is due.
//!
//! Chapter 5 of Spillane 2012 compares several structures of this kind, among them the SAMT. This
//! module implements all of them as one structure with several policies. When a run is freed, all
//! of its extents are freed with it. Runs share extents only for separate values and adopted
//! leaves, whose extents are reference-counted as in the tiered tree.
//!
//! Invariants:
//!
//! - **V1** A version never changes. Everything that a version refers to stays readable for a guard
//!   that was pinned before the next version was published, until the guard is dropped.
//! - **V2** Runs are ordered from newest to oldest: level by level, and within a level from its
//!   newest to its oldest run. The age intervals of runs are disjoint and decrease in this order,
//!   so every message for a key is newer than all messages for the same key in later runs. The
//!   parts of one run have the same ages and are neighbours.
//! - **V3** The filter of a run contains every key of the run.
//! - **V4** While a run is the input of a merge, it stays in its level and is not the input of
//!   another merge.
//! - **V5** No message has a sequence number above the cut of the version, which is the sequence
//!   number up to which the version contains all commits.
//! - **V6** A member of a version is a run with the key range in which the run is live. At first a
//!   run is live for all keys. After a slice of the key space has been merged, the inputs stay live
//!   only for the keys outside of the slice, and the result is live only for the keys inside. A
//!   member needs only those extents of its run that its range uses. The ranges of parts with the
//!   same ages are disjoint.

mod check;
mod contract;
mod defragment;
pub mod format;
mod incorporate;
mod ingest;
mod inputs;
mod merge;
pub mod options;
mod outline;
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
pub use outline::{LevelsOutline, OutlineLevel, OutlineLevelRun};
pub use read::{LevelsReader, LevelsSearch};
pub use scan::LevelsIter;
pub use structure::{LevelsDictionary, LevelsStats};

pub use crate::merge::stitch::{FilterSource, SameScan, StitchPolicy};
