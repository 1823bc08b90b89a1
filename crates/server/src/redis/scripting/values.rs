//! The conversion of replies to Lua values, and of Lua values to replies.

use crate::protocol::resp::{ReplyWriter, RespVersion};
use mlua::{Error, Lua, Result, Table, Value};

/// How deep tables may be nested in a reply.
const MOST_DEPTH: usize = 100;

/// Reads replies that commands have written for a script.
struct ReplyReader<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
}

/// Returns the Lua value of a reply, and whether it is an error.
pub(super) fn from_reply(lua: &Lua, bytes: &[u8]) -> Result<(Value, bool)> {
    let has_failed = bytes.first() == Some(&b'-');
    Ok((ReplyReader { lua, bytes }.value()?, has_failed))
}

impl<'a> ReplyReader<'a> {
    fn line(&mut self) -> Result<(u8, &'a [u8])> {
        let end = self.bytes.windows(2).position(|two| two == b"\r\n");
        let (Some(end), Some(&mark)) = (end, self.bytes.first()) else {
            return Err(Error::runtime("a command of the script has no complete reply"));
        };
        let line = &self.bytes[1..end.max(1)];
        self.bytes = &self.bytes[end + 2..];
        Ok((mark, line))
    }

    fn bulk(&mut self, length: usize) -> Result<&'a [u8]> {
        if self.bytes.len() < length + 2 {
            return Err(Error::runtime("a command of the script has no complete reply"));
        }
        let text = &self.bytes[..length];
        self.bytes = &self.bytes[length + 2..];
        Ok(text)
    }

    /// Returns a table with one field.
    fn tagged(&self, name: &str, value: Value) -> Result<Value> {
        let table = self.lua.create_table()?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn text(&self, text: &[u8]) -> Result<Value> {
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn array(&mut self, count: i64) -> Result<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=count {
            let value = self.value()?;
            table.raw_set(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn value(&mut self) -> Result<Value> {
        let (mark, line) = self.line()?;
        let number = || {
            let text = std::str::from_utf8(line).ok();
            text.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0)
        };
        match mark {
            b'+' => self.tagged("ok", self.text(line)?),
            b'-' => self.tagged("err", self.text(line)?),
            b':' => Ok(Value::Integer(number())),
            b'$' | b'*' if line == b"-1" => Ok(Value::Boolean(false)),
            b'$' => {
                let text = self.bulk(number() as usize)?;
                self.text(text)
            }
            b'=' => {
                let text = self.bulk(number() as usize)?;
                let table = self.lua.create_table()?;
                table.raw_set("format", self.text(text.get(..3).unwrap_or_default())?)?;
                table.raw_set("string", self.text(text.get(4..).unwrap_or_default())?)?;
                self.tagged("verbatim_string", Value::Table(table))
            }
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(line == b"t")),
            b',' => {
                let text = std::str::from_utf8(line).unwrap_or_default();
                self.tagged("double", Value::Number(text.parse().unwrap_or(f64::NAN)))
            }
            b'%' => {
                let table = self.lua.create_table()?;
                for _ in 0..number() {
                    let key = self.value()?;
                    let value = self.value()?;
                    table.raw_set(key, value)?;
                }
                self.tagged("map", Value::Table(table))
            }
            b'~' => {
                let table = self.lua.create_table()?;
                for _ in 0..number() {
                    let member = self.value()?;
                    table.raw_set(member, true)?;
                }
                self.tagged("set", Value::Table(table))
            }
            _ => self.array(number()),
        }
    }
}

/// Writes the reply that a Lua value stands for. `version` is the one that the script has chosen.
pub(super) fn write_reply(value: &Value, reply: &mut ReplyWriter<'_>, version: RespVersion) -> Result<()> {
    write(value, reply, version, 0)
}

fn write(value: &Value, reply: &mut ReplyWriter<'_>, version: RespVersion, depth: usize) -> Result<()> {
    if reply.position() > reply.most() {
        return Err(Error::runtime("ERR the reply of the script is too long"));
    }
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(*number as i64),
        Value::Boolean(is) if version == RespVersion::Three => reply.boolean(*is),
        Value::Boolean(true) => reply.integer(1),
        Value::Table(table) => {
            if depth >= MOST_DEPTH {
                return Err(Error::runtime("ERR reached lua stack limit"));
            }
            return write_table(table, reply, version, depth + 1);
        }
        _ => reply.null(),
    }
    Ok(())
}

/// Returns the text of a field of a table, if it is a string.
fn field(table: &Table, name: &str) -> Result<Option<Vec<u8>>> {
    match table.raw_get::<Value>(name)? {
        Value::String(text) => Ok(Some(text.as_bytes().to_vec())),
        _ => Ok(None),
    }
}

fn write_table(table: &Table, reply: &mut ReplyWriter<'_>, version: RespVersion, depth: usize) -> Result<()> {
    if let Some(text) = field(table, "err")? {
        reply.error(&String::from_utf8_lossy(&text));
        return Ok(());
    }
    if let Some(text) = field(table, "ok")? {
        let line: String = String::from_utf8_lossy(&text)
            .chars()
            .map(|letter| {
                if matches!(letter, '\r' | '\n') {
                    ' '
                } else {
                    letter
                }
            })
            .collect();
        reply.simple(&line);
        return Ok(());
    }
    match table.raw_get::<Value>("double")? {
        Value::Number(number) => {
            reply.double(number);
            return Ok(());
        }
        Value::Integer(number) => {
            reply.double(number as f64);
            return Ok(());
        }
        _ => {}
    }
    if let Value::Table(map) = table.raw_get::<Value>("map")? {
        let pairs: Vec<(Value, Value)> = map.pairs().collect::<Result<_>>()?;
        reply.map(pairs.len());
        for (key, value) in &pairs {
            write(key, reply, version, depth)?;
            write(value, reply, version, depth)?;
        }
        return Ok(());
    }
    if let Value::Table(set) = table.raw_get::<Value>("set")? {
        let members: Vec<(Value, Value)> = set.pairs().collect::<Result<_>>()?;
        reply.set(members.len());
        for (member, _) in &members {
            write(member, reply, version, depth)?;
        }
        return Ok(());
    }
    if let Value::Table(verbatim) = table.raw_get::<Value>("verbatim_string")? {
        let text = field(&verbatim, "string")?.unwrap_or_default();
        reply.verbatim(&String::from_utf8_lossy(&text));
        return Ok(());
    }
    // As in Redis, the array ends before the first nil.
    let mut elements = Vec::new();
    for index in 1_i64.. {
        match table.raw_get::<Value>(index)? {
            Value::Nil => break,
            element => elements.push(element),
        }
    }
    reply.array(elements.len());
    elements
        .iter()
        .try_for_each(|element| write(element, reply, version, depth))
}
