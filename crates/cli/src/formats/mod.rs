//! Formats of import and export: finding rows in a stream of bytes, and writing keys and values as
//! rows.
//!
//! *Scope*: CSV, TSV, JSON Lines, plain lines, length-prefixed binary, Redis protocol; which bytes
//! form a row, and what the row means.
//!
//! *Must not depend on*: stores. A row is converted to [`RowChanges`], which the caller applies.
//!
//! Invariants:
//!
//! - **C5** A reader that begins at the offset where another one stopped returns the same rows as
//!   the other would have.
//! - **C6** The reader of a format restores what its writer has written byte for byte, or the
//!   writer refuses the record.

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
    /// Returns the name of the format on the command line.
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

    /// Returns the format of a file name's extension.
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

/// The next element of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextRow {
    /// A row. Its changes were added to the [`RowChanges`].
    Row,
    /// An invalid row and the reason. Parsing continues after its bytes.
    Bad(String),
    /// The end of the stream.
    End,
}

/// A parser of rows. When it returns, the bytes of the row are at the beginning of the source, and
/// the caller consumes them.
pub trait ReadRows {
    /// Finds the next row and adds its changes to `changes`. Sets `row` to the length of the row,
    /// or, in case of an error, to the position of the fault.
    ///
    /// # Errors
    /// Errors of the source, or a fault after which nothing can be parsed.
    fn next(
        &mut self,
        source: &mut InputSource,
        row: &mut usize,
        changes: &mut RowChanges,
    ) -> io::Result<NextRow>;
}

/// A writer of keys and values as rows.
pub trait WriteRows {
    /// Writes what precedes the first row.
    ///
    /// # Errors
    /// Errors of `out`.
    fn begin(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes a row.
    ///
    /// # Errors
    /// Errors of `out`; [`io::ErrorKind::InvalidData`] if the format cannot represent the record.
    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()>;

    /// Writes what follows the last row.
    ///
    /// # Errors
    /// Errors of `out`.
    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the error of a stream in which nothing more can be parsed.
pub(crate) fn broken(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
