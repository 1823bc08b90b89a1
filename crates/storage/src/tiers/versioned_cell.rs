//! A value that can be replaced while other threads read it. References to earlier values stay
//! valid.

use std::sync::OnceLock;

/// A linked list of a value and its replacements, oldest first.
#[derive(Debug)]
pub(crate) struct VersionedCell<T> {
    value: T,
    next: OnceLock<Box<VersionedCell<T>>>,
}

impl<T> VersionedCell<T> {
    pub(crate) fn new(value: T) -> VersionedCell<T> {
        VersionedCell {
            value,
            next: OnceLock::new(),
        }
    }

    fn last(&self) -> &VersionedCell<T> {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    /// Returns the newest value. References to earlier values stay valid.
    pub(crate) fn get(&self) -> &T {
        &self.last().value
    }

    /// Replaces the value. Two threads must not call this at the same time.
    pub(crate) fn replace(&self, value: T) {
        let is_last = self.last().next.set(Box::new(VersionedCell::new(value))).is_ok();
        assert!(is_last, "a value is replaced by one thread at a time");
    }

    /// Returns all values since the creation of the cell, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(Some(self), |one| one.next.get().map(|next| &**next)).map(|one| &one.value)
    }
}
