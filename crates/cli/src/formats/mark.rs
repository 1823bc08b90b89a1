//! The byte order mark (`EF BB BF`) that some programs write at the beginning of a text file.
//! Readers skip it, because it is not part of the first row.

use std::io::{self, Write};

pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes the beginning of a file so that a reader finds the same rows even if the first row begins
/// with the bytes of a byte order mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BomWriter {
    is_written: bool,
}

impl BomWriter {
    /// Must be called after writing anything before the first row, because the rows then no longer
    /// begin the file.
    pub(super) fn written(&mut self) {
        self.is_written = true;
    }

    /// Writes bytes unchanged. If they are the first bytes of the file and begin with a byte order
    /// mark, an additional mark is written before them, which readers will skip.
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
