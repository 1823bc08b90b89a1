//! Redis keys in a readable form, with their types, elements and expiry times.

use super::RedisElements;
use crate::formats::{FileFormat, WriteRows};
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{DIM, KEY, ScreenOutput};
use crate::values::bytes::{self, ByteEncoding};
use alluvium_server::control::{RedisKey, RedisKind};
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Selects Redis keys instead of the records of a keyspace.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct RedisDatabaseArgs {
    /// Use the keys of Redis clients in this database, 0 to 15, with their types, instead of the
    /// raw records of a keyspace.
    #[arg(long = "redis-db", value_name = "NUMBER", conflicts_with = "keyspace", value_parser = clap::value_parser!(u8).range(0..=15))]
    pub redis_db: Option<u8>,
}

/// Formats the time that remains until a key expires.
fn until(expires_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left_s = (expires_ms / 1000).saturating_sub(now.as_secs());
    format!("expires in {left_s} s")
}

/// Prints Redis keys, either as text or as JSON.
pub(crate) struct RedisKeyPrinter<'o> {
    out: &'o mut ScreenOutput,
    encoding: ByteEncoding,
    is_json: bool,
    has_values: bool,
    open: Option<OpenKey>,
}

/// The key whose elements are currently being printed.
struct OpenKey {
    kind: RedisKind,
    count: u64,
}

impl<'o> RedisKeyPrinter<'o> {
    pub(crate) fn new(
        out: &'o mut ScreenOutput,
        encoding: ByteEncoding,
        is_json: bool,
    ) -> RedisKeyPrinter<'o> {
        RedisKeyPrinter {
            out,
            encoding,
            is_json,
            has_values: true,
            open: None,
        }
    }

    pub(crate) fn out(&mut self) -> &mut ScreenOutput {
        self.out
    }

    /// Restricts the output to keys and their types, without elements.
    pub(crate) fn keys_only(mut self) -> RedisKeyPrinter<'o> {
        self.has_values = false;
        self
    }

    /// Starts to print the next key. The key must exist.
    pub(crate) fn key(&mut self, key: &RedisKey) -> Result<()> {
        self.end()?;
        let Some(kind) = key.kind else { return Ok(()) };
        if self.is_json {
            json_head(self.out, key, kind)?;
            match self.has_values {
                true => self.out.write_all(json_open(kind))?,
                false => self.out.write_all(b"}\n")?,
            }
        } else {
            let name = self.out.styled(KEY, &self.encoding.show(&key.key));
            let mut rest = kind.name().to_owned();
            if kind != RedisKind::String {
                rest += &format!(" of {}", key.elements);
            }
            if let Some(expires_ms) = key.expires_ms {
                rest += &format!(", {}", until(expires_ms));
            }
            let rest = self.out.styled(DIM, &rest);
            write!(self.out, "{name}\t{rest}")?;
            match (kind, self.has_values) {
                (RedisKind::String, true) => write!(self.out, "\t")?,
                _ => writeln!(self.out)?,
            }
        }
        self.open = self.has_values.then_some(OpenKey { kind, count: 0 });
        Ok(())
    }

    /// Prints further elements of the current key.
    pub(crate) fn elements(&mut self, elements: &RedisElements) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        for (first, second) in elements {
            if self.is_json {
                json_element(self.out, open.kind, open.count, first, second)?;
            } else {
                let (first, second) = (self.encoding.show(first), self.encoding.show(second));
                match open.kind {
                    RedisKind::String => writeln!(self.out, "{first}")?,
                    RedisKind::List => writeln!(self.out, "  {}\t{first}", open.count)?,
                    RedisKind::Set => writeln!(self.out, "  {first}")?,
                    RedisKind::Hash | RedisKind::SortedSet => writeln!(self.out, "  {first}\t{second}")?,
                }
            }
            open.count += 1;
        }
        Ok(())
    }

    /// Completes the output of the current key, if there is one.
    pub(crate) fn end(&mut self) -> Result<()> {
        if let Some(open) = self.open.take()
            && self.is_json
        {
            self.out.write_all(json_end(open.kind))?;
        }
        Ok(())
    }
}

fn json_head(out: &mut dyn Write, key: &RedisKey, kind: RedisKind) -> io::Result<()> {
    let mut out = out;
    out.write_all(b"{")?;
    bytes::json_field(&mut out, "key", &key.key)?;
    write!(out, ",\"type\":\"{}\"", kind.name())?;
    if let Some(expires_ms) = key.expires_ms {
        write!(out, ",\"expires_at_ms\":{expires_ms}")?;
    }
    Ok(())
}

fn json_open(kind: RedisKind) -> &'static [u8] {
    match kind {
        RedisKind::String => b",",
        _ => b",\"value\":[",
    }
}

fn json_end(kind: RedisKind) -> &'static [u8] {
    match kind {
        RedisKind::String => b"}\n",
        _ => b"]}\n",
    }
}

/// Writes a byte string as an element of a JSON list: as a string if it is valid UTF-8, and
/// otherwise as an object with the bytes in base 64.
fn json_bytes(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(serde_json::to_writer(out, text)?),
        Err(_) => write!(out, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes)),
    }
}

fn json_element(
    out: &mut dyn Write,
    kind: RedisKind,
    count: u64,
    first: &[u8],
    second: &[u8],
) -> io::Result<()> {
    let mut out = out;
    if count > 0 {
        out.write_all(b",")?;
    }
    match kind {
        RedisKind::String => bytes::json_field(&mut out, "value", first),
        RedisKind::List | RedisKind::Set => json_bytes(out, first),
        RedisKind::Hash => {
            out.write_all(b"[")?;
            json_bytes(out, first)?;
            out.write_all(b",")?;
            json_bytes(out, second)?;
            out.write_all(b"]")
        }
        RedisKind::SortedSet => {
            out.write_all(b"[")?;
            json_bytes(out, first)?;
            // JSON has no infinities.
            let score = String::from_utf8_lossy(second);
            match score.parse::<f64>().is_ok_and(f64::is_finite) {
                true => write!(out, ",{score}]"),
                false => write!(out, ",\"{score}\"]"),
            }
        }
    }
}

/// Maximum number of elements in one command of an export.
const AT_ONCE: usize = 512;

/// Writes Redis keys to an export file.
pub(crate) struct RedisKeyWriter {
    format: FileFormat,
    /// The writer for formats that contain only plain keys and values.
    rows: Box<dyn WriteRows>,
    open: Option<(RedisKey, RedisKind, u64)>,
}

impl RedisKeyWriter {
    pub(crate) fn new(format: FileFormat, rows: Box<dyn WriteRows>) -> RedisKeyWriter {
        RedisKeyWriter {
            format,
            rows,
            open: None,
        }
    }

    pub(crate) fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.rows.begin(out)
    }

    /// Completes the current key and starts the next one. A key that does not exist is skipped.
    pub(crate) fn key(&mut self, out: &mut dyn Write, key: RedisKey) -> Result<()> {
        self.end_key(out)?;
        let Some(kind) = key.kind else { return Ok(()) };
        match self.format {
            FileFormat::Jsonl => {
                json_head(out, &key, kind)?;
                out.write_all(json_open(kind))?;
            }
            // The key may already have other elements when the export is imported, so delete it
            // first.
            FileFormat::Redis if kind != RedisKind::String => command(out, &[b"DEL", &key.key])?,
            FileFormat::Redis => {}
            format if kind != RedisKind::String => {
                let text = format!(
                    "the key \"{}\" is a {}, which the format {} cannot represent: choose --format redis or jsonl",
                    bytes::escape(&key.key),
                    kind.name(),
                    format.name()
                );
                return Err(failure(CommandExit::Failed, text));
            }
            _ => {}
        }
        self.open = Some((key, kind, 0));
        Ok(())
    }

    /// Writes further elements of the current key.
    pub(crate) fn elements(&mut self, out: &mut dyn Write, elements: &RedisElements) -> Result<()> {
        let Some((key, kind, count)) = &mut self.open else {
            return Ok(());
        };
        match self.format {
            FileFormat::Jsonl => {
                for (first, second) in elements {
                    json_element(out, *kind, *count, first, second)?;
                    *count += 1;
                }
            }
            FileFormat::Redis => {
                for part in elements.chunks(AT_ONCE) {
                    command(out, &words(&key.key, *kind, part))?;
                }
            }
            _ => {
                for (value, _) in elements {
                    self.rows.row(out, &key.key, value)?;
                }
            }
        }
        Ok(())
    }

    fn end_key(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some((key, kind, _)) = self.open.take() else {
            return Ok(());
        };
        match (self.format, key.expires_ms) {
            (FileFormat::Jsonl, _) => out.write_all(json_end(kind)),
            (FileFormat::Redis, Some(expires_ms)) => {
                command(out, &[b"PEXPIREAT", &key.key, expires_ms.to_string().as_bytes()])
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end_key(out)?;
        self.rows.end(out)
    }
}

/// Returns the words of the command that adds elements to a key of the given type.
fn words<'e>(key: &'e [u8], kind: RedisKind, elements: &'e RedisElements) -> Vec<&'e [u8]> {
    let name: &[u8] = match kind {
        RedisKind::String => b"SET",
        RedisKind::List => b"RPUSH",
        RedisKind::Set => b"SADD",
        RedisKind::SortedSet => b"ZADD",
        RedisKind::Hash => b"HSET",
    };
    let mut words = vec![name, key];
    for (first, second) in elements {
        match kind {
            RedisKind::String | RedisKind::List | RedisKind::Set => words.push(first),
            RedisKind::Hash => words.extend([&first[..], second]),
            RedisKind::SortedSet => words.extend([&second[..], first]),
        }
    }
    words
}

/// Writes a command in the wire format of a request.
fn command(out: &mut dyn Write, words: &[&[u8]]) -> io::Result<()> {
    write!(out, "*{}\r\n", words.len())?;
    for word in words {
        write!(out, "${}\r\n", word.len())?;
        out.write_all(word)?;
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::json::JsonWriter;
    use crate::formats::redis::RedisFormat;

    fn key(name: &[u8], kind: RedisKind, expires_ms: Option<u64>) -> RedisKey {
        RedisKey {
            key: name.to_vec(),
            kind: Some(kind),
            expires_ms,
            elements: 1,
        }
    }

    fn written(format: FileFormat, rows: Box<dyn WriteRows>) -> String {
        let mut writer = RedisKeyWriter::new(format, rows);
        let mut out = Vec::new();
        let pair = |first: &[u8], second: &[u8]| vec![(first.to_vec(), second.to_vec())];
        writer.begin(&mut out).unwrap();
        for (key, elements) in [
            (key(b"s", RedisKind::String, Some(7)), pair(b"v", b"")),
            (key(b"h", RedisKind::Hash, None), pair(b"f", b"\xff")),
            (key(b"z", RedisKind::SortedSet, None), pair(b"m", b"1.5")),
            (key(b"i", RedisKind::SortedSet, None), pair(b"m", b"inf")),
            (
                key(b"l", RedisKind::List, None),
                [pair(b"a", b""), pair(b"b", b"")].concat(),
            ),
        ] {
            writer.key(&mut out, key).unwrap();
            writer.elements(&mut out, &elements).unwrap();
        }
        writer.end(&mut out).unwrap();
        out.escape_ascii().to_string()
    }

    #[test]
    fn every_type_is_written_as_json_and_as_commands() {
        let json = written(FileFormat::Jsonl, Box::new(JsonWriter::Pairs));
        let lines = [
            r#"{"key":"s","type":"string","expires_at_ms":7,"value":"v"}"#,
            r#"{"key":"h","type":"hash","value":[["f",{"base64":"/w=="}]]}"#,
            r#"{"key":"z","type":"zset","value":[["m",1.5]]}"#,
            r#"{"key":"i","type":"zset","value":[["m","inf"]]}"#,
            r#"{"key":"l","type":"list","value":["a","b"]}"#,
        ];
        assert_eq!(json, lines.map(|line| line.replace('"', "\\\"") + "\\n").concat());
        let commands = written(FileFormat::Redis, Box::new(RedisFormat::new()));
        assert!(commands.starts_with("*3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\ns\\r\\n$1\\r\\nv\\r\\n*3\\r\\n$9\\r\\nPEXPIREAT\\r\\n$1\\r\\ns\\r\\n$1\\r\\n7\\r\\n"), "{commands}");
        assert!(
            commands.ends_with("*4\\r\\n$5\\r\\nRPUSH\\r\\n$1\\r\\nl\\r\\n$1\\r\\na\\r\\n$1\\r\\nb\\r\\n"),
            "{commands}"
        );
        assert!(
            commands.contains("*4\\r\\n$4\\r\\nZADD\\r\\n$1\\r\\nz\\r\\n$3\\r\\n1.5\\r\\n$1\\r\\nm\\r\\n"),
            "{commands}"
        );
    }
}
