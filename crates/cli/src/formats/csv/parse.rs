//! Parses a CSV row: finds its end and its fields.

use super::{InputSource, broken};
use std::borrow::Cow;
use std::io;
use std::ops::Range;

/// The fields of a row, stored as ranges of the parsed bytes.
#[derive(Debug, Default)]
pub(super) struct RowFields {
    fields: Vec<FieldSpan>,
    /// The range of the row, without preceding blank lines and without its line end.
    pub(super) row: Range<usize>,
}

#[derive(Clone, Debug)]
struct FieldSpan {
    /// The range of the field's content, without the enclosing quotes.
    place: Range<usize>,
    /// Whether the field contains doubled quote characters.
    is_doubled: bool,
}

impl RowFields {
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns the content of a field. `bytes` must begin with the parsed row.
    pub(super) fn get<'a>(&self, bytes: &'a [u8], index: usize) -> Cow<'a, [u8]> {
        let FieldSpan { place, is_doubled } = &self.fields[index];
        let field = &bytes[place.clone()];
        if !is_doubled {
            return Cow::Borrowed(field);
        }
        let mut plain = Vec::with_capacity(field.len());
        let mut start = 0;
        for at in memchr::memchr_iter(b'"', field) {
            // Copy only the first of two successive quote characters.
            if at >= start {
                plain.extend_from_slice(&field[start..=at]);
                start = at + 2;
            }
        }
        plain.extend_from_slice(field.get(start..).unwrap_or_default());
        Cow::Owned(plain)
    }

    fn push(&mut self, place: Range<usize>, is_doubled: bool) {
        self.fields.push(FieldSpan { place, is_doubled });
    }
}

/// What was found at the beginning of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScannedRow {
    /// A row. The number is its length in bytes, including preceding blank lines and the line end.
    Row(usize),
    /// An invalid row, with its length in bytes and the error.
    Bad(usize, String),
    /// The end of the stream, after this number of bytes in blank lines.
    End(usize),
}

/// A window over a stream of bytes, which can be extended at its end.
pub(super) trait InputWindow {
    /// Returns the bytes in the window that have not been consumed.
    fn rest(&self) -> &[u8];

    /// Reads more bytes into the window. Returns false at the end of the stream.
    fn fill(&mut self) -> io::Result<bool>;
}

impl InputWindow for InputSource {
    fn rest(&self) -> &[u8] {
        InputSource::rest(self)
    }

    fn fill(&mut self) -> io::Result<bool> {
        InputSource::fill(self)
    }
}

impl InputWindow for &[u8] {
    fn rest(&self) -> &[u8] {
        self
    }

    fn fill(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

fn byte(window: &mut impl InputWindow, at: usize) -> io::Result<Option<u8>> {
    while window.rest().len() <= at {
        if !window.fill()? {
            return Ok(None);
        }
    }
    Ok(Some(window.rest()[at]))
}

/// Returns the first position at or after `at` that `find` accepts.
fn place(
    window: &mut impl InputWindow,
    mut at: usize,
    find: impl Fn(&[u8]) -> Option<usize>,
) -> io::Result<Option<usize>> {
    loop {
        if let Some(found) = find(window.rest().get(at..).unwrap_or_default()) {
            return Ok(Some(at + found));
        }
        at = window.rest().len().max(at);
        if !window.fill()? {
            return Ok(None);
        }
    }
}

/// The parser's fast path, for a row that is completely buffered, contains no quotes and ends with
/// `\n`. Returns the row's length, or `None` if the general parser must be used.
pub(super) fn plain(separator: u8, rest: &[u8], fields: &mut RowFields) -> Option<usize> {
    let end = memchr::memchr(b'\n', rest).filter(|&end| end > 0)?;
    let line = &rest[..end];
    if memchr::memchr2(b'"', b'\r', line).is_some() {
        return None;
    }
    fields.fields.clear();
    let mut start = 0;
    for stop in memchr::memchr_iter(separator, line).chain([end]) {
        fields.push(start..stop, false);
        start = stop + 1;
    }
    fields.row = 0..end;
    Some(end + 1)
}

/// The general parser: finds the end and the fields of a row. If the stream ends inside a quoted
/// field, sets `fault` to the position of the opening quote.
pub(super) fn row(
    separator: u8,
    window: &mut impl InputWindow,
    fields: &mut RowFields,
    fault: &mut usize,
) -> io::Result<ScannedRow> {
    fields.fields.clear();
    let mut at = 0;
    while let Some(b'\r' | b'\n') = byte(window, at)? {
        at += 1;
    }
    if byte(window, at)?.is_none() {
        return Ok(ScannedRow::End(at));
    }
    let start = at;
    loop {
        if byte(window, at)? == Some(b'"') {
            at = quoted(window, at, fields, fault)?;
        } else {
            let end = place(window, at, |rest| memchr::memchr3(separator, b'\r', b'\n', rest))?;
            let end = end.unwrap_or(window.rest().len());
            fields.push(at..end, false);
            at = end;
        }
        match byte(window, at)? {
            Some(next) if next == separator => at += 1,
            None | Some(b'\r' | b'\n') => break,
            Some(_) => {
                let end = place(window, at, |rest| memchr::memchr(b'\n', rest))?;
                let end = end.map_or(window.rest().len(), |end| end + 1);
                let why = format!(
                    "text follows the closing quote of column {}: write each quote inside quotes twice",
                    fields.len()
                );
                return Ok(ScannedRow::Bad(end, why));
            }
        }
    }
    fields.row = start..at;
    if byte(window, at)? == Some(b'\r') {
        at += 1;
    }
    if byte(window, at)? == Some(b'\n') {
        at += 1;
    }
    Ok(ScannedRow::Row(at))
}

/// Returns the position after the closing quote of the quoted field that begins at `at`.
fn quoted(
    window: &mut impl InputWindow,
    opening: usize,
    fields: &mut RowFields,
    fault: &mut usize,
) -> io::Result<usize> {
    let (mut at, mut is_doubled) = (opening + 1, false);
    loop {
        let quote = place(window, at, |rest| memchr::memchr(b'"', rest)).map_err(|error| {
            if error.kind() != io::ErrorKind::InvalidData {
                return error;
            }
            *fault = opening;
            broken(format!("the quote that opens here is not closed: {error}"))
        })?;
        let Some(quote) = quote else {
            *fault = opening;
            return Err(broken("the quote that opens here is never closed"));
        };
        if byte(window, quote + 1)? != Some(b'"') {
            fields.push(opening + 1..quote, is_doubled);
            return Ok(quote + 1);
        }
        is_doubled = true;
        at = quote + 2;
    }
}

/// Parses bytes that must consist of exactly one row.
///
/// # Errors
/// Describes the content if it does not consist of exactly one row.
pub(super) fn whole(separator: u8, mut bytes: &[u8], fields: &mut RowFields) -> Result<(), String> {
    let all = bytes.len();
    match row(separator, &mut bytes, fields, &mut 0) {
        Ok(ScannedRow::Row(_)) if fields.row == (0..all) => Ok(()),
        Ok(ScannedRow::Row(_) | ScannedRow::End(_)) => Err("expected exactly one row".to_owned()),
        Ok(ScannedRow::Bad(_, why)) => Err(why),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(row_bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut fields = RowFields::default();
        let found = row(b',', &mut &row_bytes[..], &mut fields, &mut 0).unwrap();
        assert!(matches!(found, ScannedRow::Row(_)), "{found:?}");
        (0..fields.len())
            .map(|index| fields.get(row_bytes, index).into_owned())
            .collect()
    }

    #[test]
    fn quotes_open_fields_and_are_doubled_inside() {
        assert_eq!(
            fields(b"a,\"b\"\"\"\"c\",\"\",d\"e\r\n"),
            [&b"a"[..], b"b\"\"c", b"", b"d\"e"]
        );
        assert_eq!(fields(b"\n\r\n\"x\ny\""), [b"x\ny"]);
        assert_eq!(fields(b",\n"), [b"", b""]);
        assert_eq!(fields(b"\"\"\"\"\n"), [b"\""]);
    }

    #[test]
    fn a_line_end_of_two_bytes_is_one() {
        let mut fields = RowFields::default();
        for (bytes, taken) in [(&b"a\r\nb"[..], 3), (b"a\rb", 2), (b"a\nb", 2), (b"\n\na\n\n", 4)] {
            let mut rest = bytes;
            assert_eq!(
                row(b',', &mut rest, &mut fields, &mut 0).unwrap(),
                ScannedRow::Row(taken)
            );
        }
        assert_eq!(
            row(b',', &mut &b"\r\n\n"[..], &mut fields, &mut 0).unwrap(),
            ScannedRow::End(3)
        );
    }

    #[test]
    fn a_quote_that_is_never_closed_is_named_by_its_place() {
        let (mut fields, mut fault) = (RowFields::default(), 0);
        row(b',', &mut &b"a,\"b\nc\n"[..], &mut fields, &mut fault).unwrap_err();
        assert_eq!(fault, 2);
        let found = row(b',', &mut &b"\"b\nc\" d,e\nf\n"[..], &mut fields, &mut fault).unwrap();
        assert!(matches!(found, ScannedRow::Bad(10, _)), "{found:?}");
    }
}
