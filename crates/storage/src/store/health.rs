//! Tracks whether the store still accepts changes (invariant S6).

use crate::{Error, Result};
use std::sync::OnceLock;

/// The first device failure since the store was opened. After a failure, what the device contains
/// is unknown until the store is reopened.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    cause: OnceLock<String>,
}

impl StoreHealth {
    /// Returns an error if a failure was recorded.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the cause of the first failure.
    pub(super) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Records a device error in `result` as a failure, so that the store refuses changes from now
    /// on, and returns `result` unchanged. A full disk (K2) or a shortage of file descriptors or
    /// memory does not count as a failure.
    pub(super) fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && !error.is_full()
            && matches!(error, Error::Device(_) | Error::Poisoned { .. })
        {
            let _ = self.cause.set(error.to_string());
        }
        result
    }
}
