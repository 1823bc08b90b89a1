//! The shared parts of scans over runs, which merge the runs and memtables in a key range.
//!
//! *Scope*: how a scan keeps its position between calls, how the values of keys are determined in
//! batches, how range deletes are skipped.
//!
//! *Must not depend on*: which runs are relevant to a range, and when a scan moves on to others.
//!
//! Invariants:
//!
//! - **W1** A scan's sources are ordered from newest to oldest, so the newest of several messages
//!   with the same key comes first.
//! - **W2** Between two calls of a scan, a segment stores positions in memtables, but does not keep
//!   the memtables themselves alive.

mod scan_memory;
mod segment;
mod sources;

pub(crate) use scan_memory::{ScanMemory, ScanMemoryUse};
pub(crate) use segment::{RunShare, ScanOutcome, ScanParameters, ScanPosition, ScanSegment};
