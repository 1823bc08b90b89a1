//! Panics: of a merge operator or a compaction filter, of a device, or of the store itself.
//!
//! A step that unwinds leaves its work half done. What it worked on refuses to go on, and the store
//! takes no more changes: what was acknowledged is in the log, where the next opening finds it.

use super::Engine;
use crate::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Engine {
    /// Does a step of the background, in whatever thread. A panic in it is an error, after which
    /// the store takes no more changes.
    pub(crate) fn guarded<T>(&self, what: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        // What the step may have left half done is not used again: every step asks for the store's
        // health first.
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| Err(self.panicked(what, &*panic)))
    }

    #[cold]
    fn panicked(&self, what: &str, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("without a message");
        self.poison(format!("{what} panicked: {text}"))
    }

    /// Has the store take no more changes; the error that says why.
    #[cold]
    pub(super) fn poison(&self, cause: String) -> Error {
        let poisoned = alluvium_storage::Error::Poisoned { cause };
        let error = match self.store.judge::<()>(Err(poisoned)) {
            Ok(()) => Error::Closed,
            Err(error) => error.into(),
        };
        // Threads that wait for a step to be done learn that none will be.
        self.pressure.relieved();
        self.pressure.call_all();
        error
    }
}

/// A commit between its numbers and its end. Dropped by a panic, it tells all waiting commits that
/// nothing above it will ever be seen.
pub(super) struct Committing<'e> {
    engine: &'e Engine,
}

impl<'e> Committing<'e> {
    pub(super) fn new(engine: &'e Engine) -> Committing<'e> {
        Committing { engine }
    }

    /// It has come to an end, whichever.
    pub(super) fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let _ = self.engine.poison("a commit panicked".to_owned());
        self.engine.visible.stop();
    }
}
