//! Tracks whether the store still accepts changes (invariant S6).

use crate::{Error, Result};
use std::sync::OnceLock;

/// The first device failure since the store was opened. After such a failure, the contents of the
/// device are unknown until the store is reopened.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    cause: OnceLock<String>,
}

impl StoreHealth {
    /// Returns an error if a failure has been recorded.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the cause of the first failure.
    pub(super) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Records the failure if `result` is a device error, so that the store refuses changes from
    /// now on. Returns `result` unchanged. Not treated as failures are a full disk (K2) and a lack
    /// of file descriptors or memory.
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
