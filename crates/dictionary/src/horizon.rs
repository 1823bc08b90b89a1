//! What may be forgotten: which readers there are, and what time it is.

use crate::merge::{Older, Rule};
use alluvium_base::Sequence;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What may be forgotten, read whenever a job begins.
#[derive(Debug, Default)]
pub struct Horizon {
    /// The newest place up to which anything may have been folded.
    sequence: AtomicU64,
    /// The places at which anyone may read up to there, ascending. A set that was true once stays
    /// right: who begins to read later reads at its last place or above, and who has ended does no
    /// harm.
    readers: Mutex<Arc<[Sequence]>>,
    now_ms: AtomicU64,
    /// How many there are who keep compactions from asking filters.
    holds: AtomicU64,
}

impl Horizon {
    /// Readers read at `sequence` or above only: older versions that these cannot tell apart are
    /// folded. It never falls.
    pub fn raise(&self, sequence: Sequence) {
        self.raise_past([], sequence);
    }

    /// Readers read at one of `snapshots`, which ascend, or at `now` and above: versions that none
    /// of these can tell apart are folded.
    ///
    /// The caller sees to it that no reader begins below `now` between the moment at which it looks
    /// for snapshots and this call. What was said of a later `now` stays.
    pub fn raise_past(&self, snapshots: impl IntoIterator<Item = Sequence>, now: Sequence) {
        let mut readers = self.readers.lock();
        if self.sequence.fetch_max(now, Ordering::AcqRel) > now {
            return;
        }
        let below = snapshots.into_iter().filter(|&at| at < now);
        let places: Arc<[Sequence]> = below.chain([now]).collect();
        debug_assert!(places.is_sorted(), "snapshots ascend");
        if *readers != places {
            *readers = places;
        }
    }

    /// The newest place up to which anything may have been folded: a reader below it, at no
    /// snapshot, may miss what was.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence.load(Ordering::Acquire)
    }

    /// Puts that expire at or before this moment, in milliseconds of the caller's clock, are gone
    /// for every reader from now on.
    pub fn tick(&self, now_ms: u64) {
        self.now_ms.fetch_max(now_ms, Ordering::AcqRel);
    }

    /// Takes back what was said of a later moment, which was no time but a mistake of the clock.
    pub fn set_time(&self, now_ms: u64) {
        let before = self.now_ms.swap(now_ms, Ordering::AcqRel);
        debug_assert!(before >= now_ms, "{now_ms} is no earlier moment than {before}");
    }

    /// Compactions that begin from now on ask no filters, until as many calls of
    /// [`Horizon::release_filters`] have followed: for a snapshot that must go on seeing what it
    /// has seen. One that is taken while a compaction is under way may see before and after it.
    pub fn hold_filters(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes back one [`Horizon::hold_filters`].
    ///
    /// # Panics
    /// When there is none.
    pub fn release_filters(&self) {
        let before = self.holds.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "filters are released as often as they were held");
    }

    /// Returns whether a compaction that begins now may ask filters.
    #[must_use]
    pub fn asks_filters(&self) -> bool {
        self.holds.load(Ordering::Acquire) == 0
    }

    /// The rule for a merge that begins now.
    #[must_use]
    pub fn rule(&self, older: Older) -> Rule {
        let readers = Arc::clone(&self.readers.lock());
        Rule {
            horizon: readers.first().copied().unwrap_or(0),
            readers,
            older,
            now_ms: self.now_ms.load(Ordering::Acquire),
        }
    }
}
