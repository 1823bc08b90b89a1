//! A value that can be replaced while it is read: references to earlier values stay valid.

use std::sync::OnceLock;

/// A value and its replacements, oldest first.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    value: T,
    next: OnceLock<Box<Newest<T>>>,
}

impl<T> Newest<T> {
    pub(crate) fn new(value: T) -> Newest<T> {
        Newest {
            value,
            next: OnceLock::new(),
        }
    }

    fn last(&self) -> &Newest<T> {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    /// Returns the newest value.
    pub(crate) fn get(&self) -> &T {
        &self.last().value
    }

    /// Replaces the value. Replacements must not run concurrently.
    pub(crate) fn replace(&self, value: T) {
        let is_last = self.last().next.set(Box::new(Newest::new(value))).is_ok();
        assert!(is_last, "a value is replaced by one thread at a time");
    }

    /// Returns all values, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(Some(self), |one| one.next.get().map(|next| &**next)).map(|one| &one.value)
    }
}
