//! The Bundle of Arrays and its baselines: log-structured levels of runs, with routing filters.
//!
//! *Scope*: runs with equal-width buckets, merging, routing filters with previous pointers,
//! refined filters with check characters, rebuilding (Conway §2.2 to §2.4).
//!
//! *Must not depend on*: devices, logs, sequence numbers, transactions, threads.
//!
//! - **O1** Levels are ordered by age: all records on a level are newer than all records on
//!   deeper levels; on a level, a run is newer than the runs before it.
//! - **O2** A run is ordered by fingerprint; among equal fingerprints, the newest record comes
//!   first.
//! - **O3** A level has fewer than λ runs, so one character remains for "none".
//! - **O4** The filter of a level names the latest run that contains a prefix. A record's
//!   previous pointer names the previous run with the prefix, or its own run if there is none:
//!   the chain visits all of them.
//! - **O5** A refined filter has a sketch for each existing combination of run, prefix and check
//!   character.
//! - **O6** All records with a prefix are in one bucket of their run.
//!
//! Differences from the paper:
//!
//! - A filter and the previous pointers are updated once for a group of records with the same
//!   prefix. With an update per record, as in the paper, the second record of a group would point
//!   to its own run, which means "none".
//! - Buckets are blocks, filled to 11/16 on average. The few records that do not fit are stored
//!   in an overflow. The paper pads all buckets to the size of the fullest, which a single
//!   frequent key makes as long as the run.
//! - The prefix length of a level is derived from the number of records in its first run, so no
//!   size has to be planned in advance.
//! - All levels above are merged into a level in one merge: no run is written and merged again in
//!   the same step.
//! - A lookup ends at the newest record of the key; [`BoaTable::history`] returns all records.

mod check;
mod filter;
mod format;
mod lookup;
mod merge;
mod options;
mod rebuild;
mod run;
mod table;

pub use check::BoaViolation;
pub use options::{BoaOptions, BoaStructure, DuplicateHandling};
pub use table::{BoaCounters, BoaTable};

/// Merging and folding of records, which bundles of trees use for rebuilding.
pub(crate) mod sorting {
    pub(crate) use super::merge::{DuplicateFilter, RecordMerge};
    pub(crate) use super::run::RecordFormat;
}
