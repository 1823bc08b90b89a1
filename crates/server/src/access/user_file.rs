//! The interface to the user file.

use std::{fmt, io};

/// Storage for users, in the syntax of Redis's ACL files.
pub trait UserFile: fmt::Debug + Send + Sync {
    /// Returns the file's location, for error messages.
    fn place(&self) -> String;

    /// Reads the whole file.
    ///
    /// # Errors
    /// I/O errors.
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Atomically replaces the content of the file. If this fails, the file contains either the old
    /// or the new text.
    ///
    /// # Errors
    /// I/O errors.
    fn write(&self, text: &[u8]) -> io::Result<()>;
}
