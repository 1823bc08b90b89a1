//! JSON Lines: each line contains one JSON object.
//!
//! Values other than strings keep their JSON text, including the digits of a number, the order of
//! names in an object, and whitespace.

use super::lines::one_line;
use super::source::without_end;
use super::template::{KeyTemplate, TemplatePart};
use super::{InputSource, NextRow, ReadRows, RowChanges, WriteRows, broken};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// How the objects of an input are converted to keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonMapping {
    /// Objects have the fields `key` and `value`, or `key_base64` and `value_base64`, as the writer
    /// of this format produces them.
    Pairs,
    /// The key is formed from fields by a template. The value is the named field, or the whole line
    /// if no field is named.
    Fields(KeyTemplate, Option<String>),
}

/// Reads records in the format JSON Lines.
#[derive(Clone, Debug)]
pub struct JsonReader {
    shape: JsonMapping,
}

impl JsonReader {
    #[must_use]
    pub fn new(shape: JsonMapping) -> JsonReader {
        JsonReader { shape }
    }
}

/// Maximum number of bytes of an invalid JSON text that an error message shows.
const SHOWN: usize = 20;

/// The fields of an object by name, as JSON text. If a name occurs repeatedly, the last occurrence
/// counts.
type JsonFields<'l> = BTreeMap<String, &'l RawValue>;

/// Parses an object into its fields. Numbers are kept as text, because a double has only 53 bits of
/// precision, and different texts can denote the same number.
fn object(text: &[u8]) -> Result<JsonFields<'_>, String> {
    serde_json::from_slice(text).map_err(|error| {
        let rest = &text[error.column().saturating_sub(1).min(text.len())..];
        let shown = crate::values::bytes::escape(&rest[..rest.len().min(SHOWN)]);
        match shown.as_str() {
            "" => format!("not a JSON object: {error}"),
            shown => format!("not a JSON object: {error}, at \"{shown}\""),
        }
    })
}

/// Returns whether a JSON value is a string.
fn is_text(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

/// Returns the bytes that a field denotes: the content of a string, or the JSON text of any other
/// value.
fn bytes(name: &str, value: &RawValue) -> Result<Vec<u8>, String> {
    if !is_text(value) {
        return Ok(value.get().as_bytes().to_vec());
    }
    let text: Result<String, _> = serde_json::from_str(value.get());
    text.map(String::into_bytes)
        .map_err(|error| format!("the text of the field {name:?} cannot be read: {error}"))
}

/// Returns the bytes that a field denotes. The path `a.b` denotes the field `b` of the object in
/// the field `a`, unless a field has the whole name `a.b`.
fn field(object: &JsonFields<'_>, path: &str) -> Result<Vec<u8>, String> {
    if let Some(found) = object.get(path) {
        return bytes(path, found);
    }
    let value = inner(object, path).ok_or_else(|| format!("there is no field {path:?}"))?;
    bytes(path, value)
}

/// Returns the JSON value that a path of field names denotes.
fn inner<'l>(object: &JsonFields<'l>, path: &str) -> Option<&'l RawValue> {
    let mut steps = path.split('.');
    let mut value = *object.get(steps.next()?)?;
    for step in steps {
        value = self::object(value.get().as_bytes()).ok()?.get(step).copied()?;
    }
    Some(value)
}

/// Returns the key or value of a record, which is stored as text in the field `name` or in base 64
/// in the field `name_base64`.
fn side(object: &JsonFields<'_>, name: &str) -> Result<Vec<u8>, String> {
    let other = format!("{name}_base64");
    match (object.get(name), object.get(&other)) {
        (Some(value), None) => bytes(name, value),
        (None, Some(value)) if is_text(value) => STANDARD
            .decode(bytes(&other, value)?)
            .map_err(|error| format!("{other:?} is not valid base 64: {error}")),
        (None, None) => Err(format!("there is no field {name:?}: choose fields with --key")),
        _ => Err(format!("give either a field {name:?} or a string {other:?}")),
    }
}

fn read(shape: &JsonMapping, line: &[u8], changes: &mut RowChanges) -> Result<(), String> {
    let object = object(line)?;
    match shape {
        JsonMapping::Pairs => changes.put(&side(&object, "key")?, &side(&object, "value")?),
        JsonMapping::Fields(template, value) => {
            let mut key = Vec::new();
            for part in template.parts() {
                match part {
                    TemplatePart::Text(text) => key.extend_from_slice(text),
                    TemplatePart::Field(name) => key.append(&mut field(&object, name)?),
                }
            }
            match value {
                Some(name) => changes.put(&key, &field(&object, name)?),
                None => changes.put(&key, line),
            }
        }
    }
    Ok(())
}

impl ReadRows for JsonReader {
    fn next(
        &mut self,
        source: &mut InputSource,
        row: &mut usize,
        changes: &mut RowChanges,
    ) -> io::Result<NextRow> {
        let line = source.line()?;
        *row = line.len();
        if line.is_empty() {
            return Ok(NextRow::End);
        }
        let line = without_end(line);
        if line.trim_ascii().is_empty() {
            return Ok(NextRow::Row);
        }
        Ok(match read(&self.shape, line, changes) {
            Ok(()) => NextRow::Row,
            Err(why) => NextRow::Bad(why),
        })
    }
}

/// Writes records in the format JSON Lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonWriter {
    /// Writes an object with a key and a value for each record.
    Pairs,
    /// Writes only the values of the records, which must be JSON objects.
    Values,
}

impl WriteRows for JsonWriter {
    fn row(&mut self, mut out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self {
            JsonWriter::Pairs => crate::values::bytes::json_record(&mut out, key, Some(value)),
            JsonWriter::Values => {
                one_line("value", value)?;
                if object(value).is_err() {
                    let shown = crate::values::bytes::escape(&key[..key.len().min(60)]);
                    return Err(broken(format!(
                        "the value of the key \"{shown}\" is not a JSON object: leave --values-only out"
                    )));
                }
                out.write_all(value)?;
                out.write_all(b"\n")
            }
        }
    }
}
