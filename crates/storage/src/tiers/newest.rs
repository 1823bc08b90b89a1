//! A value that is replaced while others read it: what was read before stays where it is.

use std::sync::OnceLock;

/// A value and those that came to its place, the oldest first.
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

    /// Returns the value that came last.
    pub(crate) fn get(&self) -> &T {
        &self.last().value
    }

    /// Puts another one in its place. Replacements do not run at the same time.
    pub(crate) fn replace(&self, value: T) {
        let is_last = self.last().next.set(Box::new(Newest::new(value))).is_ok();
        assert!(is_last, "a value is replaced by one thread at a time");
    }

    /// Returns all of them, the oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(Some(self), |one| one.next.get().map(|next| &**next)).map(|one| &one.value)
    }
}
