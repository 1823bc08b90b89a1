//! The state shared by all scans of a tree.

use super::scan_length::UsualScan;
use crate::segment_scan::ScanMemory;
use crate::tiered::trunk::Trunk;
use std::fmt;
use std::sync::Arc;

/// The trunk that a tree's scans read, the memory that they retain between calls, and their average
/// length.
pub(crate) struct ScanContext {
    pub(super) trunk: Arc<Trunk>,
    pub(super) held: ScanMemory,
    pub(super) usual: UsualScan,
}

impl ScanContext {
    /// Creates the shared state for a tree that has no scans yet.
    pub(crate) fn new(trunk: &Arc<Trunk>) -> ScanContext {
        ScanContext {
            trunk: Arc::clone(trunk),
            held: ScanMemory::default(),
            usual: UsualScan::default(),
        }
    }

    /// Sets the maximum number of bytes that all scans together may retain between calls. On top of
    /// that, each scan may always retain a small minimum.
    pub(crate) fn limit(&self, bytes: u64) {
        self.held.limit(bytes);
    }

    /// Returns the number of bytes that scans retain between calls.
    pub(crate) fn hold_bytes(&self) -> u64 {
        self.held.bytes()
    }
}

impl fmt::Debug for ScanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanContext")
            .field("hold_bytes", &self.hold_bytes())
            .finish_non_exhaustive()
    }
}
