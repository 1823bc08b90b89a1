//! The atomics of this crate: the standard ones, or the model checker's under
//! `--cfg alluvium_model_check`.

#[cfg(alluvium_model_check)]
pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(alluvium_model_check))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
