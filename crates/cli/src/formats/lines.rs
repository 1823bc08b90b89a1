//! Plain lines: each has a key, or a key, a separator and a value.

use super::mark::Opening;
use super::source::without_end;
use super::{Changes, Next, ReadRows, Source, WriteRows, broken};
use std::io::{self, Write};

/// The parts of a record on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// The key. The value is empty.
    Key,
    /// The key, this separator, and the value.
    Both(Vec<u8>),
    /// The value. For writing only.
    Value,
}

/// A reader and writer of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    parts: Parts,
    opening: Opening,
}

impl Lines {
    /// Creates a reader or writer for lines with these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Lines {
        Lines {
            parts,
            opening: Opening::default(),
        }
    }
}

impl ReadRows for Lines {
    fn next(&mut self, source: &mut Source, row: &mut usize, changes: &mut Changes) -> io::Result<Next> {
        let line = source.line()?;
        *row = line.len();
        if line.is_empty() {
            return Ok(Next::End);
        }
        let line = without_end(line);
        let Parts::Both(separator) = &self.parts else {
            changes.put(line, &[]);
            return Ok(Next::Row);
        };
        let Some(at) = memchr::memmem::find(line, separator) else {
            let separator = separator.escape_ascii();
            return Ok(Next::Bad(format!(
                "there is no \"{separator}\" between a key and a value"
            )));
        };
        changes.put(&line[..at], &line[at + separator.len()..]);
        Ok(Next::Row)
    }
}

/// Refuses bytes that contain a line end.
pub(crate) fn one_line(what: &str, bytes: &[u8]) -> io::Result<()> {
    if memchr::memchr(b'\n', bytes).is_some() {
        let shown = crate::values::bytes::escape(&bytes[..bytes.len().min(60)]);
        return Err(broken(format!(
            "the {what} \"{shown}\" has a line end in it: choose another --format, as csv or binary"
        )));
    }
    Ok(())
}

impl WriteRows for Lines {
    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        match &self.parts {
            Parts::Key => {
                one_line("key", key)?;
                if !value.is_empty() {
                    let shown = crate::values::bytes::escape(key);
                    return Err(broken(format!(
                        "the key \"{shown}\" has a value, which lines of keys cannot say: add --separator or --values-only, or choose another --format"
                    )));
                }
                self.opening.write(out, key)?;
            }
            Parts::Both(separator) => {
                one_line("key", key)?;
                one_line("value", value)?;
                // The first occurrence of the separator in the line must be this one, even if the
                // end of the key resembles its beginning.
                let line = [key, separator].concat();
                if memchr::memmem::find(&line, separator) != Some(key.len()) {
                    let shown = crate::values::bytes::escape(key);
                    return Err(broken(format!(
                        "the key \"{shown}\" has the separator in it: choose another --separator"
                    )));
                }
                self.opening.write(out, &line)?;
                out.write_all(value)?;
            }
            Parts::Value => {
                one_line("value", value)?;
                self.opening.write(out, value)?;
            }
        }
        out.write_all(b"\n")
    }
}
