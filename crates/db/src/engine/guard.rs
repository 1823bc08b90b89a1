//! Panic handling. A merge operator, a compaction filter, a device or the store itself may panic.
//!
//! A panic may leave the objects that a step was changing in an inconsistent state. The store
//! therefore stops using them and rejects all further changes. Acknowledged commits are safe in the
//! log and are recovered when the store is next opened.

use super::Engine;
use crate::error::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Engine {
    /// Runs a step of background work on any thread. If the step panics, returns the panic as an
    /// error, and the store rejects all further changes.
    pub(crate) fn guarded<T>(&self, what: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        // Unwind safety: state left incomplete by the step is not used again, because every step
        // first checks the store's health.
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| Err(self.panicked(what, &*panic)))
    }

    #[cold]
    fn panicked(&self, what: &str, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no message");
        self.poison(format!("{what} panicked: {text}"))
    }

    /// Makes the store reject all further changes because of `cause`. Returns the error that later
    /// changes will report.
    #[cold]
    pub(super) fn poison(&self, cause: String) -> Error {
        let poisoned = alluvium_storage::Error::Poisoned { cause };
        let error = match self.store.poison_on_error::<()>(Err(poisoned)) {
            Ok(()) => Error::Closed,
            Err(error) => error.into(),
        };
        // Wake all threads that wait for a step, because it will never complete.
        self.throttle.wake_writers();
        self.throttle.call_all();
        error
    }
}

/// Guards a commit from the assignment of its sequence numbers to its completion. If a panic drops
/// the guard, it tells waiting commits that no later commit will become visible.
pub(super) struct CommitGuard<'e> {
    engine: &'e Engine,
}

impl<'e> CommitGuard<'e> {
    pub(super) fn new(engine: &'e Engine) -> CommitGuard<'e> {
        CommitGuard { engine }
    }

    /// Disarms the guard, because the commit has completed or has failed in an orderly way.
    pub(super) fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for CommitGuard<'_> {
    fn drop(&mut self) {
        let _ = self.engine.poison("a commit panicked".to_owned());
        self.engine.visible.stop();
    }
}
