//! The library `cjson`. It has the limits and the texts of the library in Redis.

use super::numbers::general;
use mlua::{Error, Lua, Result, String, Table, Value};

/// How deep values may be nested.
const MOST_DEPTH: usize = 1000;

/// An array with more empty places than this is an error: of its length, at most this part may be
/// empty, unless it is short.
const SPARSE_RATIO: i64 = 2;
const SPARSE_LENGTH: i64 = 10;

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    library.set("null", Value::NULL)?;
    library.set("_NAME", "cjson")?;
    let encode = |lua: &Lua, value: Value| {
        let mut text = Vec::new();
        encode(&value, &mut text, 0)?;
        lua.create_string(text)
    };
    library.set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: String| {
        let bytes = text.as_bytes();
        let mut parser = JsonParser {
            lua,
            text: &bytes,
            at: 0,
        };
        parser.document()
    };
    library.set("decode", lua.create_function(decode)?)?;
    Ok(library)
}

fn encode(value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(pointer) if pointer.0.is_null() => out.extend_from_slice(b"null"),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Integer(number) => out.extend_from_slice(general(*number as f64, 14).as_bytes()),
        Value::Number(number) if number.is_finite() => {
            out.extend_from_slice(general(*number, 14).as_bytes());
        }
        Value::Number(_) => {
            return Err(Error::runtime("Cannot serialise number: must not be NaN or Inf"));
        }
        Value::String(text) => encode_text(&text.as_bytes(), out),
        Value::Table(table) => {
            if depth >= MOST_DEPTH {
                let depth = depth + 1;
                return Err(Error::runtime(format!(
                    "Cannot serialise, excessive depth ({depth})"
                )));
            }
            encode_table(table, out, depth + 1)?;
        }
        other => {
            return Err(Error::runtime(format!(
                "Cannot serialise {}: type not supported",
                other.type_name()
            )));
        }
    }
    Ok(())
}

fn encode_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', byte]),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..32 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Returns the length of a table that is an array, or `None` if it has other keys.
fn array_length(table: &Table) -> Result<Option<i64>> {
    let (mut most, mut count) = (0, 0);
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::Integer(index) if index > 0 => {
                most = most.max(index);
                count += 1;
            }
            _ => return Ok(None),
        }
    }
    if most > count * SPARSE_RATIO && most > SPARSE_LENGTH {
        return Err(Error::runtime("Cannot serialise table: excessively sparse array"));
    }
    Ok(Some(most).filter(|&most| most > 0))
}

fn encode_table(table: &Table, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    if let Some(length) = array_length(table)? {
        out.push(b'[');
        for index in 1..=length {
            if index > 1 {
                out.push(b',');
            }
            encode(&table.raw_get::<Value>(index)?, out, depth)?;
        }
        out.push(b']');
        return Ok(());
    }
    out.push(b'{');
    let mut is_first = true;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        match key {
            Value::String(name) => encode_text(&name.as_bytes(), out),
            Value::Integer(number) => encode_text(general(number as f64, 14).as_bytes(), out),
            Value::Number(number) => encode_text(general(number, 14).as_bytes(), out),
            _ => {
                return Err(Error::runtime(
                    "Cannot serialise table: table key must be a number or string",
                ));
            }
        }
        out.push(b':');
        encode(&value, out, depth)?;
    }
    out.push(b'}');
    Ok(())
}

struct JsonParser<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
}

impl JsonParser<'_> {
    fn document(&mut self) -> Result<Value> {
        let value = self.value(0)?;
        self.skip_blanks();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.unexpected("the end")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let found = match self.peek() {
            None => "T_END",
            Some(_) => "invalid token",
        };
        let at = self.at + 1;
        Error::runtime(format!("Expected {wanted} but found {found} at character {at}"))
    }

    /// Skips a word if it is next. Returns whether it was.
    fn takes(&mut self, word: &[u8]) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_next = rest.starts_with(word);
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        self.skip_blanks();
        if depth > MOST_DEPTH {
            return Err(Error::runtime(format!(
                "Found too many nested data structures ({depth})"
            )));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => {
                let text = self.string()?;
                Ok(Value::String(self.lua.create_string(text)?))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.takes(b"true") => Ok(Value::Boolean(true)),
            _ if self.takes(b"false") => Ok(Value::Boolean(false)),
            _ if self.takes(b"null") => Ok(Value::NULL),
            _ => Err(self.unexpected("value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        self.at += 1;
        self.skip_blanks();
        if self.takes(b"}") {
            return Ok(Value::Table(table));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("object key string"));
            }
            let name = self.string()?;
            self.skip_blanks();
            if !self.takes(b":") {
                return Err(self.unexpected("colon"));
            }
            let value = self.value(depth + 1)?;
            table.raw_set(self.lua.create_string(name)?, value)?;
            self.skip_blanks();
            if self.takes(b"}") {
                return Ok(Value::Table(table));
            }
            if !self.takes(b",") {
                return Err(self.unexpected("comma or object end"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        self.at += 1;
        self.skip_blanks();
        if self.takes(b"]") {
            return Ok(Value::Table(table));
        }
        for index in 1_i64.. {
            table.raw_set(index, self.value(depth + 1)?)?;
            self.skip_blanks();
            if self.takes(b"]") {
                break;
            }
            if !self.takes(b",") {
                return Err(self.unexpected("comma or array end"));
            }
        }
        Ok(Value::Table(table))
    }

    fn number(&mut self) -> Result<Value> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = self.text.get(start..self.at).unwrap_or_default();
        let number = std::str::from_utf8(digits)
            .ok()
            .and_then(|text| text.parse().ok());
        match number {
            Some(number) => Ok(Value::Number(number)),
            None => {
                self.at = start;
                Err(self.unexpected("value"))
            }
        }
    }

    fn string(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let byte = self.peek().ok_or_else(|| self.unexpected("string end"))?;
            self.at += 1;
            match byte {
                b'"' => return Ok(text),
                b'\\' => self.escape(&mut text)?,
                0..32 => return Err(self.unexpected("string end")),
                _ => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<()> {
        let byte = self.peek().ok_or_else(|| self.unexpected("escape code"))?;
        self.at += 1;
        text.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'u' => {
                let mut code = self.hexadecimal()?;
                if (0xD800..0xDC00).contains(&code) && self.takes(b"\\u") {
                    let low = self.hexadecimal()?;
                    code = 0x10000 + ((code - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
                }
                let letter = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.unexpected("escape code")),
        });
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or_default();
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.len() == 4);
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.ok_or_else(|| self.unexpected("four hexadecimal digits"))
    }
}
