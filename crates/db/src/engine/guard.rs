//! Panic handling: a merge operator, a compaction filter, a device or the store itself may panic.
//!
//! A step that unwinds leaves its work incomplete. The affected objects refuse further use, and the
//! store refuses changes. Acknowledged commits are in the log and are recovered at the next
//! opening.

use super::Engine;
use crate::error::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Engine {
    /// Runs a step of background work, in any thread. A panic becomes an error, after which the
    /// store refuses changes.
    pub(crate) fn guarded<T>(&self, what: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        // Unwind safety: state that the step left incomplete is not used again, because every step
        // checks the store's health first.
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| Err(self.panicked(what, &*panic)))
    }

    #[cold]
    fn panicked(&self, what: &str, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no message");
        self.poison(format!("{what} panicked: {text}"))
    }

    /// Makes the store refuse changes. Returns the error with the cause.
    #[cold]
    pub(super) fn poison(&self, cause: String) -> Error {
        let poisoned = alluvium_storage::Error::Poisoned { cause };
        let error = match self.store.poison_on_error::<()>(Err(poisoned)) {
            Ok(()) => Error::Closed,
            Err(error) => error.into(),
        };
        // Threads that wait for the completion of a step must learn that there will be none.
        self.throttle.wake_writers();
        self.throttle.call_all();
        error
    }
}

/// A commit between the assignment of its sequence numbers and its completion. If a panic drops it,
/// waiting commits learn that nothing above it will become visible.
pub(super) struct CommitGuard<'e> {
    engine: &'e Engine,
}

impl<'e> CommitGuard<'e> {
    pub(super) fn new(engine: &'e Engine) -> CommitGuard<'e> {
        CommitGuard { engine }
    }

    /// The commit has completed or failed.
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
