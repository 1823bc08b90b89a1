//! Atomics of this crate: those of the standard library or, under `--cfg alluvium_model_check`, of
//! the model checker.

#[cfg(alluvium_model_check)]
pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(alluvium_model_check))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
