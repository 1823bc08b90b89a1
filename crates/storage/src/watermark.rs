//! The completion watermark. Many threads report completed ranges of sequence numbers to a ring, in
//! any order. The watermark is the highest number up to which all are complete. The log has one for
//! appended records; higher layers may have others for later stages of the same sequence numbers.
//!
//! To report that `first..=last` is complete, a thread writes `last` to the slot of `first`. The
//! watermark moves from `w` to the value in the slot of `w + 1`, as long as that value is above
//! `w`. Slots are never cleared: a value from an earlier lap of the ring is at most the watermark
//! at the end of that lap, so it is not above `w`. (This is InnoDB's link buffer without its
//! cleaning.)
//!
//! *Bounded*: when a range is reported, its first number may exceed the watermark by at most
//! [`WINDOW`]. A writer that is further ahead must wait until lower numbers are complete. This is
//! the back-pressure on all writers when one of them falls behind.

use crate::sync::{AtomicU64, Ordering};

/// Maximum difference between the watermark and the first number of a completed range.
pub const WINDOW: u64 = if cfg!(alluvium_model_check) { 4 } else { 1 << 16 };

const _: () = assert!(WINDOW.is_power_of_two());

/// Memory in bytes that a watermark uses.
pub const BYTES: u64 = WINDOW * 8;

/// Separates two accesses that must not be reordered. Consider two threads that complete adjacent
/// ranges: one writes a slot and then reads the watermark, while the other moves the watermark and
/// then reads the slot. At least one of them must see the other's write. All four accesses are
/// sequentially consistent, which guarantees this and costs no more than the compare-and-swap
/// alone. The model checker supports sequential consistency only for fences, so it needs a fence
/// here.
pub(crate) fn order() {
    #[cfg(alluvium_model_check)]
    crate::sync::fence(Ordering::SeqCst);
}

/// The completion watermark: every sequence number up to it is complete.
///
/// ```
/// use alluvium_storage::watermark::Watermark;
/// let watermark = Watermark::new(10);
/// assert!(!watermark.complete(12, 14), "11 is missing");
/// assert!(watermark.complete(11, 11));
/// assert_eq!(watermark.completed(), 14);
/// ```
#[derive(Debug)]
pub struct Watermark {
    /// The watermark has its own cache line, because every writer moves it.
    completed: PaddedWatermark,
    slots: Box<[AtomicU64]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct PaddedWatermark(AtomicU64);

impl Watermark {
    /// Creates a watermark at `start`, so that every sequence number up to `start` counts as
    /// complete.
    #[must_use]
    pub fn new(start: u64) -> Watermark {
        Watermark {
            completed: PaddedWatermark(AtomicU64::new(start)),
            slots: (0..WINDOW).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns the watermark. Every sequence number up to it is complete.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed.0.load(Ordering::SeqCst)
    }

    /// Returns whether a range that begins at `first` is inside the window and may be reported as
    /// complete.
    #[must_use]
    pub fn has_room(&self, first: u64) -> bool {
        first <= self.completed() + WINDOW
    }

    fn slot(&self, first: u64) -> &AtomicU64 {
        &self.slots[(first % WINDOW) as usize]
    }

    /// Reports that the sequence numbers `first..=last` are complete. Returns whether the watermark
    /// moved.
    ///
    /// # Panics
    /// If the range is empty, outside the window or already complete, which is a bug in the code
    /// that assigns sequence numbers.
    pub fn complete(&self, first: u64, last: u64) -> bool {
        let completed = self.completed();
        assert!(
            first <= last && first > completed && first <= completed + WINDOW,
            "sequences {first} to {last} are completed, but the watermark is {completed}"
        );
        // Usually the range directly follows the watermark. No other thread can then move the
        // watermark past `first`, so the slot of `first` need not be written.
        if completed + 1 == first && self.try_move(completed, last).is_ok() {
            self.advance(last);
            return true;
        }
        // This thread's writes of the record happen before another thread moves the watermark past
        // this slot.
        self.slot(first).store(last, Ordering::SeqCst);
        order();
        self.advance(self.completed())
    }

    fn try_move(&self, from: u64, to: u64) -> Result<(), u64> {
        debug_assert!(from < to, "the watermark rises, from {from} to {to}");
        self.completed
            .0
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)?;
        order();
        Ok(())
    }

    fn advance(&self, mut completed: u64) -> bool {
        let mut moved = false;
        loop {
            let last = self.slot(completed + 1).load(Ordering::SeqCst);
            if last <= completed {
                return moved;
            }
            match self.try_move(completed, last) {
                Ok(()) => (moved, completed) = (true, last),
                Err(now) => completed = now,
            }
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn the_watermark_stops_at_the_first_missing_sequence() {
        let watermark = Watermark::new(10);
        assert!(!watermark.complete(12, 14));
        assert!(!watermark.complete(20, 20));
        assert_eq!(watermark.completed(), 10);
        assert!(watermark.complete(11, 11));
        assert_eq!(watermark.completed(), 14);
        assert!(watermark.complete(15, 19));
        assert_eq!(watermark.completed(), 20);
    }

    #[test]
    fn the_window_is_a_window() {
        let watermark = Watermark::new(0);
        assert!(watermark.has_room(WINDOW) && !watermark.has_room(WINDOW + 1));
        assert!(!watermark.complete(WINDOW, WINDOW + 5));
        assert!(watermark.complete(1, WINDOW - 1));
        assert_eq!(watermark.completed(), WINDOW + 5);
    }

    #[test]
    fn ranges_longer_than_the_ring_do_not_confuse_later_laps() {
        let watermark = Watermark::new(0);
        let mut next = 1;
        for len in [1, WINDOW * 3 + 7, 2, WINDOW, 1, 5 * WINDOW - 1, 3] {
            if watermark.has_room(next + len) {
                assert!(!watermark.complete(next + len, next + len));
                assert!(watermark.complete(next, next + len - 1));
            } else {
                assert!(watermark.complete(next, next + len - 1));
                assert!(watermark.complete(next + len, next + len));
            }
            next += len + 1;
            assert_eq!(watermark.completed(), next - 1);
        }
    }

    #[test]
    #[should_panic(expected = "the watermark is 5")]
    fn a_sequence_is_completed_once() {
        Watermark::new(5).complete(5, 5);
    }

    #[test]
    fn many_threads_leave_nothing_behind() {
        const THREADS: u64 = 4;
        const EACH: u64 = 40_000;
        let watermark = Watermark::new(0);
        let barrier = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (watermark, barrier) = (&watermark, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for turn in 0..EACH {
                        let sequence = turn * THREADS + thread + 1;
                        while !watermark.has_room(sequence) {
                            std::thread::yield_now();
                        }
                        watermark.complete(sequence, sequence);
                    }
                });
            }
        });
        assert_eq!(watermark.completed(), THREADS * EACH);
    }
}
