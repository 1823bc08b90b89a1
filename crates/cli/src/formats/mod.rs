//! The formats of imports and exports. Readers find the rows in a byte stream, and writers convert
//! keys and values to rows.
//!
//! *Scope*: CSV, TSV, JSON Lines, plain lines, length-prefixed binary, and the Redis protocol:
//! which bytes form a row, and which changes the row describes.
//!
//! *Must not depend on*: stores. A row is converted to [`RowChanges`], which the caller applies.
//!
//! Invariants:
//!
//! - **C5** A reader that starts at the offset where another reader stopped returns the rows that
//!   the other one would have returned next.
//! - **C6** A format's reader restores every record byte for byte as its writer wrote it. The
//!   writer rejects any record for which this is impossible.

pub mod binary;
pub mod changes;
pub mod csv;
pub mod json;
pub mod lines;
mod mark;
pub mod redis;
pub mod source;
pub mod template;

pub use changes::{RowChange, RowChanges};
pub use source::InputSource;
pub use template::KeyTemplate;

use clap::ValueEnum;
use std::io::{self, Write};
use std::path::Path;

/// What the bytes of a file mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header, quoted like CSV.
    Tsv,
    /// A JSON object on each line.
    Jsonl,
    /// A key on each line, or a key, a separator and a value.
    Lines,
    /// Keys and values, each record preceded by its lengths.
    Binary,
    /// Redis commands, as clients send them.
    Redis,
}

impl FileFormat {
    /// Returns the name of the format as used on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Csv => "csv",
            FileFormat::Tsv => "tsv",
            FileFormat::Jsonl => "jsonl",
            FileFormat::Lines => "lines",
            FileFormat::Binary => "binary",
            FileFormat::Redis => "redis",
        }
    }

    /// Returns the format that corresponds to the extension of a file name.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<FileFormat> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(FileFormat::Csv),
            "tsv" | "tab" => Some(FileFormat::Tsv),
            "jsonl" | "ndjson" => Some(FileFormat::Jsonl),
            "txt" | "lines" => Some(FileFormat::Lines),
            "bin" | "kv" => Some(FileFormat::Binary),
            "redis" | "resp" => Some(FileFormat::Redis),
            _ => None,
        }
    }
}

/// What a reader found next in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextRow {
    /// A valid row. Its changes were appended to the [`RowChanges`].
    Row,
    /// An invalid row, with the reason. Reading can continue after it.
    Bad(String),
    /// The end of the stream.
    End,
}

/// A parser of rows. After each call, the row's bytes are at the beginning of the source, and the
/// caller must consume them.
pub trait ReadRows {
    /// Finds the next row and appends its changes to `changes`. Sets `row` to the length of the row
    /// in bytes. If the row is invalid, sets `row` to the position of the fault instead.
    ///
    /// # Errors
    /// Errors of the source, and a stream that cannot be parsed any further.
    fn next(
        &mut self,
        source: &mut InputSource,
        row: &mut usize,
        changes: &mut RowChanges,
    ) -> io::Result<NextRow>;
}

/// A writer that converts keys and values to rows.
pub trait WriteRows {
    /// Writes the text that precedes the first row.
    ///
    /// # Errors
    /// Errors of `out`.
    fn begin(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes a row.
    ///
    /// # Errors
    /// Returns errors of `out`, and [`io::ErrorKind::InvalidData`] if the format cannot represent
    /// the record.
    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()>;

    /// Writes the text that follows the last row.
    ///
    /// # Errors
    /// Errors of `out`.
    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the error for a stream that cannot be parsed any further.
pub(crate) fn broken(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
