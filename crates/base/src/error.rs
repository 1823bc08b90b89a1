//! Error classes for callers that decide how to react to a failure.

/// The class of an error, independent of the crate that returned it.
///
/// ```
/// use alluvium_base::ErrorKind;
/// let retry_later = |kind| kind == ErrorKind::Full;
/// assert!(retry_later(ErrorKind::Full) && !retry_later(ErrorKind::Damaged));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The disk, the store or another system resource is exhausted. Nothing was changed.
    Full,
    /// The device or the operating system failed.
    Device,
    /// An earlier failure: the handle refuses changes until the store is reopened.
    Poisoned,
    /// The bytes read differ from the bytes written.
    Damaged,
    /// The directory holds no store.
    NotAStore,
    /// The request is invalid or not allowed.
    Refused,
}
