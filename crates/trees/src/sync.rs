//! The atomic types used for page versions. They come from the standard library, or from the model
//! checker if the crate is compiled with `--cfg alluvium_model_check`.

#[cfg(alluvium_model_check)]
pub(crate) use loom::sync::atomic::AtomicU64;
#[cfg(all(alluvium_model_check, feature = "couplings"))]
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(not(alluvium_model_check))]
pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(all(not(alluvium_model_check), feature = "couplings"))]
pub(crate) use std::sync::atomic::{Ordering, fence};
