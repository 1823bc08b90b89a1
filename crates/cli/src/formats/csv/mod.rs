//! CSV and TSV: fields between separators, in quotes where they must be.
//!
//! *Knows*: where a row ends, what its fields are, how fields become a key and a value, and how
//! rows are written again.
//!
//! *Does not know*: stores; where a table's layout is kept.
//!
//! *Read in this order*: `parse.rs` (one row), `read.rs` (rows to keys and values), `write.rs`,
//! this file.
//!
//! A row ends with `\n`, `\r\n` or `\r`. Blank lines between rows say nothing. A quote opens a
//! field only at its beginning; inside, a quote is doubled.

mod parse;
mod read;
mod write;

pub use read::CsvReader;
pub use write::CsvWriter;

use super::mark::MARK;
use super::template::Template;
use super::{Source, broken};
use parse::{Fields, Found};
use std::io;

/// What becomes the value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// This column.
    Column(String),
    /// The row as it stands, so that it can be written again byte for byte.
    Row,
    /// A JSON object with all columns.
    Json,
}

/// How rows of CSV become keys and values.
#[derive(Clone, Debug)]
pub struct Options {
    /// What stands between fields.
    pub separator: u8,
    /// The key.
    pub key: Template,
    /// The value; if not chosen, the other column where there are two, and the row where there are
    /// more.
    pub value: Option<Value>,
}

/// What ends a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`.
    #[default]
    Lf,
    /// `\r\n`.
    CrLf,
    /// `\r`.
    Cr,
}

impl LineEnd {
    /// All of them.
    pub const ALL: [LineEnd; 3] = [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr];

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> &'static [u8] {
        match self {
            LineEnd::Lf => b"\n",
            LineEnd::CrLf => b"\r\n",
            LineEnd::Cr => b"\r",
        }
    }

    /// The line end that these bytes begin with; none at the end of a stream.
    fn of(bytes: &[u8]) -> Option<LineEnd> {
        match bytes {
            [b'\r', b'\n', ..] => Some(LineEnd::CrLf),
            [b'\r', ..] => Some(LineEnd::Cr),
            [b'\n', ..] => Some(LineEnd::Lf),
            _ => None,
        }
    }
}

/// What the first row of a table says about the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The header as it stands, without its line end; none if the first row is data.
    pub header: Option<Vec<u8>>,
    /// How many columns there are.
    pub columns: usize,
    /// What ends rows.
    pub line_end: LineEnd,
}

/// Takes the header of a stream away, and says what it is.
///
/// # Errors
/// As the source says, or when there is no header.
pub fn header(source: &mut Source, separator: u8) -> io::Result<Head> {
    let mark = if source.take_mark()? { MARK } else { b"" };
    let (mut fields, mut fault) = (Fields::default(), 0);
    match parse::row(separator, source, &mut fields, &mut fault)? {
        Found::Row(bytes) => {
            let rest = source.rest();
            let head = Head {
                header: Some([mark, &rest[fields.row.clone()]].concat()),
                columns: fields.len(),
                line_end: LineEnd::of(&rest[fields.row.end..bytes]).unwrap_or_default(),
            };
            source.take(bytes);
            Ok(head)
        }
        Found::Bad(_, why) => Err(broken(format!("the header cannot be read: {why}"))),
        Found::End(_) => Err(broken(
            "the input is empty: a header with the columns' names was expected, or --no-header",
        )),
    }
}

/// Returns what the first row says if it is data. Only the mark of the byte order is taken away; an
/// empty stream has no columns.
///
/// # Errors
/// As the source says.
pub fn first_row(source: &mut Source, separator: u8) -> io::Result<Head> {
    source.take_mark()?;
    let (mut fields, mut fault) = (Fields::default(), 0);
    let found = parse::row(separator, source, &mut fields, &mut fault)?;
    Ok(match found {
        Found::Row(bytes) => Head {
            header: None,
            columns: fields.len(),
            line_end: LineEnd::of(&source.rest()[fields.row.end..bytes]).unwrap_or_default(),
        },
        Found::Bad(_, why) => return Err(broken(format!("the first row cannot be read: {why}"))),
        Found::End(_) => Head::default(),
    })
}

/// Returns the names in a header.
fn names(header: &[u8], separator: u8) -> io::Result<Vec<String>> {
    let header = header.strip_prefix(MARK).unwrap_or(header);
    let mut fields = Fields::default();
    parse::whole(separator, header, &mut fields).map_err(broken)?;
    let name = |index| {
        let name = std::str::from_utf8(&fields.get(header, index)).map(str::to_owned);
        name.map_err(|_| broken(format!("the name of column {} is no UTF-8 text", index + 1)))
    };
    (0..fields.len()).map(name).collect()
}

/// What a writer of CSV writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Keys and values, below the header `key,value`.
    Pairs,
    /// Values that are fields, in one column of this name.
    Fields(String, LineEnd),
    /// Values that are rows, their fields between these separators, below this header.
    Table(u8, Head),
}

/// Whether there is a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// There is.
    Written,
    /// There is none.
    Left,
}
