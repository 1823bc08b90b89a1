//! Administration of stores: opening, copies, repair, tiers, statistics.
//!
//! *Knows*: where the directories of a store are, how a store is copied, restored and repaired, and
//! the figures that it reports.
//!
//! *Does not know*: how a commit or a lookup works.
//!
//! *Read in this order*: `open.rs` with `path_checks.rs` and `tiers/`; `backup.rs`, `restore.rs`,
//! `repair.rs`, `change_tiers.rs`; `changes.rs` (following all changes); `stats/` and `outline.rs`;
//! `simulation.rs` (stores of tests).

pub(crate) mod backup;
pub(crate) mod change_tiers;
pub(crate) mod changes;
pub(crate) mod open;
pub(crate) mod outline;
pub(crate) mod path_checks;
pub(crate) mod repair;
pub(crate) mod restore;
pub mod simulation;
pub(crate) mod stats;
pub(crate) mod tiers;
