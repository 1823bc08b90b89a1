//! Atomics of the tables: those of the standard library, or those of the model checker under
//! `--cfg alluvium_model_check`.

#[cfg(alluvium_model_check)]
mod chosen {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// A value that is passed between two threads.
    #[derive(Debug)]
    pub(crate) struct HandoffCell<T>(loom::cell::UnsafeCell<T>);

    impl<T> HandoffCell<T> {
        pub(crate) fn new(value: T) -> HandoffCell<T> {
            HandoffCell(loom::cell::UnsafeCell::new(value))
        }

        /// As in the other implementation.
        pub(crate) unsafe fn reach(&self) -> &T {
            // SAFETY: the caller promises it, and the model checker looks whether it is so.
            self.0.with(|value| unsafe { &*value })
        }

        /// As in the other implementation.
        pub(crate) unsafe fn reach_mut(&self) -> &mut T {
            // SAFETY: the caller promises it, and the model checker looks whether it is so.
            self.0.with_mut(|value| unsafe { &mut *value })
        }
    }

    /// Yields instead of spinning, so that the model checker schedules another thread.
    pub(crate) fn spin(_turns: u32) {
        loom::thread::yield_now();
    }
}

#[cfg(not(alluvium_model_check))]
mod chosen {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// A value that is passed between two threads.
    #[derive(Debug)]
    pub(crate) struct HandoffCell<T>(std::cell::UnsafeCell<T>);

    impl<T> HandoffCell<T> {
        pub(crate) fn new(value: T) -> HandoffCell<T> {
            HandoffCell(std::cell::UnsafeCell::new(value))
        }

        /// Returns a reference to the value. No thread may change it during the borrow.
        #[inline]
        pub(crate) unsafe fn reach(&self) -> &T {
            // SAFETY: the caller promises it.
            unsafe { &*self.0.get() }
        }

        /// Returns a mutable reference to the value. No other thread may access it during the
        /// borrow.
        #[inline]
        #[allow(
            clippy::mut_from_ref,
            reason = "the caller promises that it is the only reference"
        )]
        pub(crate) unsafe fn reach_mut(&self) -> &mut T {
            // SAFETY: the caller promises it.
            unsafe { &mut *self.0.get() }
        }
    }

    /// Number of spins before a thread yields the processor, because the holder may be descheduled.
    const SPINS: u32 = 64;

    /// Waits briefly for another thread; `turns` is the number of previous waits.
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

// SAFETY: a cell gives its value out only to callers that promise that no two threads reach it at
// once, one of them to change it.
unsafe impl<T: Send> Sync for HandoffCell<T> {}

/// A lock held for the duration of an append. It has no queue, because holders are few and fast.
#[derive(Debug, Default)]
pub(crate) struct Latch(AtomicU32);

/// Holds a [`Latch`] until dropped.
pub(crate) struct LatchGuard<'a>(&'a Latch);

impl Latch {
    /// Acquires the latch, waiting until no other thread holds it.
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

    /// Acquires the latch, unless a thread holds it.
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
