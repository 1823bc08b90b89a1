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
