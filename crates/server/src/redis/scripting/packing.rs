//! The library `struct`, which packs values as the structures of C.

use mlua::{Error, Lua, MultiValue, Result, String, Table, Value, Variadic};

/// The largest size of an integer, and the largest alignment, in bytes.
const MOST_INTEGER: usize = 32;

/// One letter of a format with its number.
#[derive(Clone, Copy)]
enum FormatItem {
    Integer {
        size: usize,
        is_signed: bool,
    },
    Float,
    Double,
    Padding,
    /// Text of this length; 0 means the rest, or the length that the value before states.
    Text(usize),
    ZeroTerminated,
    None,
}

impl FormatItem {
    /// Returns the size in bytes, if it does not depend on the value.
    fn size(self) -> Option<usize> {
        match self {
            FormatItem::Integer { size, .. } => Some(size),
            FormatItem::Float => Some(4),
            FormatItem::Double => Some(8),
            FormatItem::Padding => Some(1),
            FormatItem::Text(length) => Some(length),
            FormatItem::ZeroTerminated => None,
            FormatItem::None => Some(0),
        }
    }
}

/// Reads a format, and knows its byte order and alignment.
struct FormatReader<'a> {
    format: &'a [u8],
    at: usize,
    is_little: bool,
    alignment: usize,
}

impl<'a> FormatReader<'a> {
    fn new(format: &'a [u8]) -> FormatReader<'a> {
        FormatReader {
            format,
            at: 0,
            is_little: true,
            alignment: 1,
        }
    }

    fn number(&mut self, otherwise: usize) -> Result<usize> {
        let digits = self.format[self.at..].iter();
        let count = digits.take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Ok(otherwise);
        }
        let text = std::str::from_utf8(&self.format[self.at..self.at + count]);
        self.at += count;
        let number = text.ok().and_then(|text| text.parse().ok());
        number
            .filter(|&number: &usize| number <= i32::MAX as usize)
            .ok_or_else(|| Error::runtime("integral size overflow"))
    }

    fn integer_size(&mut self) -> Result<usize> {
        let size = self.number(4)?;
        match size {
            1..=MOST_INTEGER => Ok(size),
            _ => Err(Error::runtime(format!(
                "integral size {size} is larger than limit of {MOST_INTEGER}"
            ))),
        }
    }

    /// Returns the next item, and the number of bytes that align it at the position `position`.
    fn next(&mut self, position: usize) -> Result<Option<(FormatItem, usize)>> {
        let Some(&letter) = self.format.get(self.at) else {
            return Ok(None);
        };
        self.at += 1;
        let integer = |size, is_signed| FormatItem::Integer { size, is_signed };
        let item = match letter {
            b'b' | b'B' => integer(1, letter == b'b'),
            b'h' | b'H' => integer(2, letter == b'h'),
            b'l' | b'L' => integer(8, letter == b'l'),
            b'T' => integer(8, false),
            b'i' | b'I' => integer(self.integer_size()?, letter == b'i'),
            b'f' => FormatItem::Float,
            b'd' => FormatItem::Double,
            b'x' => FormatItem::Padding,
            b'c' => FormatItem::Text(self.number(1)?),
            b's' => FormatItem::ZeroTerminated,
            b'>' | b'<' => {
                self.is_little = letter == b'<';
                FormatItem::None
            }
            b'!' => {
                self.alignment = self.number(8)?;
                if !self.alignment.is_power_of_two() {
                    return Err(Error::runtime("alignment is not a power of 2"));
                }
                FormatItem::None
            }
            b' ' => FormatItem::None,
            other => {
                let letter = char::from(other);
                return Err(Error::runtime(format!("invalid format option '{letter}'")));
            }
        };
        let unit = match item {
            FormatItem::Integer { .. } | FormatItem::Float | FormatItem::Double => {
                item.size().unwrap_or(1).min(self.alignment)
            }
            _ => 1,
        };
        let padding = match unit.is_power_of_two() {
            true => position.next_multiple_of(unit) - position,
            false => 0,
        };
        Ok(Some((item, padding)))
    }
}

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let pack = |lua: &Lua, (format, values): (String, Variadic<Value>)| {
        let out = pack(lua, &format.as_bytes(), &values)?;
        lua.create_string(out)
    };
    library.set("pack", lua.create_function(pack)?)?;
    let unpack = |lua: &Lua, (format, text, position): (String, String, Option<usize>)| {
        let start = position.unwrap_or(1).max(1) - 1;
        unpack(lua, &format.as_bytes(), &text.as_bytes(), start)
    };
    library.set("unpack", lua.create_function(unpack)?)?;
    let size = |_: &Lua, format: String| {
        let format = format.as_bytes();
        let (mut reader, mut size) = (FormatReader::new(&format), 0_usize);
        while let Some((item, padding)) = reader.next(size)? {
            let own = match item {
                FormatItem::ZeroTerminated => return Err(Error::runtime("variable-size format in 'size'")),
                FormatItem::Text(0) => return Err(Error::runtime("variable-length format")),
                other => other.size().unwrap_or(0),
            };
            size = size.saturating_add(padding + own);
        }
        Ok(size)
    };
    library.set("size", lua.create_function(size)?)?;
    Ok(library)
}

fn put_integer(out: &mut Vec<u8>, number: i64, size: usize, is_little: bool) {
    // An arithmetic shift by up to 63 bits extends the sign.
    let byte = |index: usize| (number >> (8 * index).min(63)) as u8;
    match is_little {
        true => out.extend((0..size).map(byte)),
        false => out.extend((0..size).rev().map(byte)),
    }
}

/// Converts a number as the library does: beyond the signed range, to the bits of the unsigned one.
fn whole(number: f64) -> i64 {
    match number < 0.0 {
        true => number as i64,
        false => (number as u64).cast_signed(),
    }
}

fn pack(lua: &Lua, format: &[u8], values: &[Value]) -> Result<Vec<u8>> {
    let (mut out, mut values) = (Vec::new(), values.iter());
    let mut reader = FormatReader::new(format);
    while let Some((item, padding)) = reader.next(out.len())? {
        out.resize(out.len() + padding, 0);
        let is_little = reader.is_little;
        let mut value = || {
            let value = values.next().cloned();
            value.ok_or_else(|| Error::runtime("bad argument to 'pack' (no value)"))
        };
        let number = |value: Value| {
            let number = lua.coerce_number(value)?;
            number.ok_or_else(|| Error::runtime("bad argument to 'pack' (number expected)"))
        };
        let text = |value: Value| {
            let text = lua.coerce_string(value)?;
            text.ok_or_else(|| Error::runtime("bad argument to 'pack' (string expected)"))
        };
        match item {
            FormatItem::Integer { size, .. } => {
                put_integer(&mut out, whole(number(value()?)?), size, is_little);
            }
            FormatItem::Float => {
                let bits = (number(value()?)? as f32).to_bits();
                put_integer(&mut out, i64::from(bits), 4, is_little);
            }
            FormatItem::Double => {
                let bits = number(value()?)?.to_bits();
                put_integer(&mut out, bits.cast_signed(), 8, is_little);
            }
            FormatItem::Padding => out.push(0),
            FormatItem::Text(length) => {
                let text = text(value()?)?;
                let bytes = text.as_bytes();
                let length = if length == 0 { bytes.len() } else { length };
                let bytes = bytes.get(..length);
                out.extend_from_slice(bytes.ok_or_else(|| Error::runtime("string too short"))?);
            }
            FormatItem::ZeroTerminated => {
                out.extend_from_slice(&text(value()?)?.as_bytes());
                out.push(0);
            }
            FormatItem::None => {}
        }
    }
    Ok(out)
}

fn get_integer(bytes: &[u8], is_little: bool, is_signed: bool) -> Value {
    let join = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    let low = bytes.len().min(8);
    let number = match is_little {
        true => bytes[..low].iter().rev().fold(0, join),
        false => bytes[bytes.len() - low..].iter().fold(0, join),
    };
    let unused = 64 - 8 * low as u32;
    match is_signed {
        true => Value::Integer(number.cast_signed() << unused >> unused),
        false => i64::try_from(number).map_or(Value::Number(number as f64), Value::Integer),
    }
}

fn unpack(lua: &Lua, format: &[u8], text: &[u8], start: usize) -> Result<MultiValue> {
    let too_short = || Error::runtime("data string too short");
    let (mut values, mut at) = (Vec::new(), start);
    let mut reader = FormatReader::new(format);
    while let Some((item, padding)) = reader.next(at)? {
        at += padding;
        let length = match item {
            FormatItem::ZeroTerminated => {
                let rest = text.get(at..).ok_or_else(too_short)?;
                let end = rest.iter().position(|&byte| byte == 0);
                end.ok_or_else(|| Error::runtime("unfinished string in data"))? + 1
            }
            FormatItem::Text(0) => match values.pop() {
                Some(Value::Integer(length)) => usize::try_from(length).map_err(|_| too_short())?,
                _ => return Err(Error::runtime("format 'c0' needs a previous size")),
            },
            other => other.size().unwrap_or(0),
        };
        let end = at.checked_add(length).ok_or_else(too_short)?;
        let bytes = text.get(at..end).ok_or_else(too_short)?;
        at = end;
        let is_little = reader.is_little;
        let bits = || match get_integer(bytes, is_little, true) {
            Value::Integer(bits) => bits.cast_unsigned(),
            _ => 0,
        };
        values.push(match item {
            FormatItem::Integer { is_signed, .. } => get_integer(bytes, is_little, is_signed),
            FormatItem::Float => Value::Number(f64::from(f32::from_bits(bits() as u32))),
            FormatItem::Double => Value::Number(f64::from_bits(bits())),
            FormatItem::Text(_) => Value::String(lua.create_string(bytes)?),
            FormatItem::ZeroTerminated => Value::String(lua.create_string(&bytes[..length - 1])?),
            FormatItem::Padding | FormatItem::None => continue,
        });
    }
    values.push(Value::Integer(at as i64 + 1));
    Ok(MultiValue::from_vec(values))
}
