//! Plain lines. Each line contains a key, or a key, a separator and a value.

use super::mark::BomWriter;
use super::source::without_end;
use super::{InputSource, NextRow, ReadRows, RowChanges, WriteRows, broken};
use std::io::{self, Write};

/// The parts of a record that each line contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineParts {
    /// The line contains only the key. The value is empty.
    Key,
    /// The line contains the key, this separator, and the value.
    Both(Vec<u8>),
    /// The line contains only the value. Such lines can be written but not read.
    Value,
}

/// Reads and writes records as plain lines.
#[derive(Clone, Debug)]
pub struct LineFormat {
    parts: LineParts,
    opening: BomWriter,
}

impl LineFormat {
    /// Creates a reader and writer of lines that contain `parts` of each record.
    #[must_use]
    pub fn new(parts: LineParts) -> LineFormat {
        LineFormat {
            parts,
            opening: BomWriter::default(),
        }
    }
}

impl ReadRows for LineFormat {
    fn next(
        &mut self,
        source: &mut InputSource,
        row: &mut usize,
        changes: &mut RowChanges,
    ) -> io::Result<NextRow> {
        let line = source.line()?;
        *row = line.len();
        if line.is_empty() {
            return Ok(NextRow::End);
        }
        let line = without_end(line);
        let LineParts::Both(separator) = &self.parts else {
            changes.put(line, &[]);
            return Ok(NextRow::Row);
        };
        let Some(at) = memchr::memmem::find(line, separator) else {
            let separator = separator.escape_ascii();
            return Ok(NextRow::Bad(format!(
                "the separator \"{separator}\" is missing between key and value"
            )));
        };
        changes.put(&line[..at], &line[at + separator.len()..]);
        Ok(NextRow::Row)
    }
}

/// Returns an error if the bytes contain a line end.
pub(crate) fn one_line(what: &str, bytes: &[u8]) -> io::Result<()> {
    if memchr::memchr(b'\n', bytes).is_some() {
        let shown = crate::values::bytes::escape(&bytes[..bytes.len().min(60)]);
        return Err(broken(format!(
            "the {what} \"{shown}\" contains a line end: choose another --format, such as csv or binary"
        )));
    }
    Ok(())
}

impl WriteRows for LineFormat {
    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        match &self.parts {
            LineParts::Key => {
                one_line("key", key)?;
                if !value.is_empty() {
                    let shown = crate::values::bytes::escape(key);
                    return Err(broken(format!(
                        "the key \"{shown}\" has a value, but without --separator a line holds only a key: add --separator or --values-only, or choose another --format"
                    )));
                }
                self.opening.write(out, key)?;
            }
            LineParts::Both(separator) => {
                one_line("key", key)?;
                one_line("value", value)?;
                // A reader splits the line at the first occurrence of the separator, so the end of
                // the key must not form an earlier one with the separator's beginning.
                let line = [key, separator].concat();
                if memchr::memmem::find(&line, separator) != Some(key.len()) {
                    let shown = crate::values::bytes::escape(key);
                    return Err(broken(format!(
                        "the key \"{shown}\" contains the separator: choose another --separator"
                    )));
                }
                self.opening.write(out, &line)?;
                out.write_all(value)?;
            }
            LineParts::Value => {
                one_line("value", value)?;
                self.opening.write(out, value)?;
            }
        }
        out.write_all(b"\n")
    }
}
