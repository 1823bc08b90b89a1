//! The garbage collection horizon: the positions of active readers and the current time. They
//! determine which old versions compactions may drop.

use crate::merge::{FoldRule, OlderData};
use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The positions of active readers and the current time, which determine which versions may be
/// dropped. Each compaction reads them once, when it begins.
#[derive(Debug, Default)]
pub struct GcHorizon {
    /// The horizon: versions up to this sequence number may have been folded.
    sequence: AtomicU64,
    /// The sequence numbers up to `sequence` at which readers may read, in ascending order. A list
    /// that was once correct remains valid: every later reader reads at its last element or above,
    /// and a reader that has ended only keeps versions longer than necessary.
    readers: Mutex<Arc<[SequenceNumber]>>,
    now_ms: AtomicU64,
    /// Number of active holds. While there are any, compactions must not apply filters.
    holds: AtomicU64,
}

impl GcHorizon {
    /// Declares that every current and future reader reads at `sequence` or above. Older versions
    /// that no such reader can tell apart may then be folded. The horizon never decreases.
    pub fn raise(&self, sequence: SequenceNumber) {
        self.raise_past([], sequence);
    }

    /// Declares that every reader reads either at one of `snapshots`, which must be ascending, or
    /// at `now` or above. Versions that no such reader can tell apart may then be folded.
    ///
    /// The caller must ensure that no reader begins below `now` between the collection of the
    /// snapshots and this call. Among concurrent calls, the one with the greatest `now` takes
    /// precedence.
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
    /// below the horizon may therefore miss data, unless it reads at one of the declared snapshots.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence.load(Ordering::Acquire)
    }

    /// Advances the current time to `now_ms`, in milliseconds of the caller's clock. From now on,
    /// values that expire at or before this time are invisible to every reader.
    pub fn tick(&self, now_ms: u64) {
        self.now_ms.fetch_max(now_ms, Ordering::AcqRel);
    }

    /// Sets the current time to `now_ms`, even if that is earlier, to correct an error of the
    /// clock.
    pub fn set_time(&self, now_ms: u64) {
        let before = self.now_ms.swap(now_ms, Ordering::AcqRel);
        debug_assert!(before >= now_ms, "{now_ms} is no earlier moment than {before}");
    }

    /// Prevents compactions that begin from now on from applying filters. The hold lasts until a
    /// matching call of [`GcHorizon::release_filters`]. Snapshots that must continue to see the
    /// same data use it. A snapshot that is taken while a compaction runs may see some values from
    /// before and some from after the filter.
    pub fn hold_filters(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends one hold that [`GcHorizon::hold_filters`] has started.
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

    /// Returns the rule by which a merge that begins now folds versions. `older` says whether older
    /// data exists below the merge.
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
