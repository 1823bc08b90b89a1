//! The library `cmsgpack`, which packs values as `MessagePack`.

use mlua::{Error, Lua, MultiValue, Result, String, Table, Value, Variadic};

/// How deep tables are packed. Deeper ones become nil, as in Redis.
const MOST_DEPTH: usize = 16;

/// How deep values are unpacked.
const MOST_UNPACKED_DEPTH: usize = 100;

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let pack = |lua: &Lua, values: Variadic<Value>| {
        if values.is_empty() {
            return Err(Error::runtime(
                "bad argument #0 to 'pack' (MessagePack pack needs input.)",
            ));
        }
        let mut out = Vec::new();
        for value in values.iter() {
            pack(value, &mut out, 0)?;
        }
        lua.create_string(out)
    };
    library.set("pack", lua.create_function(pack)?)?;
    let all = |lua: &Lua, text: String| {
        let (values, _) = unpack_some(lua, &text.as_bytes(), usize::MAX, 0)?;
        Ok(MultiValue::from_vec(values))
    };
    library.set("unpack", lua.create_function(all)?)?;
    let one = |lua: &Lua, (text, offset): (String, Option<usize>)| {
        unpack_from(lua, &text.as_bytes(), 1, offset.unwrap_or(0))
    };
    library.set("unpack_one", lua.create_function(one)?)?;
    let some = |lua: &Lua, (text, limit, offset): (String, usize, Option<usize>)| {
        unpack_from(lua, &text.as_bytes(), limit, offset.unwrap_or(0))
    };
    library.set("unpack_limit", lua.create_function(some)?)?;
    library.set("_NAME", "cmsgpack")?;
    Ok(library)
}

/// Appends a number of `bytes` bytes, the highest first.
fn put(out: &mut Vec<u8>, mark: u8, number: u64, bytes: u32) {
    out.push(mark);
    out.extend((0..bytes).rev().map(|byte| (number >> (8 * byte)) as u8));
}

fn pack_integer(number: i64, out: &mut Vec<u8>) {
    let bits = number.cast_unsigned();
    match number {
        0..=0x7F => out.push(number as u8),
        -32..0 => out.push(number as u8),
        0x80..=0xFF => put(out, 0xCC, bits, 1),
        0x100..=0xFFFF => put(out, 0xCD, bits, 2),
        0x1_0000..=0xFFFF_FFFF => put(out, 0xCE, bits, 4),
        0x1_0000_0000.. => put(out, 0xCF, bits, 8),
        -0x80..-32 => put(out, 0xD0, bits, 1),
        -0x8000..-0x80 => put(out, 0xD1, bits, 2),
        -0x8000_0000..-0x8000 => put(out, 0xD2, bits, 4),
        _ => put(out, 0xD3, bits, 8),
    }
}

fn pack_length(out: &mut Vec<u8>, length: usize, (short, most): (u8, usize), (middle, long): (u8, u8)) {
    match length {
        _ if length <= most => out.push(short | length as u8),
        0..=0xFFFF => put(out, middle, length as u64, 2),
        _ => put(out, long, length as u64, 4),
    }
}

fn pack(value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    match value {
        Value::Boolean(is) => out.push(if *is { 0xC3 } else { 0xC2 }),
        Value::Integer(number) => pack_integer(*number, out),
        Value::Number(number) if f64::from(*number as f32) == *number => {
            put(out, 0xCA, u64::from((*number as f32).to_bits()), 4);
        }
        Value::Number(number) => put(out, 0xCB, number.to_bits(), 8),
        Value::String(text) => {
            let bytes = text.as_bytes();
            match bytes.len() {
                32..=0xFF => put(out, 0xD9, bytes.len() as u64, 1),
                length => pack_length(out, length, (0xA0, 31), (0xDA, 0xDB)),
            }
            out.extend_from_slice(&bytes);
        }
        Value::Table(table) if depth < MOST_DEPTH => pack_table(table, out, depth + 1)?,
        _ => out.push(0xC0),
    }
    Ok(())
}

fn pack_table(table: &Table, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    let (mut count, mut most, mut is_array) = (0, 0, true);
    for pair in table.pairs::<Value, Value>() {
        count += 1;
        match pair?.0 {
            Value::Integer(index) if index > 0 => most = most.max(index),
            _ => is_array = false,
        }
    }
    if is_array && most == count {
        pack_length(out, count as usize, (0x90, 15), (0xDC, 0xDD));
        for index in 1..=count {
            pack(&table.raw_get::<Value>(index)?, out, depth)?;
        }
        return Ok(());
    }
    pack_length(out, count as usize, (0x80, 15), (0xDE, 0xDF));
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        pack(&key, out, depth)?;
        pack(&value, out, depth)?;
    }
    Ok(())
}

/// Unpacks up to `limit` values from an offset. Returns them after the offset of the rest, or -1 if
/// there is none.
fn unpack_from(lua: &Lua, bytes: &[u8], limit: usize, offset: usize) -> Result<MultiValue> {
    if offset > bytes.len() {
        return Err(Error::runtime(format!(
            "Start offset {offset} greater than input length {}.",
            bytes.len()
        )));
    }
    let (mut values, at) = unpack_some(lua, bytes, limit, offset)?;
    let rest = if at < bytes.len() { at as i64 } else { -1 };
    values.insert(0, Value::Integer(rest));
    Ok(MultiValue::from_vec(values))
}

fn unpack_some(lua: &Lua, bytes: &[u8], limit: usize, offset: usize) -> Result<(Vec<Value>, usize)> {
    let mut unpacker = MessagePackReader {
        lua,
        bytes,
        at: offset,
    };
    let mut values = Vec::new();
    while values.len() < limit && unpacker.at < bytes.len() {
        values.push(unpacker.value(0)?);
    }
    Ok((values, unpacker.at))
}

struct MessagePackReader<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
}

impl MessagePackReader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| Error::runtime("Missing bytes in input."))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// Takes a number of `count` bytes, the highest first.
    fn number(&mut self, count: usize) -> Result<u64> {
        let bytes = self.take(count)?;
        Ok(bytes
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn signed(&mut self, count: usize) -> Result<Value> {
        let unused = 64 - 8 * count as u32;
        let number = self.number(count)?.cast_signed() << unused >> unused;
        Ok(Value::Integer(number))
    }

    fn unsigned(&mut self, count: usize) -> Result<Value> {
        let number = self.number(count)?;
        let small = i64::try_from(number).map(Value::Integer);
        Ok(small.unwrap_or(Value::Number(number as f64)))
    }

    fn text(&mut self, length: usize) -> Result<Value> {
        let lua = self.lua;
        Ok(Value::String(lua.create_string(self.take(length)?)?))
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=count as i64 {
            table.raw_set(index, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            let is_number = matches!(key, Value::Number(number) if number.is_nan());
            if key.is_nil() || is_number {
                return Err(Error::runtime("Bad data format in input."));
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > MOST_UNPACKED_DEPTH {
            return Err(Error::runtime("Bad data format in input."));
        }
        let mark = self.number(1)? as u8;
        Ok(match mark {
            0..=0x7F => Value::Integer(i64::from(mark)),
            0x80..=0x8F => self.map(usize::from(mark & 15), depth)?,
            0x90..=0x9F => self.array(usize::from(mark & 15), depth)?,
            0xA0..=0xBF => self.text(usize::from(mark & 31))?,
            0xC0 => Value::Nil,
            0xC2 | 0xC3 => Value::Boolean(mark == 0xC3),
            0xCA => Value::Number(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xCB => Value::Number(f64::from_bits(self.number(8)?)),
            0xCC..=0xCF => self.unsigned(1 << (mark - 0xCC))?,
            0xD0..=0xD3 => self.signed(1 << (mark - 0xD0))?,
            0xC4 | 0xD9 => {
                let length = self.number(1)? as usize;
                self.text(length)?
            }
            0xC5 | 0xDA => {
                let length = self.number(2)? as usize;
                self.text(length)?
            }
            0xC6 | 0xDB => {
                let length = self.number(4)? as usize;
                self.text(length)?
            }
            0xDC | 0xDD => {
                let count = self.number(if mark == 0xDC { 2 } else { 4 })? as usize;
                self.array(count, depth)?
            }
            0xDE | 0xDF => {
                let count = self.number(if mark == 0xDE { 2 } else { 4 })? as usize;
                self.map(count, depth)?
            }
            0xE0..=0xFF => Value::Integer(i64::from(mark.cast_signed())),
            _ => return Err(Error::runtime("Bad data format in input.")),
        })
    }
}
