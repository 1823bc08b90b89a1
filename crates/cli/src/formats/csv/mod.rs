//! CSV and TSV. Rows consist of fields between separators; a field is quoted if necessary.
//!
//! *Scope*: finding the end and the fields of a row, converting fields to a key and a value, and
//! writing rows.
//!
//! *Must not depend on*: stores; where a table's layout is kept.
//!
//! A row ends with `\n`, `\r\n` or `\r`. Blank lines between rows are ignored. A quote character
//! starts a quoted field only if it is the first character of the field. Inside a quoted field, a
//! quote character is written twice.

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

/// How the value of a record is formed from a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsvValueSource {
    /// The value is the content of the named column.
    Column(String),
    /// The value is the unchanged row, so that an export can reproduce it byte for byte.
    Row,
    /// The value is a JSON object of all columns.
    Json,
}

/// How the rows of a table are converted to keys and values.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    pub separator: u8,
    /// The template that forms the key.
    pub key: KeyTemplate,
    /// How the value is formed. If absent, the value is the other column of a two-column table, and
    /// the whole row of any other table.
    pub value: Option<CsvValueSource>,
}

/// The characters that end a row.
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

    /// Returns the line end at the beginning of the bytes, or `None` if the end of the stream ends
    /// the row.
    fn of(bytes: &[u8]) -> Option<LineEnd> {
        match bytes {
            [b'\r', b'\n', ..] => Some(LineEnd::CrLf),
            [b'\r', ..] => Some(LineEnd::Cr),
            [b'\n', ..] => Some(LineEnd::Lf),
            _ => None,
        }
    }
}

/// The layout of a table as determined from its first row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableLayout {
    /// The header row without its line end, or `None` if the first row already contains data.
    pub header: Option<Vec<u8>>,
    pub columns: usize,
    /// The characters that end each row.
    pub line_end: LineEnd,
}

/// Reads the header row of a stream and returns the layout of the table.
///
/// # Errors
/// Returns errors of the source, and an error if the header is missing.
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

/// Returns the layout of a table whose first row already contains data. Only a byte order mark is
/// consumed from the stream. An empty stream yields a table without columns.
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

/// Returns the column names in a header row.
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

/// The columns that a CSV writer produces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsvContent {
    /// Rows with a key and a value. The header is `key,value`.
    Pairs,
    /// Rows with a single column of values, which has this name.
    Fields(String, LineEnd),
    /// Values that are complete rows with this separator, in the layout of the table from which
    /// they were imported.
    Table(u8, TableLayout),
}

/// Whether the writer begins with a header row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderPolicy {
    Written,
    /// The header is omitted, so the output begins with the first row of data.
    Left,
}
