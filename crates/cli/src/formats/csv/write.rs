//! A writer that converts keys and values to rows of CSV.

use super::super::WriteRows;
use super::super::mark::{BomWriter, MARK};
use super::parse::{self, RowFields};
use super::{CsvContent, HeaderPolicy, LineEnd, TableLayout, broken, names};
use std::io::{self, Write};

#[derive(Debug)]
pub struct CsvWriter {
    separator: u8,
    rows: CsvContent,
    header: HeaderPolicy,
    fields: RowFields,
    opening: BomWriter,
}

impl CsvWriter {
    /// Creates a writer.
    ///
    /// # Errors
    /// Returns an error if the header of the table is not a valid row.
    pub fn new(separator: u8, rows: CsvContent, header: HeaderPolicy) -> io::Result<CsvWriter> {
        if let CsvContent::Table(
            from,
            TableLayout {
                header: Some(header), ..
            },
        ) = &rows
        {
            names(header, *from)?;
        }
        Ok(CsvWriter {
            separator,
            rows,
            header,
            fields: RowFields::default(),
            opening: BomWriter::default(),
        })
    }

    fn line_end(&self) -> &'static [u8] {
        match &self.rows {
            CsvContent::Pairs => LineEnd::Lf.bytes(),
            CsvContent::Fields(_, line_end) | CsvContent::Table(_, TableLayout { line_end, .. }) => {
                line_end.bytes()
            }
        }
    }

    /// Writes a row of a table, with the output's separator in place of the row's own.
    fn table(&mut self, out: &mut dyn Write, key: &[u8], row: &[u8]) -> io::Result<()> {
        let CsvContent::Table(from, head) = &self.rows else {
            unreachable!("only tables have rows");
        };
        let (from, columns) = (*from, head.columns);
        let refused = |why: String| {
            broken(format!(
                "the value of the key \"{}\" is not a row with the {columns} columns of the imported table ({why}): \
                 leave --values-only out, or choose another --format",
                crate::values::bytes::escape(&key[..key.len().min(60)])
            ))
        };
        parse::whole(from, row, &mut self.fields).map_err(refused)?;
        if self.fields.len() != columns {
            return Err(refused(format!("it has {} columns", self.fields.len())));
        }
        self.copy(out, from, row)
    }

    /// Writes a row whose fields have been parsed with the separator `from`.
    fn copy(&mut self, out: &mut dyn Write, from: u8, row: &[u8]) -> io::Result<()> {
        if from == self.separator {
            return self.opening.write(out, row);
        }
        for index in 0..self.fields.len() {
            if index > 0 {
                out.write_all(&[self.separator])?;
            }
            let field = self.fields.get(row, index);
            write_field(out, self.separator, &field, self.fields.len())?;
        }
        Ok(())
    }
}

/// Writes a field of a row that has `fields` fields, in quotes if necessary.
fn write_field(out: &mut dyn Write, separator: u8, field: &[u8], fields: usize) -> io::Result<()> {
    let is_plain = memchr::memchr3(b'"', b'\r', b'\n', field).is_none()
        && memchr::memchr(separator, field).is_none()
        // Quote a single empty field, because a reader would ignore the blank line. Also quote a
        // field that begins with a byte order mark, because a reader might remove the mark.
        && !(fields == 1 && field.is_empty())
        && !field.starts_with(MARK);
    if is_plain {
        return out.write_all(field);
    }
    out.write_all(b"\"")?;
    let mut start = 0;
    for at in memchr::memchr_iter(b'"', field) {
        out.write_all(&field[start..=at])?;
        // The next piece starts with this quote character, which doubles it.
        start = at;
    }
    out.write_all(&field[start..])?;
    out.write_all(b"\"")
}

impl WriteRows for CsvWriter {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.header == HeaderPolicy::Left {
            return Ok(());
        }
        // Only a table without a header begins with the raw bytes of a row, which may look like a
        // byte order mark. All other output begins with a header.
        let is_bare = matches!(&self.rows, CsvContent::Table(_, TableLayout { header: None, .. }));
        if !is_bare {
            self.opening.written();
        }
        match self.rows.clone() {
            CsvContent::Pairs => {
                out.write_all(b"key")?;
                out.write_all(&[self.separator])?;
                out.write_all(b"value")?;
            }
            CsvContent::Fields(name, _) => write_field(out, self.separator, name.as_bytes(), 1)?,
            CsvContent::Table(_, TableLayout { header: None, .. }) => return Ok(()),
            CsvContent::Table(
                from,
                TableLayout {
                    header: Some(header), ..
                },
            ) => {
                let row = header.strip_prefix(MARK).unwrap_or(&header);
                out.write_all(&header[..header.len() - row.len()])?;
                parse::whole(from, row, &mut self.fields).map_err(broken)?;
                self.copy(out, from, row)?;
            }
        }
        out.write_all(self.line_end())
    }

    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self.rows {
            CsvContent::Pairs => {
                write_field(out, self.separator, key, 2)?;
                out.write_all(&[self.separator])?;
                write_field(out, self.separator, value, 2)?;
            }
            CsvContent::Fields(..) => write_field(out, self.separator, value, 1)?,
            CsvContent::Table(..) => self.table(out, key, value)?,
        }
        out.write_all(self.line_end())
    }
}
