//! A reader that converts rows of CSV to keys and values.

use super::super::template::TemplatePart;
use super::super::{NextRow, ReadRows, RowChanges};
use super::parse::{self, RowFields, ScannedRow};
use super::{CsvOptions, CsvValueSource, InputSource, TableLayout, broken, names};
use std::io;

/// A part of the key template, with columns given by their index.
#[derive(Clone, Debug)]
enum KeyComponent {
    Text(Vec<u8>),
    Column(usize),
}

#[derive(Clone, Debug)]
enum ValueSelector {
    Column(usize),
    Row,
    Json,
}

#[derive(Debug)]
pub struct CsvReader {
    separator: u8,
    fields: RowFields,
    names: Vec<String>,
    key: Vec<KeyComponent>,
    value: ValueSelector,
    scratch: Vec<u8>,
}

impl CsvReader {
    /// Creates a reader. The source must be positioned after the header. If the table has no
    /// header, the columns are named by their numbers, starting from 1.
    ///
    /// # Errors
    /// Returns an error if a column that the options name does not exist.
    pub fn new(options: &CsvOptions, head: &TableLayout) -> io::Result<CsvReader> {
        let names = match &head.header {
            Some(header) => names(header, options.separator)?,
            None => (1..=head.columns).map(|number| number.to_string()).collect(),
        };
        let is_empty = names.is_empty();
        let find = |name: &str| {
            // Without rows, the column names are unknown, so any name is accepted.
            let known = names.iter().position(|known| known == name);
            known.or(is_empty.then_some(0)).ok_or_else(|| {
                broken(format!(
                    "there is no column {name:?}: the columns are {}",
                    names.join(", ")
                ))
            })
        };
        let mut key = Vec::new();
        for part in options.key.parts() {
            key.push(match part {
                TemplatePart::Text(text) => KeyComponent::Text(text.clone()),
                TemplatePart::Field(name) => KeyComponent::Column(find(name)?),
            });
        }
        let value = match (&options.value, &key[..]) {
            (Some(CsvValueSource::Column(name)), _) => ValueSelector::Column(find(name)?),
            (Some(CsvValueSource::Json), _) => ValueSelector::Json,
            (None, &[KeyComponent::Column(column)]) if names.len() == 2 => ValueSelector::Column(1 - column),
            (Some(CsvValueSource::Row) | None, _) => ValueSelector::Row,
        };
        Ok(CsvReader {
            separator: options.separator,
            fields: RowFields::default(),
            names,
            key,
            value,
            scratch: Vec::new(),
        })
    }

    /// Returns the name of the column that values are taken from, or `None` if the values are
    /// complete rows.
    #[must_use]
    pub fn value_column(&self) -> Option<&str> {
        match self.value {
            ValueSelector::Column(column) => Some(self.names.get(column).map_or("value", String::as_str)),
            ValueSelector::Json => Some("value"),
            ValueSelector::Row => None,
        }
    }

    fn json(&mut self, bytes: &[u8]) -> Result<(), String> {
        let out = &mut self.scratch;
        out.clear();
        for (index, name) in self.names.iter().enumerate() {
            let field = self.fields.get(bytes, index);
            let field = std::str::from_utf8(&field)
                .map_err(|_| format!("column {name:?} is not UTF-8 text, which JSON needs"))?;
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

impl ReadRows for CsvReader {
    fn next(
        &mut self,
        source: &mut InputSource,
        row: &mut usize,
        changes: &mut RowChanges,
    ) -> io::Result<NextRow> {
        let found = match parse::plain(self.separator, source.rest(), &mut self.fields) {
            Some(bytes) => ScannedRow::Row(bytes),
            None => parse::row(self.separator, source, &mut self.fields, row)?,
        };
        match found {
            ScannedRow::Row(bytes) => *row = bytes,
            ScannedRow::Bad(bytes, why) => {
                *row = bytes;
                return Ok(NextRow::Bad(why));
            }
            ScannedRow::End(bytes) => {
                *row = bytes;
                return Ok(NextRow::End);
            }
        }
        if self.fields.len() != self.names.len() {
            let (there, wanted) = (self.fields.len(), self.names.len());
            return Ok(NextRow::Bad(format!("{there} columns instead of {wanted}")));
        }
        let bytes = source.rest();
        if let ValueSelector::Json = self.value
            && let Err(why) = self.json(bytes)
        {
            return Ok(NextRow::Bad(why));
        }
        let column;
        let value = match self.value {
            ValueSelector::Column(index) => {
                column = self.fields.get(bytes, index);
                &column[..]
            }
            ValueSelector::Row => &bytes[self.fields.row.clone()],
            ValueSelector::Json => &self.scratch,
        };
        if let [KeyComponent::Column(column)] = self.key[..] {
            changes.put(&self.fields.get(bytes, column), value);
            return Ok(NextRow::Row);
        }
        let mut key = Vec::new();
        for piece in &self.key {
            match piece {
                KeyComponent::Text(text) => key.extend_from_slice(text),
                KeyComponent::Column(column) => key.extend_from_slice(&self.fields.get(bytes, *column)),
            }
        }
        changes.put(&key, value);
        Ok(NextRow::Row)
    }
}
