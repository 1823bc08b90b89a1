//! Visibility of commits. Every commit up to the watermark is visible. The watermark advances past
//! a commit only after the commit has been applied to its memtable.

use alluvium_base::SequenceNumber;
use alluvium_storage::watermark::Watermark;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// `SPINS` is the number of times that a waiting writer polls the watermark before it starts to
/// yield the processor. `YIELDS` is the number of times that it then yields before it sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 20;

/// The watermark of visible commits, and the threads waiting for it.
#[derive(Debug)]
pub(crate) struct VisibleSequence {
    watermark: Watermark,
    sleepers: AtomicU64,
    lock: Mutex<()>,
    moved: Condvar,
    /// Whether a commit failed after it was logged and before it was applied to its memtable. The
    /// watermark cannot advance past such a commit.
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

    /// Returns the sequence number of the newest commit that is visible to a reader starting now.
    /// All commits with lower numbers are visible, too.
    pub(crate) fn at(&self) -> SequenceNumber {
        self.watermark.completed()
    }

    /// Records that the writes `first..=last` were applied to their memtable, or that they failed
    /// and were voided.
    pub(crate) fn complete(&self, first: SequenceNumber, last: SequenceNumber) {
        self.wait(|| self.watermark.has_room(first));
        if self.watermark.complete(first, last) {
            self.wake();
        }
    }

    /// Waits until all commits up to `at` are visible. Returns false if a failure has made that
    /// impossible.
    pub(crate) fn wait_for(&self, at: SequenceNumber) -> bool {
        self.wait(|| self.at() >= at);
        self.at() >= at
    }

    /// Wakes all threads that wait for commits, because these commits will never become visible.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(self.lock.lock());
        self.moved.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Wakes sleeping threads after the watermark has advanced. A thread that is about to sleep
    /// first increments the number of sleepers and then reads the watermark. The thread that
    /// advances the watermark does so first and reads the number of sleepers here. At least one of
    /// the two therefore sees the other's change.
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
