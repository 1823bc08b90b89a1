//! Error classes, which tell callers how to react to a failure.

/// The class of an error. All crates use the same classes.
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
    /// The data that was read differs from what was written.
    Damaged,
    /// The directory contains no store.
    NotAStore,
    /// The request is invalid or not allowed.
    Refused,
}
