//! The average scan length, which determines the initial read-ahead of the next scan.

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum length, in records, that a scan contributes to the average. A longer scan extends its
/// own read-ahead.
pub(super) const LONG_SCAN: usize = 4096;
/// Number of scans that the moving average covers.
const SCANS: u64 = 16;
/// Fixed-point units of the average per record.
const PARTS: u64 = 1 << 16;
const _: () = assert!(
    SCANS > 1 && PARTS > SCANS,
    "a record of one scan moves the average"
);

/// The moving average of the number of records per scan.
#[derive(Debug, Default)]
pub(super) struct UsualScan(AtomicU64);

impl UsualScan {
    /// Adds a scan of `records` records to the average. If several scans end concurrently, an
    /// update may be lost.
    pub(crate) fn note(&self, records: usize) {
        let (records, before) = (records.min(LONG_SCAN) as u64, self.0.load(Ordering::Relaxed));
        debug_assert!(
            before / PARTS <= LONG_SCAN as u64,
            "the average is no longer than the longest"
        );
        self.0.store(
            before - before / SCANS + records * PARTS / SCANS,
            Ordering::Relaxed,
        );
    }

    pub(crate) fn records(&self) -> usize {
        (self.0.load(Ordering::Relaxed) / PARTS) as usize
    }
}
