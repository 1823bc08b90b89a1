//! Formats of import and export: how rows are found in a stream of bytes, and how keys and values
//! become one.
//!
//! *Knows*: CSV, TSV, JSON Lines, plain lines, length-prefixed binary, Redis protocol; which bytes
//! are one row, and what it says.
//!
//! *Does not know*: stores. A row becomes [`Changes`]; the reader applies them.
//!
//! *Read in this order*: `source.rs` (bytes as they come), `changes.rs` (what rows say), `lines.rs`
//! (the simplest format), then any; `template.rs` (keys made of fields), `mark.rs` (the mark of the
//! byte order).
//!
//! Invariants:
//!
//! - **C5** A reader that begins at the offset where another stopped says what the other would have
//!   said.
//! - **C6** What a writer has written, its reader reads byte for byte, or the writer refuses it.

pub mod binary;
pub mod changes;
pub mod csv;
pub mod json;
pub mod lines;
mod mark;
pub mod redis;
pub mod source;
pub mod template;

pub use changes::{Change, Changes};
pub use source::Source;
pub use template::Template;

use clap::ValueEnum;
use std::io::{self, Write};
use std::path::Path;

/// What the bytes of a file mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header, quoted as CSV is.
    Tsv,
    /// A JSON object on each line.
    Jsonl,
    /// A key on each line, or a key, a separator and a value.
    Lines,
    /// Keys and values behind their lengths.
    Binary,
    /// Commands as Redis clients send them.
    Redis,
}

impl Format {
    /// Its name, as it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Jsonl => "jsonl",
            Format::Lines => "lines",
            Format::Binary => "binary",
            Format::Redis => "redis",
        }
    }

    /// Returns what a file's name says.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Format::Csv),
            "tsv" | "tab" => Some(Format::Tsv),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            "txt" | "lines" => Some(Format::Lines),
            "bin" | "kv" => Some(Format::Binary),
            "redis" | "resp" => Some(Format::Redis),
            _ => None,
        }
    }
}

/// What came next in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A row; what it says stands in the [`Changes`].
    Row,
    /// A row that says nothing that can be used, and why. Its bytes are behind it.
    Bad(String),
    /// The end.
    End,
}

/// Finds rows in a stream. When it returns, the bytes of the row are at the beginning of the
/// source: the caller takes them away.
pub trait ReadRows {
    /// Finds the next row: `row` is set to how many bytes it takes, or, with an error, to the place
    /// of what is wrong. What it says is added to `changes`.
    ///
    /// # Errors
    /// As the source says, or when nothing that follows can be understood.
    fn next(&mut self, source: &mut Source, row: &mut usize, changes: &mut Changes) -> io::Result<Next>;
}

/// Writes keys and values as rows.
pub trait WriteRows {
    /// What stands before the first row.
    ///
    /// # Errors
    /// As `out` says.
    fn begin(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// A row.
    ///
    /// # Errors
    /// As `out` says; [`io::ErrorKind::InvalidData`] if the format cannot say it.
    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()>;

    /// What stands behind the last row.
    ///
    /// # Errors
    /// As `out` says.
    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the error of a stream in which nothing more can be understood.
pub(crate) fn broken(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
