//! Whether the store still takes changes (invariant S6).

use crate::{Error, Result};
use std::sync::OnceLock;

/// The first failure after which nothing on the device can be relied on until it is read again.
#[derive(Debug, Default)]
pub(super) struct Health {
    cause: OnceLock<String>,
}

impl Health {
    /// Whether changes are taken.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first failure.
    pub(super) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Passes the result of a change on, and remembers a failure of the device. A full disk is not
    /// one (K2), nor is a shortage of open files or memory.
    pub(super) fn judge<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && !error.is_full()
            && matches!(error, Error::Device(_) | Error::Poisoned { .. })
        {
            let _ = self.cause.set(error.to_string());
        }
        result
    }
}
