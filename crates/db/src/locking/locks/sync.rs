//! Synchronisation primitives of the lock table, either the real ones or those of the model
//! checker.

#[cfg(not(alluvium_model_check))]
mod real {
    use parking_lot::{Condvar, Mutex};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
    use std::time::Duration;

    /// `PAUSES` is the number of times that a waiting thread pauses before it sleeps until it is
    /// woken. It yields the processor in the first `YIELDS` pauses, and sleeps for `NAP` in each of
    /// the others.
    const YIELDS: u32 = 16;
    pub(crate) const PAUSES: u32 = YIELDS + 8;
    const NAP: Duration = Duration::from_micros(50);

    /// Pauses between two attempts to acquire a lock, by yielding the processor or by sleeping
    /// briefly. `turn` is the number of earlier pauses.
    pub(crate) fn pause(turn: u32) {
        if turn < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
    }

    /// Threads sleep here until a stripe's state changes.
    #[derive(Debug, Default)]
    pub(crate) struct WakeupGate {
        lock: Mutex<()>,
        changed: Condvar,
    }

    impl WakeupGate {
        /// Sleeps until `is_done` returns true. `is_done` is called once before sleeping and after
        /// each wake-up.
        pub(crate) fn wait_until(&self, mut is_done: impl FnMut() -> bool) {
            let mut lock = self.lock.lock();
            while !is_done() {
                self.changed.wait(&mut lock);
            }
        }

        /// Wakes all waiting threads, each of which checks its condition again.
        pub(crate) fn open(&self) {
            drop(self.lock.lock());
            self.changed.notify_all();
        }
    }
}

#[cfg(alluvium_model_check)]
mod checked {
    pub(crate) use shuttle::hint::spin_loop;
    use shuttle::sync::atomic::AtomicBool;
    pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
    use shuttle::sync::{Condvar, Mutex};

    /// Under the model checker, a waiting thread sleeps without pausing first.
    pub(crate) const PAUSES: u32 = 0;

    pub(crate) fn pause(_turn: u32) {}

    /// The model checker executes all operations in a sequentially consistent order, so a fence has
    /// no effect.
    pub(crate) fn fence(_: Ordering) {}

    #[derive(Debug, Default)]
    pub(crate) struct WakeupGate {
        lock: Mutex<()>,
        changed: Condvar,
        is_deaf: AtomicBool,
    }

    impl WakeupGate {
        pub(crate) fn wait_until(&self, mut is_done: impl FnMut() -> bool) {
            let mut lock = self.lock.lock().unwrap();
            while !is_done() {
                lock = self.changed.wait(lock).unwrap();
            }
        }

        pub(crate) fn open(&self) {
            if self.is_deaf.load(Ordering::Relaxed) {
                return;
            }
            drop(self.lock.lock().unwrap());
            self.changed.notify_all();
        }

        /// Disables all later wake-ups, to test whether the model checker notices.
        pub(crate) fn turn_deaf(&self) {
            self.is_deaf.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(alluvium_model_check)]
pub(crate) use checked::*;
#[cfg(not(alluvium_model_check))]
pub(crate) use real::*;
