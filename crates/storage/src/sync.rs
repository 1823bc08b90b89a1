//! Atomics, fences and locks of the lock-free cores, replaceable by those of a model checker.
//!
//! With `RUSTFLAGS="--cfg alluvium_model_check"`, these names resolve to `loom`, which runs a test
//! under every schedule and every value that the memory model lets a load return (up to its
//! preemption bound). Otherwise they resolve to the standard library and `parking_lot`. One command
//! runs all model checks:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" CARGO_TARGET_DIR=target/model LOOM_MAX_PREEMPTIONS=3 \
//!     cargo test -p alluvium-storage --lib --release model_check
//! ```
//!
//! `epoch`, the small cores of `cache`, the completion watermark and the log's group commit use
//! this module. Under the cfg, only these tests are meant to run.

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
        /// Waits for a notification. Spurious wake-ups are possible.
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Number of spins before a thread yields the processor: the lock's holder may be descheduled.
    const SPINS: u32 = 64;

    /// Waits briefly for another thread. `turns` is the number of earlier waits.
    pub(crate) fn spin(turns: u32) {
        if turns < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

pub(crate) use chosen::{AtomicU32, AtomicU64, Condvar, Mutex, Ordering, fence, spin};
