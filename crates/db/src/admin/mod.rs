//! Administration of stores: opening, copying, repair, tiers and statistics.
//!
//! *Scope*: in which directories a store resides, how it is copied, restored and repaired, and the
//! statistics that it reports.
//!
//! *Must not depend on*: how a commit or a lookup works.

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
