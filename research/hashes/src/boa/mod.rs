//! The Bundle of Arrays and its baselines: log-structured levels of runs, with routing filters.
//!
//! *Knows*: runs with equal-width buckets, merging, routing filters with previous pointers,
//! refined ones with check characters, rebuilding (Conway §2.2 to §2.4).
//!
//! *Does not know*: devices, logs, sequence numbers, transactions, threads.
//!
//! *Read in this order*: [`Options`], `run.rs`, `merge.rs`, `filter.rs`, [`Boa`], `lookup.rs`,
//! `rebuild.rs`, `check.rs`; `format.rs`.
//!
//! - **O1** Levels are in order of age: whatever is on a level is newer than all on deeper
//!   levels; on a level, a run is newer than those before it.
//! - **O2** A run is in order of fingerprint; of equal fingerprints, the newest record comes
//!   first.
//! - **O3** A level has fewer than λ runs, which leaves one character for "none".
//! - **O4** The filter of a level names the latest run that holds a prefix. A record's previous
//!   pointer names the run before it, or its own run when there is none: a chain visits all.
//! - **O5** A refined filter has a sketch for each run, prefix and check character that occur.
//! - **O6** All records with a prefix are in one bucket of their run.
//!
//! Where this differs from the paper:
//!
//! - A filter and the previous pointers are updated for a group of records with one prefix. For
//!   each record apart, as the paper has it, the second record of a group points to its own
//!   run, which means "none".
//! - Buckets are blocks that are filled to 11/16 on average. The few records that do not fit
//!   are in an overflow. The paper pads all buckets to the fullest, which one frequent key
//!   makes as long as the run.
//! - The length of a level's prefixes follows from the records of the first run that comes to
//!   it, so that no size has to be planned.
//! - What is merged into a level comes from all levels above at once: no run is written to be
//!   merged again in the same step.
//! - A lookup ends at the newest record of the key; [`Boa::history`] gives all.

mod check;
mod filter;
mod format;
mod lookup;
mod merge;
mod options;
mod rebuild;
mod run;
mod table;

pub use check::Violation;
pub use options::{Duplicates, Kind, Options};
pub use table::{Boa, Figures};

/// Merging and folding of records, which bundles of trees use when they are rebuilt.
pub(crate) mod sorting {
    pub(crate) use super::merge::{Fold, Merge};
    pub(crate) use super::run::Form;
}
