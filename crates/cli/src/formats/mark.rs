//! The byte order mark (`EF BB BF`), which some programs write before text. It is not part of the
//! first row: readers skip it.

use std::io::{self, Write};

pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes the beginning of a file so that a reader finds the same rows, even if the first one
/// begins with the bytes of the mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BomWriter {
    is_written: bool,
}

impl BomWriter {
    /// Records that something was written before the rows.
    pub(super) fn written(&mut self) {
        self.is_written = true;
    }

    /// Writes bytes unchanged. If they begin the file and start with the mark, another mark is
    /// written before them, for readers to skip.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn write(&mut self, out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
        if !self.is_written && bytes.starts_with(MARK) {
            out.write_all(MARK)?;
        }
        self.is_written = true;
        out.write_all(bytes)
    }
}
