//! The mutex and the atomic type of the record cache. They come from `parking_lot` and the standard
//! library, or from the model checker under `--cfg alluvium_model_check`.

#[cfg(alluvium_model_check)]
mod chosen {
    use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread of a model panics and goes on")
        }
    }
}

#[cfg(not(alluvium_model_check))]
mod chosen {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

pub(super) use chosen::{AtomicU64, Mutex, Ordering};
