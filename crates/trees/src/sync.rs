//! The atomics of this crate: the standard ones, or the model checker's under `--cfg alluvium_model_check`.

#[cfg(alluvium_model_check)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(alluvium_model_check))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
