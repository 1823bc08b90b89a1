//! Atomics and locks of the tables. The atomics are those of the standard library or, under `--cfg
//! alluvium_model_check`, of the model checker.

#[cfg(alluvium_model_check)]
mod chosen {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// A value handed over between two threads.
    #[derive(Debug)]
    pub(crate) struct HandoffCell<T>(loom::cell::UnsafeCell<T>);

    impl<T> HandoffCell<T> {
        pub(crate) fn new(value: T) -> HandoffCell<T> {
            HandoffCell(loom::cell::UnsafeCell::new(value))
        }

        /// Corresponds to the method of the other implementation.
        pub(crate) unsafe fn reach(&self) -> &T {
            // SAFETY: the caller ensures that no thread changes the value during the borrow, and
            // the model checker verifies it.
            self.0.with(|value| unsafe { &*value })
        }

        /// Corresponds to the method of the other implementation.
        pub(crate) unsafe fn reach_mut(&self) -> &mut T {
            // SAFETY: the caller ensures that no other thread accesses the value during the borrow,
            // and the model checker verifies it.
            self.0.with_mut(|value| unsafe { &mut *value })
        }
    }

    /// Yields instead of spinning, to let the model checker run another thread.
    pub(crate) fn spin(_turns: u32) {
        loom::thread::yield_now();
    }
}

#[cfg(not(alluvium_model_check))]
mod chosen {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// A value handed over between two threads.
    #[derive(Debug)]
    pub(crate) struct HandoffCell<T>(std::cell::UnsafeCell<T>);

    impl<T> HandoffCell<T> {
        pub(crate) fn new(value: T) -> HandoffCell<T> {
            HandoffCell(std::cell::UnsafeCell::new(value))
        }

        /// Returns a reference to the value. The caller must ensure that no thread changes the
        /// value during the borrow.
        #[inline]
        pub(crate) unsafe fn reach(&self) -> &T {
            // SAFETY: the caller ensures that no thread changes the value during the borrow.
            unsafe { &*self.0.get() }
        }

        /// Returns a mutable reference to the value. The caller must ensure that no other thread
        /// accesses the value during the borrow.
        #[inline]
        #[allow(
            clippy::mut_from_ref,
            reason = "the caller promises that it is the only reference"
        )]
        pub(crate) unsafe fn reach_mut(&self) -> &mut T {
            // SAFETY: the caller ensures that no other thread accesses the value during the borrow.
            unsafe { &mut *self.0.get() }
        }
    }

    /// Number of spins before a waiting thread yields the processor, because the thread that it is
    /// waiting for may not be running.
    const SPINS: u32 = 64;

    /// Waits briefly for another thread. `turns` is how often the caller has already waited.
    #[cold]
    pub(crate) fn spin(turns: u32) {
        if turns < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

pub(crate) use chosen::{AtomicU32, AtomicU64, HandoffCell, Ordering, fence, spin};

// SAFETY: the value is reachable only through methods whose callers ensure that no thread accesses
// the value while another thread changes it.
unsafe impl<T: Send> Sync for HandoffCell<T> {}

/// A lock that is held for the duration of an append. It does not queue waiting threads, because
/// only few threads hold it, and only briefly.
#[derive(Debug, Default)]
pub(crate) struct Latch(AtomicU32);

/// A locked [`Latch`], which is released on drop.
pub(crate) struct LatchGuard<'a>(&'a Latch);

impl Latch {
    /// Acquires the latch, waiting while another thread holds it.
    pub(crate) fn lock(&self) -> LatchGuard<'_> {
        let mut turns = 0;
        loop {
            if let Some(latched) = self.try_lock() {
                return latched;
            }
            spin(turns);
            turns = turns.saturating_add(1);
        }
    }

    /// Acquires the latch, or returns `None` if another thread holds it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<LatchGuard<'_>> {
        let taken = self
            .0
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| LatchGuard(self))
    }
}

impl Drop for LatchGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}
