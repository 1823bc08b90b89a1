//! Scans: iterate over a key range in either direction, and resolve the visible value of each key
//! in batches.
//!
//! *Scope*: how the runs and memtables in one leaf's range are merged; how many records a scan
//! resolves before its caller asks for them; how much memory all scans together may retain between
//! calls.
//!
//! *Must not depend on*: point lookups; how a version comes about.

mod iter;
mod scan_length;
mod scans;
mod shares;

pub use iter::TreeIter;
pub(super) use scans::ScanContext;
