//! Shared parts of scans over runs: merging runs and memtables within a range.
//!
//! *Scope*: how a position is kept between the calls of a scan, how records are decided in batches,
//! how range deletes are skipped.
//!
//! *Must not depend on*: which runs count for a range, and when a scan moves on to others.
//!
//! Invariants:
//!
//! - **W1** Sources are ordered newest first: of equal keys the newest message comes first.
//! - **W2** Between two calls of a scan, a segment holds no memtable, only positions in memtables.

mod scan_memory;
mod segment;
mod sources;

pub(crate) use scan_memory::{ScanMemory, ScanMemoryUse};
pub(crate) use segment::{RunShare, ScanOutcome, ScanParameters, ScanPosition, ScanSegment};
