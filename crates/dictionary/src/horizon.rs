//! The garbage collection horizon, which determines the old versions that compactions may drop. It
//! consists of the positions of active readers and the current time.

use crate::merge::{FoldRule, OlderData};
use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The positions of active readers and the current time, which determine the versions that may be
/// dropped. A compaction reads both once, when it begins.
#[derive(Debug, Default)]
pub struct GcHorizon {
    /// The horizon: versions up to this sequence number may have been folded.
    sequence: AtomicU64,
    /// The sequence numbers up to `sequence` at which readers may read, in ascending order. A list
    /// that was once correct stays valid: every later reader reads at its last element or above,
    /// and a reader that has ended merely keeps versions longer than necessary.
    readers: Mutex<Arc<[SequenceNumber]>>,
    now_ms: AtomicU64,
    /// Number of active holds. Compactions must not apply filters while there are any.
    holds: AtomicU64,
}

impl GcHorizon {
    /// Declares that every current and future reader reads at `sequence` or above, so that older
    /// versions may be folded if no such reader can tell them apart. The horizon never decreases.
    pub fn raise(&self, sequence: SequenceNumber) {
        self.raise_past([], sequence);
    }

    /// Declares that every reader reads at one of `snapshots`, which must be ascending, or at `now`
    /// or above, so that versions may be folded if no such reader can tell them apart.
    ///
    /// The caller must ensure that no reader begins below `now` after the snapshots were collected
    /// and before this call returns. Among concurrent calls, the one with the greatest `now` wins.
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

    /// Returns the horizon: versions up to this sequence number may have been folded. A reader
    /// below it may miss data, unless it reads at one of the declared snapshots.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence.load(Ordering::Acquire)
    }

    /// Advances the current time to `now_ms`, in milliseconds of the caller's clock. From now on,
    /// no reader sees a value that expires at or before this time.
    pub fn tick(&self, now_ms: u64) {
        self.now_ms.fetch_max(now_ms, Ordering::AcqRel);
    }

    /// Sets the current time to `now_ms`, even if that is earlier, because the clock was wrong.
    pub fn set_time(&self, now_ms: u64) {
        let before = self.now_ms.swap(now_ms, Ordering::AcqRel);
        debug_assert!(before >= now_ms, "{now_ms} is no earlier moment than {before}");
    }

    /// Keeps compactions that begin from now on from applying filters, until
    /// [`GcHorizon::release_filters`] ends the hold. A snapshot that must keep seeing the same data
    /// needs a hold. If a compaction is running when the snapshot is taken, the snapshot may see a
    /// mix of filtered and unfiltered values.
    pub fn hold_filters(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends a hold that [`GcHorizon::hold_filters`] started.
    ///
    /// # Panics
    /// If no hold is active.
    pub fn release_filters(&self) {
        let before = self.holds.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "filters are released as often as they were held");
    }

    /// Returns whether a compaction that begins now may apply filters.
    #[must_use]
    pub fn asks_filters(&self) -> bool {
        self.holds.load(Ordering::Acquire) == 0
    }

    /// Returns the rule for folding versions in a merge that begins now. `older` tells whether
    /// there is older data below the merge.
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
