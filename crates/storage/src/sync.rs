//! Atomics, fences and locks for lock-free code, which a model checker can replace.
//!
//! With `RUSTFLAGS="--cfg alluvium_model_check"`, these names refer to `loom`, which runs a test
//! under every schedule, up to a maximum number of preemptions, and with every value that the
//! memory model allows a load to return. Otherwise, they refer to the standard library and
//! `parking_lot`. The following command runs all model checks:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" CARGO_TARGET_DIR=target/model LOOM_MAX_PREEMPTIONS=3 \
//!     cargo test -p alluvium-storage --lib --release model_check
//! ```
//!
//! The users of this module are `epoch`, the lock-free parts of `cache`, the completion watermark,
//! and the log's group commit. With this cfg, only the tests in modules named `model_check` are
//! meant to be run.

#[cfg(alluvium_model_check)]
mod chosen {
    use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread of a model panics and goes on")
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0
                .wait(guard)
                .expect("no thread of a model panics and goes on")
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    pub(crate) fn spin(_turns: u32) {
        loom::thread::yield_now();
    }
}

#[cfg(not(alluvium_model_check))]
mod chosen {
    pub(crate) use parking_lot::Mutex;
    use parking_lot::MutexGuard;
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Releases the lock, waits for a notification, and locks again. May wake up spuriously.
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Number of times a thread spins before it yields the processor, because the thread it waits
    /// for may not be running.
    const SPINS: u32 = 64;

    /// Waits briefly for another thread. `turns` is how often the caller has waited already.
    pub(crate) fn spin(turns: u32) {
        if turns < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

pub(crate) use chosen::{AtomicU32, AtomicU64, Condvar, Mutex, Ordering, fence, spin};
