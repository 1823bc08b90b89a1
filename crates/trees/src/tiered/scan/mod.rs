//! Scans: iterate over a range in key order or in reverse, and decide records in batches.
//!
//! *Scope*: how the runs and memtables of one leaf's range are merged; how far a scan decides ahead
//! of its caller; how much memory all scans together may retain between calls.
//!
//! *Must not depend on*: point lookups; how a version is made.

mod iter;
mod scan_length;
mod scans;
mod shares;

pub use iter::TreeIter;
pub(super) use scans::ScanContext;
