//! How long scans usually are, so that the next one reads as much at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Longer scans count as so long: they read further and further ahead by themselves.
pub(super) const LONG_SCAN: usize = 4096;
/// How many scans make the average.
const SCANS: u64 = 16;
/// Parts of a record in which it is kept.
const PARTS: u64 = 1 << 16;
const _: () = assert!(
    SCANS > 1 && PARTS > SCANS,
    "a record of one scan moves the average"
);

/// How many records scans take on the average.
#[derive(Debug, Default)]
pub(super) struct UsualScan(AtomicU64);

impl UsualScan {
    /// Notes that a scan has taken `records` records. The note may be lost when several scans end
    /// at once.
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
