//! CSV and TSV: fields between separators, quoted where necessary.
//!
//! *Scope*: where a row ends, its fields, the conversion of fields to a key and a value, the
//! writing of rows.
//!
//! *Must not depend on*: stores; where a table's layout is kept.
//!
//! A row ends with `\n`, `\r\n` or `\r`. Blank lines between rows are ignored. A quote opens a
//! quoted field only at the beginning of the field; within it, a quote is doubled.

mod parse;
mod read;
mod write;

pub use read::CsvReader;
pub use write::CsvWriter;

use super::mark::MARK;
use super::template::KeyTemplate;
use super::{InputSource, broken};
use parse::{RowFields, ScannedRow};
use std::io;

/// The value made from a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsvValueSource {
    /// The content of a column.
    Column(String),
    /// The row without changes, so that it can be exported byte for byte.
    Row,
    /// A JSON object with all columns.
    Json,
}

/// How rows are converted to keys and values.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    pub separator: u8,
    /// The template of the key.
    pub key: KeyTemplate,
    /// The value. Defaults to the other column of a table with two columns, and otherwise to the
    /// whole row.
    pub value: Option<CsvValueSource>,
}

/// The end of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    #[default]
    Lf,
    CrLf,
    Cr,
}

impl LineEnd {
    pub const ALL: [LineEnd; 3] = [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr];

    #[must_use]
    pub fn bytes(self) -> &'static [u8] {
        match self {
            LineEnd::Lf => b"\n",
            LineEnd::CrLf => b"\r\n",
            LineEnd::Cr => b"\r",
        }
    }

    /// Returns the line end at the beginning of the bytes; `None` at the end of a stream.
    fn of(bytes: &[u8]) -> Option<LineEnd> {
        match bytes {
            [b'\r', b'\n', ..] => Some(LineEnd::CrLf),
            [b'\r', ..] => Some(LineEnd::Cr),
            [b'\n', ..] => Some(LineEnd::Lf),
            _ => None,
        }
    }
}

/// The layout of a table, from its first row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableLayout {
    /// The header without its line end; `None` if the first row is data.
    pub header: Option<Vec<u8>>,
    pub columns: usize,
    /// The line end of rows.
    pub line_end: LineEnd,
}

/// Consumes the header of a stream and returns the layout.
///
/// # Errors
/// Errors of the source, or a missing header.
pub fn header(source: &mut InputSource, separator: u8) -> io::Result<TableLayout> {
    let mark = if source.take_mark()? { MARK } else { b"" };
    let (mut fields, mut fault) = (RowFields::default(), 0);
    match parse::row(separator, source, &mut fields, &mut fault)? {
        ScannedRow::Row(bytes) => {
            let rest = source.rest();
            let head = TableLayout {
                header: Some([mark, &rest[fields.row.clone()]].concat()),
                columns: fields.len(),
                line_end: LineEnd::of(&rest[fields.row.end..bytes]).unwrap_or_default(),
            };
            source.take(bytes);
            Ok(head)
        }
        ScannedRow::Bad(_, why) => Err(broken(format!("the header cannot be read: {why}"))),
        ScannedRow::End(_) => Err(broken(
            "the input is empty: add a header with the names of the columns, or use --no-header",
        )),
    }
}

/// Returns the layout from a first row that is data. Consumes only the byte order mark. An empty
/// stream has no columns.
///
/// # Errors
/// Errors of the source.
pub fn first_row(source: &mut InputSource, separator: u8) -> io::Result<TableLayout> {
    source.take_mark()?;
    let (mut fields, mut fault) = (RowFields::default(), 0);
    let found = parse::row(separator, source, &mut fields, &mut fault)?;
    Ok(match found {
        ScannedRow::Row(bytes) => TableLayout {
            header: None,
            columns: fields.len(),
            line_end: LineEnd::of(&source.rest()[fields.row.end..bytes]).unwrap_or_default(),
        },
        ScannedRow::Bad(_, why) => return Err(broken(format!("the first row cannot be read: {why}"))),
        ScannedRow::End(_) => TableLayout::default(),
    })
}

/// Returns the names in a header.
fn names(header: &[u8], separator: u8) -> io::Result<Vec<String>> {
    let header = header.strip_prefix(MARK).unwrap_or(header);
    let mut fields = RowFields::default();
    parse::whole(separator, header, &mut fields).map_err(broken)?;
    let name = |index| {
        let name = std::str::from_utf8(&fields.get(header, index)).map(str::to_owned);
        name.map_err(|_| broken(format!("the name of column {} is not UTF-8 text", index + 1)))
    };
    (0..fields.len()).map(name).collect()
}

/// Bytes that a CSV writer produces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsvContent {
    /// Keys and values, with the header `key,value`.
    Pairs,
    /// One column of values, with this name.
    Fields(String, LineEnd),
    /// Values that are whole rows with this separator, with the layout of their table.
    Table(u8, TableLayout),
}

/// Whether a header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderPolicy {
    Written,
    /// The output begins with the first row.
    Left,
}
