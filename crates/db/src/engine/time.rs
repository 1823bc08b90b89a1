//! The clock that readers use to decide which entries have expired.
//!
//! The system clock may go back, either between two processes or when it is set. An entry that a
//! reader has seen as expired must stay expired, so the reading time stands still until the system
//! clock has caught up with the latest reading time. That latest time is persisted by checkpoints,
//! by closing the store, and periodically by a background thread.
//!
//! If the system clock is more than a day behind the latest reading time, it was wrong before or is
//! wrong now. If the reading time stood still then, every new value with an expiry time would
//! expire immediately until the clock had caught up. The system clock is trusted instead, and a
//! warning is logged.

use super::Engine;
use crate::error::Result;
use crate::options::store::WallClock;
use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reading time stands still only if the system clock is behind by at most this much, in
/// milliseconds.
pub(super) const MOST_BEHIND_MS: u64 = 24 * 60 * 60 * 1000;

/// If the system clock is behind by at most this much when the store is opened, in milliseconds, no
/// warning is logged. Small differences are normal, because machines adjust their clocks.
const NOT_WORTH_A_WARNING_MS: u64 = 2000;

/// The background thread persists the reading time once it has advanced by at least this much, in
/// milliseconds.
const WRITTEN_DOWN_MS: u64 = 1000;

/// A clock that stands still rather than going back, if it would go back by at most a day.
pub(super) struct ReadingTime {
    clock: WallClock,
    /// The latest time returned to a reader.
    latest: CachePadded<AtomicU64>,
}

impl fmt::Debug for ReadingTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadingTime")
            .field("latest", &self.latest)
            .finish_non_exhaustive()
    }
}

impl ReadingTime {
    /// Creates a store's clock. `latest` is the latest persisted reading time, in milliseconds
    /// since 1970.
    pub(super) fn new(clock: WallClock, latest: u64) -> ReadingTime {
        let time = ReadingTime {
            clock,
            latest: CachePadded::new(AtomicU64::new(latest)),
        };
        let behind_ms = latest.saturating_sub((time.clock)());
        if (NOT_WORTH_A_WARNING_MS..=MOST_BEHIND_MS).contains(&behind_ms) {
            tracing::warn!(
                "the clock is {} s behind the last time at which the store was read: until it catches up, values that expire within that span already count as expired; correct the clock",
                behind_ms / 1000
            );
        }
        time
    }

    /// Returns the time that a reader must compare to expiry times, in milliseconds since 1970.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let (now, latest) = ((self.clock)(), self.latest.load(Ordering::Relaxed));
        if now == latest {
            return now;
        }
        if now > latest {
            self.latest.fetch_max(now, Ordering::Relaxed);
            return now;
        }
        self.waiting(now, latest)
    }

    /// Like [`ReadingTime::now`], but leaves the latest reading time unchanged. For callers that do
    /// not pass the result to a reader.
    pub(super) fn peek(&self) -> u64 {
        let (now, latest) = ((self.clock)(), self.latest.load(Ordering::Relaxed));
        match latest.saturating_sub(now) {
            behind if behind <= MOST_BEHIND_MS => now.max(latest),
            _ => now,
        }
    }

    #[cold]
    fn waiting(&self, now: u64, latest: u64) -> u64 {
        let behind_ms = latest - now;
        if behind_ms <= MOST_BEHIND_MS {
            return latest;
        }
        let set_back = (self.latest).compare_exchange(latest, now, Ordering::Relaxed, Ordering::Relaxed);
        if set_back.is_ok() {
            tracing::warn!(
                "the clock is {} days behind the last time at which the store was read: the store uses the clock from now on, and values that had expired may reappear; check the clock",
                behind_ms / MOST_BEHIND_MS
            );
        }
        now
    }

    fn latest(&self) -> u64 {
        self.latest.load(Ordering::Relaxed)
    }
}

impl Engine {
    /// Passes the latest reading time to the log, which persists it with its next time mark or
    /// checkpoint.
    pub(super) fn note_time(&self) {
        self.store.log().note_time(self.time.latest());
    }

    /// Persists the latest reading time if it differs enough from the persisted one.
    pub(crate) fn mark_time(&self) -> Result<()> {
        let (latest, noted) = (self.time.latest(), self.store.log().time_ms());
        if self.reads_only || self.store.health().is_err() || latest.abs_diff(noted) < WRITTEN_DOWN_MS {
            return Ok(());
        }
        self.note_time();
        Ok(self.store.poison_on_error(self.store.log().mark_time())?)
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_time_waits_for_a_clock_that_is_a_little_behind_and_follows_one_that_was_wrong() {
        let hand = Arc::new(AtomicU64::new(1 << 40));
        let set = |ms: u64| hand.store(ms, Ordering::Relaxed);
        let clock = Arc::clone(&hand);
        let time = ReadingTime::new(Arc::new(move || clock.load(Ordering::Relaxed)), 0);
        let begin = 1 << 40;
        assert_eq!(
            (time.peek(), time.latest()),
            (begin, 0),
            "no reader has learnt of it"
        );
        assert_eq!(time.now(), begin);
        set(begin - MOST_BEHIND_MS);
        assert_eq!((time.now(), time.peek()), (begin, begin));
        set(begin + 5);
        assert_eq!(time.now(), begin + 5);
        set(begin - MOST_BEHIND_MS);
        assert_eq!(time.peek(), begin - MOST_BEHIND_MS, "behind by more than a day");
        assert_eq!(time.now(), begin - MOST_BEHIND_MS);
        assert_eq!(time.latest(), begin - MOST_BEHIND_MS);
    }
}
