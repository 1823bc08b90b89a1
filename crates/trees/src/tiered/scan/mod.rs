//! Scans: iterate over a range in key order or in reverse, and decide records in batches.
//!
//! *Knows*: how the runs and memtables of one leaf's range are merged; how far a scan decides ahead
//! of its caller; how much memory all scans together may retain between calls.
//!
//! *Does not know*: point lookups; how a version is made.
//!
//! *Read in this order*: `iter.rs`, `shares.rs` (the runs of one leaf's range), `scans.rs` (the
//! state shared by all scans), `scan_length.rs` (the average length of scans). The merge of runs
//! and memtables, and the resources that scans retain, are in `crates/trees/src/scanning`.

mod iter;
mod scan_length;
mod scans;
mod shares;

pub use iter::TreeIter;
pub(super) use scans::ScanContext;
