//! Visibility of commits: every commit up to a watermark is visible. The watermark advances only
//! over commits that are applied to their memtable.

use alluvium_base::SequenceNumber;
use alluvium_storage::watermark::Watermark;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// How often a writer polls the watermark before it yields the processor, and how often it yields
/// before it sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 20;

/// The watermark and its waiters.
#[derive(Debug)]
pub(crate) struct VisibleSequence {
    watermark: Watermark,
    sleepers: AtomicU64,
    lock: Mutex<()>,
    moved: Condvar,
    /// Whether a commit failed between the log and its memtable. The watermark never advances over
    /// such a commit.
    stopped: AtomicBool,
}

impl VisibleSequence {
    pub(crate) fn new(at: SequenceNumber) -> VisibleSequence {
        VisibleSequence {
            watermark: Watermark::new(at),
            sleepers: AtomicU64::new(0),
            lock: Mutex::new(()),
            moved: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns the newest commit visible to a reader that starts now. All earlier commits are
    /// visible, too.
    pub(crate) fn at(&self) -> SequenceNumber {
        self.watermark.completed()
    }

    /// Notes that the writes `first..=last` are applied to their memtable, or were given up.
    pub(crate) fn complete(&self, first: SequenceNumber, last: SequenceNumber) {
        self.wait(|| self.watermark.has_room(first));
        if self.watermark.complete(first, last) {
            self.wake();
        }
    }

    /// Waits until everything up to `at` is visible. Returns false if it never will be, after a
    /// failure.
    pub(crate) fn wait_for(&self, at: SequenceNumber) -> bool {
        self.wait(|| self.at() >= at);
        self.at() >= at
    }

    /// Ends all waits for commits that will never become visible.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(self.lock.lock());
        self.moved.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Wakes sleepers after the watermark has advanced. A sleeper first counts itself, then checks
    /// the watermark; this first advances the watermark, then checks the count. At least one of the
    /// two sees the other.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            drop(self.lock.lock());
            self.moved.notify_all();
        }
    }

    fn wait(&self, ready: impl Fn() -> bool) {
        for turn in 0..SPINS + YIELDS {
            if ready() || self.is_stopped() {
                return;
            }
            if turn < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let mut guard = self.lock.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while !ready() && !self.is_stopped() {
            self.moved.wait(&mut guard);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_waiter_sees_commits_in_their_order_only() {
        let visible = VisibleSequence::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| visible.wait_for(3));
            visible.complete(2, 3);
            assert_eq!(visible.at(), 0);
            std::thread::sleep(Duration::from_millis(1));
            visible.complete(1, 1);
            assert!(waiter.join().unwrap());
        });
        assert_eq!(visible.at(), 3);
    }

    #[test]
    fn nobody_waits_for_what_never_comes() {
        let visible = VisibleSequence::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| visible.wait_for(1));
            visible.stop();
            assert!(!waiter.join().unwrap());
        });
    }
}
