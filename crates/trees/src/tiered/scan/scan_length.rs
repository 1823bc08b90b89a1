//! The average length of scans, from which the next scan derives its read-ahead.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bound for a counted length. Longer scans extend their read-ahead by themselves.
pub(super) const LONG_SCAN: usize = 4096;
/// Number of scans in the moving average.
const SCANS: u64 = 16;
/// Fixed-point scale of the average: units per record.
const PARTS: u64 = 1 << 16;
const _: () = assert!(
    SCANS > 1 && PARTS > SCANS,
    "a record of one scan moves the average"
);

/// The moving average of records per scan.
#[derive(Debug, Default)]
pub(super) struct UsualScan(AtomicU64);

impl UsualScan {
    /// Adds a scan of `records` records. The update may be lost if several scans end concurrently.
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
