//! The file in which users are stored.

use std::{fmt, io};

/// Storage for users, in the syntax of Redis' ACL files.
pub trait UserFile: fmt::Debug + Send + Sync {
    /// Describes its location, for error messages.
    fn place(&self) -> String;

    /// Reads the whole file.
    ///
    /// # Errors
    /// I/O errors.
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Replaces the whole file atomically: after a failure it holds either the old or the new text.
    ///
    /// # Errors
    /// I/O errors.
    fn write(&self, text: &[u8]) -> io::Result<()>;
}
