//! What kind of error an operation ended with, for a caller that decides what to do next.

/// The kind of an error, whatever crate it comes from.
///
/// ```
/// use alluvium_base::ErrorKind;
/// let retry_later = |kind| kind == ErrorKind::Full;
/// assert!(retry_later(ErrorKind::Full) && !retry_later(ErrorKind::Damaged));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Space on the disk or in the store, or another resource of the system, ran out. Nothing was
    /// changed.
    Full,
    /// The device or the operating system failed.
    Device,
    /// An earlier failure: the handle refuses changes until it is opened again.
    Poisoned,
    /// What was read is not what was written.
    Damaged,
    /// The directory holds no store.
    NotAStore,
    /// The caller asked for what cannot be done.
    Refused,
}
