//! Errors with a kind that has a stable number and a stable name.

use alluvium::{Error, ErrorKind};
use std::fmt;

/// Result of an operation on a handle.
pub type Result<T> = std::result::Result<T, HandleError>;

/// The kind of a [`HandleError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HandleErrorKind {
    /// An error of the store.
    Store(ErrorKind),
    /// The store cannot be closed, because handles of it live.
    InUse,
    /// The library has a defect, which has ended the call. The store may be used further.
    Panicked,
}

/// Every kind, its number and its name. Numbers and names never change; new ones are added at the
/// end.
const KINDS: [(HandleErrorKind, u32, &str); 25] = [
    (HandleErrorKind::Store(ErrorKind::Locked), 1, "locked"),
    (HandleErrorKind::Store(ErrorKind::NotAStore), 2, "not_a_store"),
    (
        HandleErrorKind::Store(ErrorKind::AlreadyExists),
        3,
        "already_exists",
    ),
    (HandleErrorKind::Store(ErrorKind::NotFound), 4, "not_found"),
    (
        HandleErrorKind::Store(ErrorKind::NewerVersion),
        5,
        "newer_version",
    ),
    (
        HandleErrorKind::Store(ErrorKind::OlderVersion),
        6,
        "older_version",
    ),
    (HandleErrorKind::Store(ErrorKind::Corrupt), 7, "corrupt"),
    (HandleErrorKind::Store(ErrorKind::Full), 8, "full"),
    (HandleErrorKind::Store(ErrorKind::Exhausted), 9, "exhausted"),
    (HandleErrorKind::Store(ErrorKind::ReadOnly), 10, "read_only"),
    (
        HandleErrorKind::Store(ErrorKind::PermissionDenied),
        11,
        "permission_denied",
    ),
    (HandleErrorKind::Store(ErrorKind::Io), 12, "io"),
    (HandleErrorKind::Store(ErrorKind::Poisoned), 13, "poisoned"),
    (HandleErrorKind::Store(ErrorKind::Closed), 14, "closed"),
    (HandleErrorKind::Store(ErrorKind::Dropped), 15, "dropped"),
    (
        HandleErrorKind::Store(ErrorKind::InvalidArgument),
        16,
        "invalid_argument",
    ),
    (HandleErrorKind::Store(ErrorKind::BadValue), 17, "bad_value"),
    (HandleErrorKind::Store(ErrorKind::Gone), 18, "gone"),
    (HandleErrorKind::Store(ErrorKind::Conflict), 19, "conflict"),
    (HandleErrorKind::Store(ErrorKind::Deadlock), 20, "deadlock"),
    (HandleErrorKind::Store(ErrorKind::TimedOut), 21, "timed_out"),
    (HandleErrorKind::Store(ErrorKind::Ended), 22, "ended"),
    (
        HandleErrorKind::Store(ErrorKind::LimitReached),
        23,
        "limit_reached",
    ),
    (HandleErrorKind::InUse, 24, "in_use"),
    (HandleErrorKind::Panicked, 25, "panicked"),
];

impl HandleErrorKind {
    /// Returns all kinds, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = HandleErrorKind> {
        KINDS.iter().map(|(kind, _, _)| *kind)
    }

    fn entry(self) -> (u32, &'static str) {
        let found = KINDS.iter().find(|(kind, _, _)| *kind == self);
        found.map_or((0, "other"), |(_, number, name)| (*number, name))
    }

    /// Returns the number of the kind, or 0 for a kind that has none yet.
    #[must_use]
    pub fn number(self) -> u32 {
        self.entry().0
    }

    /// Returns the name of the kind, or `other` for a kind that has none yet.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Returns the kind with this number.
    #[must_use]
    pub fn numbered(number: u32) -> Option<HandleErrorKind> {
        let found = KINDS.iter().find(|(_, known, _)| *known == number);
        found.map(|(kind, _, _)| *kind)
    }
}

/// The error of an operation on a handle. Its text says what was wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleError {
    kind: HandleErrorKind,
    text: String,
}

impl HandleError {
    /// Creates an error of this kind.
    #[must_use]
    pub fn new(kind: HandleErrorKind, text: impl Into<String>) -> HandleError {
        HandleError {
            kind,
            text: text.into(),
        }
    }

    /// Creates an error about an argument.
    #[must_use]
    pub fn argument(text: impl Into<String>) -> HandleError {
        HandleError::new(HandleErrorKind::Store(ErrorKind::InvalidArgument), text)
    }

    /// Creates the error of a panic from its payload.
    #[must_use]
    pub fn panicked(payload: &(dyn std::any::Any + Send)) -> HandleError {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "without a message".to_owned());
        let text = format!("the library panicked ({text}): report it as a defect, with what the program did");
        HandleError::new(HandleErrorKind::Panicked, text)
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> HandleErrorKind {
        self.kind
    }
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for HandleError {}

impl From<Error> for HandleError {
    fn from(error: Error) -> HandleError {
        HandleError::new(HandleErrorKind::Store(error.kind()), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_number_and_a_name_of_its_own() {
        for (index, (kind, number, name)) in KINDS.iter().enumerate() {
            assert_eq!((*number as usize, kind.number()), (index + 1, *number));
            assert_eq!(HandleErrorKind::numbered(*number), Some(*kind));
            assert_eq!(kind.name(), *name);
            assert_eq!(KINDS.iter().filter(|(_, _, other)| other == name).count(), 1);
        }
        assert_eq!(HandleErrorKind::numbered(0), None);
    }
}
