//! The atomics, fences and locks of the lock-free cores, so that a model checker can stand in for
//! them.
//!
//! Built with `RUSTFLAGS="--cfg alluvium_model_check"`, the names below are those of `loom`, which
//! runs a test under every schedule and every value that the memory model lets a load return (up to
//! its preemption bound). Otherwise they are those of the standard library and of `parking_lot`.
//! One command runs all model checks:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" CARGO_TARGET_DIR=target/model LOOM_MAX_PREEMPTIONS=3 \
//!     cargo test -p alluvium-storage --lib --release model_check
//! ```
//!
//! `epoch`, the small cores of `cache`, the completion watermark and the log's group commit use
//! this module; under the cfg nothing else is meant to run.

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

    /// Lets another thread run.
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
        /// Waits for a notification; there may be spurious ones.
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// How often a thread spins before it gives the processor away: the holder may be descheduled.
    const SPINS: u32 = 64;

    /// Waits a moment for another thread; `turns` is how often that was done before.
    pub(crate) fn spin(turns: u32) {
        if turns < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

pub(crate) use chosen::{AtomicU32, AtomicU64, Condvar, Mutex, Ordering, fence, spin};
