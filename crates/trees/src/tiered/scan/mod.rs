//! Scans: what a range holds, in key order or against it, decided by the batch.
//!
//! *Knows*: how the runs and memtables of one leaf's range are merged; how far ahead of its caller
//! a scan decides; what all scans together may hold between their calls.
//!
//! *Does not know*: point lookups; how a version is made.
//!
//! *Read in this order*: `iter.rs`, `shares.rs` (the runs of one leaf's range), `scans.rs` (what
//! all scans share), `usual.rs` (how long they are). How runs and memtables are merged, and what
//! scans hold, is in `crates/trees/src/scanning`.

mod iter;
mod scans;
mod shares;
mod usual;

pub use iter::Iter;
pub(super) use scans::Scans;
