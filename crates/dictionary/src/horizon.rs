//! Garbage collection horizon: active readers and the current time.

use crate::merge::{FoldRule, OlderData};
use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Readers and time that determine which versions may be dropped. Each job reads them once when it
/// begins.
#[derive(Debug, Default)]
pub struct GcHorizon {
    /// Newest sequence number up to which versions may have been folded.
    sequence: AtomicU64,
    /// Sequence numbers at or below `sequence` at which readers may read, ascending. A set stays
    /// valid once it was true: later readers read at its last element or above, and a reader that
    /// has ended does no harm.
    readers: Mutex<Arc<[SequenceNumber]>>,
    now_ms: AtomicU64,
    /// Number of holds that prevent compactions from applying filters.
    holds: AtomicU64,
}

impl GcHorizon {
    /// Declares that all readers read at `sequence` or above. Older versions that they cannot
    /// distinguish may be folded. The horizon never decreases.
    pub fn raise(&self, sequence: SequenceNumber) {
        self.raise_past([], sequence);
    }

    /// Declares that all readers read at one of `snapshots`, which are ascending, or at `now` and
    /// above. Versions that none of these can distinguish may be folded.
    ///
    /// The caller ensures that no reader begins below `now` between collecting the snapshots and
    /// this call. A call with a greater `now` takes precedence.
    pub fn raise_past(&self, snapshots: impl IntoIterator<Item = SequenceNumber>, now: SequenceNumber) {
        let mut readers = self.readers.lock();
        if self.sequence.fetch_max(now, Ordering::AcqRel) > now {
            return;
        }
        let below = snapshots.into_iter().filter(|&at| at < now);
        let places: Arc<[SequenceNumber]> = below.chain([now]).collect();
        debug_assert!(places.is_sorted(), "snapshots ascend");
        if *readers != places {
            *readers = places;
        }
    }

    /// Returns the newest sequence number up to which versions may have been folded. A reader below
    /// it that is not at a snapshot may miss data.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence.load(Ordering::Acquire)
    }

    /// Advances the time, in milliseconds of the caller's clock. Puts that expire at or before it
    /// are invisible to every reader from now on.
    pub fn tick(&self, now_ms: u64) {
        self.now_ms.fetch_max(now_ms, Ordering::AcqRel);
    }

    /// Sets the time back after an error of the clock.
    pub fn set_time(&self, now_ms: u64) {
        let before = self.now_ms.swap(now_ms, Ordering::AcqRel);
        debug_assert!(before >= now_ms, "{now_ms} is no earlier moment than {before}");
    }

    /// Prevents compactions that begin from now on from applying filters, until
    /// [`GcHorizon::release_filters`] was called as often. Used by snapshots that must continue to
    /// see the same data. A snapshot taken during a compaction may see values both before and after
    /// the filter.
    pub fn hold_filters(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// Reverts one call of [`GcHorizon::hold_filters`].
    ///
    /// # Panics
    /// If there is none to revert.
    pub fn release_filters(&self) {
        let before = self.holds.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "filters are released as often as they were held");
    }

    /// Returns whether a compaction that begins now may apply filters.
    #[must_use]
    pub fn asks_filters(&self) -> bool {
        self.holds.load(Ordering::Acquire) == 0
    }

    /// Returns the rule for a merge that begins now.
    #[must_use]
    pub fn rule(&self, older: OlderData) -> FoldRule {
        let readers = Arc::clone(&self.readers.lock());
        FoldRule {
            horizon: readers.first().copied().unwrap_or(0),
            readers,
            older,
            now_ms: self.now_ms.load(Ordering::Acquire),
        }
    }
}
