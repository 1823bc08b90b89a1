//! The interface to the file that stores the users.

use std::{fmt, io};

/// Storage for users. The content has the syntax of Redis' ACL files.
pub trait UserFile: fmt::Debug + Send + Sync {
    /// Describes the location of the file, for error messages.
    fn place(&self) -> String;

    /// Reads the whole file.
    ///
    /// # Errors
    /// I/O errors.
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Replaces the whole content of the file atomically. If this fails, the file contains either
    /// the old or the new text.
    ///
    /// # Errors
    /// I/O errors.
    fn write(&self, text: &[u8]) -> io::Result<()>;
}
