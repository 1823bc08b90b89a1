//! JSON Lines: an object on each line.

use super::lines::one_line;
use super::source::without_end;
use super::template::{Part, Template};
use super::{Changes, Next, ReadRows, Source, WriteRows, broken};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// How an object becomes a key and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It has a field `key` and a field `value`, or `key_base64` and `value_base64`, as the writer
    /// makes them.
    Pairs,
    /// The key is made of fields, and the value is a field, or the line as it stands.
    Fields(Template, Option<String>),
}

/// Reads JSON Lines.
#[derive(Clone, Debug)]
pub struct JsonReader {
    shape: Shape,
}

impl JsonReader {
    /// Creates a reader.
    #[must_use]
    pub fn new(shape: Shape) -> JsonReader {
        JsonReader { shape }
    }
}

/// Returns the bytes that a value means: a text's own, and the JSON of anything else.
fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        other => other.to_string().into_bytes(),
    }
}

/// Returns a field; `a.b` is the field `b` of the object in `a`, unless there is a field of that
/// whole name.
fn field<'a>(object: &'a Map<String, Value>, path: &str) -> Result<&'a Value, String> {
    if let Some(found) = object.get(path) {
        return Ok(found);
    }
    let mut steps = path.split('.');
    let first = steps.next().and_then(|name| object.get(name));
    steps
        .fold(first, |value, name| value?.get(name))
        .ok_or_else(|| format!("there is no field {path:?}"))
}

/// One side of a pair: `name`, or `name_base64`.
fn side(object: &Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    let other = format!("{name}_base64");
    match (object.get(name), object.get(&other)) {
        (Some(value), None) => Ok(bytes(value)),
        (None, Some(Value::String(text))) => STANDARD
            .decode(text)
            .map_err(|error| format!("{other:?} is no base 64: {error}")),
        (None, None) => Err(format!("there is no field {name:?}: choose fields with --key")),
        _ => Err(format!("either a field {name:?} or a text {other:?} is expected")),
    }
}

fn read(shape: &Shape, line: &[u8], changes: &mut Changes) -> Result<(), String> {
    let object: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| format!("no JSON object: {error}"))?;
    match shape {
        Shape::Pairs => changes.put(&side(&object, "key")?, &side(&object, "value")?),
        Shape::Fields(template, value) => {
            let mut key = Vec::new();
            for part in template.parts() {
                match part {
                    Part::Text(text) => key.extend_from_slice(text),
                    Part::Field(name) => key.append(&mut bytes(field(&object, name)?)),
                }
            }
            match value {
                Some(name) => changes.put(&key, &bytes(field(&object, name)?)),
                None => changes.put(&key, line),
            }
        }
    }
    Ok(())
}

impl ReadRows for JsonReader {
    fn next(&mut self, source: &mut Source, row: &mut usize, changes: &mut Changes) -> io::Result<Next> {
        let line = source.line()?;
        *row = line.len();
        if line.is_empty() {
            return Ok(Next::End);
        }
        let line = without_end(line);
        if line.trim_ascii().is_empty() {
            return Ok(Next::Row);
        }
        Ok(match read(&self.shape, line, changes) {
            Ok(()) => Next::Row,
            Err(why) => Next::Bad(why),
        })
    }
}

/// Writes JSON Lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonWriter {
    /// Objects of keys and values.
    Pairs,
    /// Values that are objects.
    Values,
}

impl WriteRows for JsonWriter {
    fn row(&mut self, mut out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self {
            JsonWriter::Pairs => crate::bytes::json_record(&mut out, key, Some(value)),
            JsonWriter::Values => {
                one_line("value", value)?;
                if serde_json::from_slice::<Map<String, Value>>(value).is_err() {
                    let shown = crate::bytes::escape(&key[..key.len().min(60)]);
                    return Err(broken(format!(
                        "the value of the key \"{shown}\" is no JSON object: leave --values-only out"
                    )));
                }
                out.write_all(value)?;
                out.write_all(b"\n")
            }
        }
    }
}
