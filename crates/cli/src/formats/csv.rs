//! CSV and TSV: fields between separators, in quotes where they must be.

use super::template::{Part, Template};
use super::{Changes, Next, ReadRows, Source, WriteRows, broken};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, WriteResult, Writer, WriterBuilder};
use std::io::{self, Write};
use std::ops::Range;

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
    /// The value; if not chosen, the other column where there are two, and the row where there are more.
    pub value: Option<Value>,
}

/// A piece of a key, by the place of its column.
#[derive(Clone, Debug)]
enum Piece {
    Text(Vec<u8>),
    Column(usize),
}

#[derive(Clone, Debug)]
enum Wanted {
    Column(usize),
    Row,
    Json,
}

/// One parsed row, in memory that is used again.
#[derive(Debug, Default)]
struct Fields {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    len: usize,
    row: Range<usize>,
}

impl Fields {
    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

/// Reads CSV.
pub struct CsvReader {
    parser: Reader,
    separator: u8,
    fields: Fields,
    names: Vec<String>,
    key: Vec<Piece>,
    value: Wanted,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for CsvReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvReader")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

fn parser(separator: u8) -> Reader {
    ReaderBuilder::new().delimiter(separator).build()
}

/// The header of a stream: its bytes, which are then behind it, and the names in it.
///
/// # Errors
/// As the source says, or when there is no header.
pub fn header(source: &mut Source, separator: u8) -> io::Result<Vec<u8>> {
    let (mut parser, mut fields) = (parser(separator), Fields::default());
    let taken = parse(&mut parser, source, &mut fields)?;
    if taken == 0 || fields.len == 0 {
        return Err(broken(
            "the input is empty: a header with the columns' names was expected",
        ));
    }
    let bytes = source.rest()[..taken].to_vec();
    source.take(taken);
    Ok(bytes)
}

/// The names in a header.
fn names(header: &[u8], separator: u8) -> io::Result<Vec<String>> {
    let (mut parser, mut fields) = (parser(separator), Fields::default());
    let mut source = Source::new(Box::new(io::Cursor::new(header.to_vec())), 0);
    parse(&mut parser, &mut source, &mut fields)?;
    let name = |index| {
        let name = std::str::from_utf8(fields.get(index)).map(str::to_owned);
        name.map_err(|_| broken(format!("the name of column {} is no UTF-8 text", index + 1)))
    };
    (0..fields.len).map(name).collect()
}

/// A row that stands whole in memory, on one line and without quotes, from the beginning of the source: how many bytes it takes. None if it is not such
/// a row, which says nothing about what it is.
fn plain(separator: u8, source: &Source, fields: &mut Fields) -> Option<usize> {
    let rest = source.rest();
    let end = memchr::memchr(b'\n', rest).filter(|&end| end > 0)?;
    let line = &rest[..end];
    if memchr::memchr2(b'"', b'\r', line).is_some() {
        return None;
    }
    if fields.bytes.len() < line.len() {
        fields.bytes.resize(line.len().next_power_of_two().max(4096), 0);
    }
    let (mut start, mut written, mut count) = (0, 0, 0);
    for stop in memchr::memchr_iter(separator, line).chain([end]) {
        let field = &line[start..stop];
        fields.bytes[written..written + field.len()].copy_from_slice(field);
        written += field.len();
        if fields.ends.len() == count {
            fields.ends.resize((count * 2).max(64), 0);
        }
        fields.ends[count] = written;
        count += 1;
        start = stop + 1;
    }
    fields.len = count;
    fields.row = 0..end;
    Some(end + 1)
}

/// One row from the beginning of the source: how many bytes it takes, none at the end.
fn parse(parser: &mut Reader, source: &mut Source, fields: &mut Fields) -> io::Result<usize> {
    let (mut fed, mut written, mut ended) = (0, 0, 0);
    loop {
        if source.rest().len() == fed {
            source.fill()?;
        }
        let input = &source.rest()[fed..];
        let (result, read, out, ends) =
            parser.read_record(input, &mut fields.bytes[written..], &mut fields.ends[ended..]);
        (fed, written, ended) = (fed + read, written + out, ended + ends);
        match result {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::OutputFull => fields.bytes.resize((fields.bytes.len() * 2).max(4096), 0),
            ReadRecordResult::OutputEndsFull => fields.ends.resize((fields.ends.len() * 2).max(64), 0),
            ReadRecordResult::Record => break,
            ReadRecordResult::End => {
                // Blank lines at the end belong to nobody.
                fields.len = 0;
                return Ok(0);
            }
        }
    }
    fields.len = ended;
    let raw = &source.rest()[..fed];
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = raw.iter().take_while(|byte| is_end(byte)).count();
    let end = raw
        .iter()
        .rposition(|byte| !is_end(byte))
        .map_or(start, |last| last + 1);
    fields.row = start..end;
    Ok(fed)
}

impl CsvReader {
    /// A reader whose source stands behind the header, which is given by itself; without one, columns have numbers from one on.
    ///
    /// # Errors
    /// When a column that is named is not there.
    pub fn new(options: &Options, header: Option<&[u8]>, columns: usize) -> io::Result<CsvReader> {
        let names = match header {
            Some(header) => names(header, options.separator)?,
            None => (1..=columns).map(|number| number.to_string()).collect(),
        };
        let find = |name: &str| {
            names.iter().position(|known| known == name).ok_or_else(|| {
                broken(format!(
                    "there is no column {name:?}: there are {}",
                    names.join(", ")
                ))
            })
        };
        let mut key = Vec::new();
        for part in options.key.parts() {
            key.push(match part {
                Part::Text(text) => Piece::Text(text.clone()),
                Part::Field(name) => Piece::Column(find(name)?),
            });
        }
        let value = match (&options.value, &key[..]) {
            (Some(Value::Column(name)), _) => Wanted::Column(find(name)?),
            (Some(Value::Json), _) => Wanted::Json,
            (None, &[Piece::Column(column)]) if names.len() == 2 => Wanted::Column(1 - column),
            (Some(Value::Row) | None, _) => Wanted::Row,
        };
        let mut parser = parser(options.separator);
        // A mark of the byte order stands before the header only; later the same bytes are data.
        parser.read_record(b"\n", &mut [0], &mut [0]);
        Ok(CsvReader {
            parser,
            separator: options.separator,
            fields: Fields::default(),
            names,
            key,
            value,
            scratch: Vec::new(),
        })
    }

    fn json(&mut self) -> Result<(), String> {
        let out = &mut self.scratch;
        out.clear();
        for (index, name) in self.names.iter().enumerate() {
            let field = std::str::from_utf8(self.fields.get(index))
                .map_err(|_| format!("column {name:?} is no UTF-8 text, which JSON needs"))?;
            out.push(if index == 0 { b'{' } else { b',' });
            let pair = serde_json::to_writer(&mut *out, name).and_then(|()| {
                out.push(b':');
                serde_json::to_writer(&mut *out, field)
            });
            pair.map_err(|error| error.to_string())?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// How many columns the first row has. Nothing is taken away.
///
/// # Errors
/// As the source says.
pub fn columns(source: &mut Source, separator: u8) -> io::Result<usize> {
    let (mut parser, mut fields) = (parser(separator), Fields::default());
    parse(&mut parser, source, &mut fields)?;
    Ok(fields.len)
}

impl ReadRows for CsvReader {
    fn next(&mut self, source: &mut Source, row: &mut usize, changes: &mut Changes) -> io::Result<Next> {
        *row = match plain(self.separator, source, &mut self.fields) {
            Some(row) => row,
            None => parse(&mut self.parser, source, &mut self.fields)?,
        };
        if *row == 0 {
            return Ok(Next::End);
        }
        if self.fields.len != self.names.len() {
            let (there, wanted) = (self.fields.len, self.names.len());
            return Ok(Next::Bad(format!("{there} columns instead of {wanted}")));
        }
        if let Wanted::Json = self.value
            && let Err(why) = self.json()
        {
            return Ok(Next::Bad(why));
        }
        let value = match self.value {
            Wanted::Column(column) => self.fields.get(column),
            Wanted::Row => &source.rest()[self.fields.row.clone()],
            Wanted::Json => &self.scratch,
        };
        if let [Piece::Column(column)] = self.key[..] {
            changes.put(self.fields.get(column), value);
            return Ok(Next::Row);
        }
        let mut key = Vec::new();
        for piece in &self.key {
            match piece {
                Piece::Text(text) => key.extend_from_slice(text),
                Piece::Column(column) => key.extend_from_slice(self.fields.get(*column)),
            }
        }
        changes.put(&key, value);
        Ok(Next::Row)
    }
}

/// Writes CSV.
pub struct CsvWriter {
    writer: Writer,
    header: Option<Vec<u8>>,
    is_rows: bool,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for CsvWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvWriter")
            .field("is_rows", &self.is_rows)
            .finish_non_exhaustive()
    }
}

/// What a writer of CSV writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Keys and values, below such a header.
    Pairs,
    /// Values that are rows, below this header.
    Values(Option<Vec<u8>>),
}

/// Whether there is a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// There is.
    Written,
    /// There is none.
    Left,
}

impl CsvWriter {
    /// A writer.
    #[must_use]
    pub fn new(separator: u8, rows: Rows, header: Header) -> CsvWriter {
        let is_rows = rows != Rows::Pairs;
        let header = match rows {
            _ if header == Header::Left => None,
            Rows::Pairs => Some(format!("key{}value\n", char::from(separator)).into_bytes()),
            Rows::Values(header) => header,
        };
        CsvWriter {
            writer: WriterBuilder::new().delimiter(separator).build(),
            header,
            is_rows,
            buffer: vec![0; 4096],
        }
    }

    fn field(&mut self, out: &mut dyn Write, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let (result, read, written) = self.writer.field(bytes, &mut self.buffer);
            out.write_all(&self.buffer[..written])?;
            bytes = &bytes[read..];
            if result == WriteResult::InputEmpty {
                return Ok(());
            }
        }
    }

    fn finish(
        &mut self,
        out: &mut dyn Write,
        step: impl Fn(&mut Writer, &mut [u8]) -> (WriteResult, usize),
    ) -> io::Result<()> {
        loop {
            let (result, written) = step(&mut self.writer, &mut self.buffer);
            out.write_all(&self.buffer[..written])?;
            if result == WriteResult::InputEmpty {
                return Ok(());
            }
        }
    }
}

impl WriteRows for CsvWriter {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self.header.as_deref().unwrap_or_default())
    }

    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        if self.is_rows {
            out.write_all(value)?;
            return out.write_all(b"\n");
        }
        self.field(out, key)?;
        self.finish(out, Writer::delimiter)?;
        self.field(out, value)?;
        self.finish(out, Writer::terminator)
    }
}
