//! The mark of the byte order, which some programs write before text (`EF BB BF`). It is no part of
//! the first row: readers take it away.

use std::io::{self, Write};

/// The mark.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes what a reader takes for the rows of a file, also where the first begins with the bytes of
/// the mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Opening {
    is_written: bool,
}

impl Opening {
    /// Notes that something stands before the rows.
    pub(super) fn written(&mut self) {
        self.is_written = true;
    }

    /// Writes bytes as they stand. Where they open the file with the mark, another one stands
    /// before them, for readers to take away.
    ///
    /// # Errors
    /// As `out` says.
    pub(super) fn write(&mut self, out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
        if !self.is_written && bytes.starts_with(MARK) {
            out.write_all(MARK)?;
        }
        self.is_written = true;
        out.write_all(bytes)
    }
}
