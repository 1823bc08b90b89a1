//! The common parts of scans over runs: they merge the runs and memtables in a key range.
//!
//! *Scope*: how a scan keeps its position between calls, how the values of keys are determined in
//! batches, how range deletes are skipped.
//!
//! *Must not depend on*: which runs count for a range, and when a scan moves on to others.
//!
//! Invariants:
//!
//! - **W1** The sources of a scan are ordered from newest to oldest, so of several messages with
//!   the same key the newest comes first.
//! - **W2** Between two calls of a scan, a segment stores positions in memtables, but does not keep
//!   the memtables themselves alive.

mod scan_memory;
mod segment;
mod sources;

pub(crate) use scan_memory::{ScanMemory, ScanMemoryUse};
pub(crate) use segment::{RunShare, ScanOutcome, ScanParameters, ScanPosition, ScanSegment};
