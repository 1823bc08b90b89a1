//! Synchronisation primitives of the lock table: real ones, or those of the model checker.

#[cfg(not(alluvium_model_check))]
mod real {
    use parking_lot::{Condvar, Mutex};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
    use std::time::Duration;

    /// Number of pauses of a waiter before it sleeps until woken: first it yields the processor,
    /// then it naps.
    const YIELDS: u32 = 16;
    pub(crate) const PAUSES: u32 = YIELDS + 8;
    const NAP: Duration = Duration::from_micros(50);

    /// Gives up the processor between two attempts on a lock.
    pub(crate) fn pause(turn: u32) {
        if turn < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
    }

    /// Threads sleep here until the state changes.
    #[derive(Debug, Default)]
    pub(crate) struct WakeupGate {
        lock: Mutex<()>,
        changed: Condvar,
    }

    impl WakeupGate {
        /// Sleeps until `is_done` returns true; checks it after each wake-up.
        pub(crate) fn wait_until(&self, mut is_done: impl FnMut() -> bool) {
            let mut lock = self.lock.lock();
            while !is_done() {
                self.changed.wait(&mut lock);
            }
        }

        /// Wakes all waiting threads, which check their condition again.
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

    /// Under the checker waiters sleep at once.
    pub(crate) const PAUSES: u32 = 0;

    pub(crate) fn pause(_turn: u32) {}

    /// The checker is sequentially consistent, so a fence does nothing.
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

        /// Loses all later wake-ups, for the model checker.
        pub(crate) fn turn_deaf(&self) {
            self.is_deaf.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(alluvium_model_check)]
pub(crate) use checked::*;
#[cfg(not(alluvium_model_check))]
pub(crate) use real::*;
