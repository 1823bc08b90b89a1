//! Scans: iterate over a range of keys in either direction, and resolve the visible value of each
//! key in batches.
//!
//! *Scope*: how the runs and memtables for one leaf's range are merged; how many records a scan
//! resolves before its caller asks for them; how much memory all scans together may retain between
//! calls.
//!
//! *Must not depend on*: point lookups; how a version is made.

mod iter;
mod scan_length;
mod scans;
mod shares;

pub use iter::TreeIter;
pub(super) use scans::ScanContext;
