//! Whether the store still accepts changes (invariant S6).

use crate::{Error, Result};
use std::sync::OnceLock;

/// The first failure of the device. After it, the device's contents are unknown until the store is
/// reopened.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    cause: OnceLock<String>,
}

impl StoreHealth {
    /// Checks that no failure was recorded.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first failure.
    pub(super) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Records a device failure in the result of a change, and returns the result. A full disk does
    /// not count as a failure (K2), nor does a shortage of open files or memory.
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
