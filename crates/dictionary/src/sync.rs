//! The atomic types of this crate: those of the standard library, or those of the model checker
//! under `--cfg alluvium_model_check`.

#[cfg(alluvium_model_check)]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(alluvium_model_check))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Number of spins before a thread yields the processor. It has to yield at some point, because the
/// thread that it is waiting for may not be running.
#[cfg(not(alluvium_model_check))]
const SPINS: u32 = 64;

/// Waits for another thread to make progress, longer each time.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    turns: u32,
}

impl Backoff {
    #[cold]
    pub(crate) fn wait(&mut self) {
        #[cfg(alluvium_model_check)]
        shuttle::hint::spin_loop();
        #[cfg(not(alluvium_model_check))]
        if self.turns < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        self.turns = self.turns.saturating_add(1);
    }
}
