//! Which commits are visible: all up to a watermark, which moves only over commits that are in
//! their memtable.

use alluvium_base::Sequence;
use alluvium_storage::watermark::Watermark;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// How often a writer looks at the watermark before it gives the processor away, and before it
/// sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 20;

/// The watermark, and who waits for it.
#[derive(Debug)]
pub(crate) struct Visible {
    watermark: Watermark,
    sleepers: AtomicU64,
    lock: Mutex<()>,
    moved: Condvar,
    /// A commit failed between the log and its memtable: the watermark never moves over it.
    stopped: AtomicBool,
}

impl Visible {
    pub(crate) fn new(at: Sequence) -> Visible {
        Visible {
            watermark: Watermark::new(at),
            sleepers: AtomicU64::new(0),
            lock: Mutex::new(()),
            moved: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns the newest commit that a reader which begins now sees; it sees all before it, too.
    pub(crate) fn at(&self) -> Sequence {
        self.watermark.completed()
    }

    /// The writes `first..=last` are in their memtable, or never will be.
    pub(crate) fn complete(&self, first: Sequence, last: Sequence) {
        self.wait(|| self.watermark.has_room(first));
        if self.watermark.complete(first, last) {
            self.wake();
        }
    }

    /// Waits until everything up to `at` is seen. Returns whether it is (it never will be after a
    /// failure).
    pub(crate) fn wait_for(&self, at: Sequence) -> bool {
        self.wait(|| self.at() >= at);
        self.at() >= at
    }

    /// Ends every wait for a commit that never becomes visible.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(self.lock.lock());
        self.moved.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The watermark moves, then this looks for sleepers; a sleeper counts himself, then looks at
    /// the watermark: one sees the other.
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
        let visible = Visible::new(0);
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
        let visible = Visible::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| visible.wait_for(1));
            visible.stop();
            assert!(!waiter.join().unwrap());
        });
    }
}
