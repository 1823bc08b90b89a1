//! Classes of errors, by which callers choose how to react to a failure.

/// The class of an error, which does not depend on the crate that returned the error.
///
/// ```
/// use alluvium_base::ErrorKind;
/// let retry_later = |kind| kind == ErrorKind::Full;
/// assert!(retry_later(ErrorKind::Full) && !retry_later(ErrorKind::Damaged));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The disk, the store or another system resource is exhausted. The operation changed nothing.
    Full,
    /// The device or the operating system failed.
    Device,
    /// After an earlier failure, the handle rejects changes until the store is reopened.
    Poisoned,
    /// The bytes that were read differ from the bytes that were written.
    Damaged,
    /// The directory contains no store.
    NotAStore,
    /// The request is invalid or not allowed.
    Refused,
}
