//! The Redis protocol: commands as clients send them and as `redis-cli --pipe` accepts them.
//! Without a server to execute them, the only supported commands are those that set or delete plain
//! values unconditionally.

use super::{InputSource, NextRow, ReadRows, RowChanges, WriteRows, broken};
use alluvium::{MAX_KEY, MAX_VALUE};
use alluvium_server::resp::{ParsedRequests, RequestLimits, RequestParser};
use std::io::{self, Write};
use std::ops::Range;

/// Maximum number of words in a command.
const MAX_WORDS: usize = 1 << 20;

/// Limits of an inline command, the same as those of any row.
const LINE: RequestLimits = RequestLimits {
    bytes: usize::MAX,
    argument: usize::MAX,
    arguments: MAX_WORDS,
    line: usize::MAX,
};

/// Reads and writes commands in the Redis protocol.
#[derive(Clone, Debug, Default)]
pub struct RedisFormat {
    /// The words of the last parsed command, as byte ranges. They are ranges of the parser's input
    /// or, if the command was inline, of `typed`.
    words: Vec<Range<usize>>,
    /// The words of the last parsed inline command, concatenated, with quotes and escapes removed.
    typed: Option<Vec<u8>>,
    /// Whether all commands are accepted and passed on without being interpreted.
    takes_all: bool,
}

impl RedisFormat {
    /// Creates a reader and writer for commands that set or delete plain values.
    #[must_use]
    pub fn new() -> RedisFormat {
        RedisFormat::default()
    }

    /// Returns a reader that accepts all commands and returns each as a
    /// [`RowChange::Command`](super::RowChange::Command), which the caller must execute.
    #[must_use]
    pub fn of_commands() -> RedisFormat {
        RedisFormat {
            takes_all: true,
            ..RedisFormat::default()
        }
    }

    /// Finds the line that begins at position `at`. Returns the end of its text and the end of the
    /// whole line.
    fn line(source: &mut InputSource, at: usize) -> io::Result<Option<(usize, usize)>> {
        let mut seen = at;
        loop {
            let rest = source.rest();
            if let Some(found) = memchr::memchr(b'\n', rest.get(seen..).unwrap_or_default()) {
                let end = seen + found;
                let text = if end > at && rest[end - 1] == b'\r' {
                    end - 1
                } else {
                    end
                };
                return Ok(Some((text, end + 1)));
            }
            seen = rest.len().max(at);
            if !source.fill()? {
                return Ok(None);
            }
        }
    }

    /// Parses the number that follows the character `sign` on the line at position `at`. Returns
    /// the number and the position of the next line.
    fn number(source: &mut InputSource, at: usize, sign: u8, most: usize) -> io::Result<(usize, usize)> {
        let Some((end, next)) = Self::line(source, at)? else {
            return Err(broken(
                "the input ends in the middle of a command: it was cut short",
            ));
        };
        let line = &source.rest()[at..end];
        let digits = line
            .strip_prefix(&[sign])
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(number) if number <= most => Ok((number, next)),
            _ => {
                let shown = crate::values::bytes::escape(&line[..line.len().min(40)]);
                Err(broken(format!(
                    "the protocol requires \"{}\" and a number up to {most} here, not \"{shown}\"",
                    char::from(sign)
                )))
            }
        }
    }

    /// Finds the words of the command at the beginning of the source. Sets `row` to the length of
    /// the command in bytes, or to 0 at the end of the stream.
    ///
    /// # Errors
    /// Errors of the source, and a stream that cannot be parsed any further. The inner result is an
    /// error of this command only, after which parsing can continue.
    fn command(&mut self, source: &mut InputSource, row: &mut usize) -> io::Result<Result<(), String>> {
        self.words.clear();
        self.typed = None;
        if source.at_least(1)?.is_empty() {
            *row = 0;
            return Ok(Ok(()));
        }
        if source.rest()[0] != b'*' {
            return self.inline(source, row);
        }
        *row = self.counted(source)?;
        Ok(Ok(()))
    }

    /// Parses a command that begins with the number of its words. Returns its length in bytes.
    fn counted(&mut self, source: &mut InputSource) -> io::Result<usize> {
        let (words, mut at) = Self::number(source, 0, b'*', MAX_WORDS)?;
        for _ in 0..words {
            let (length, start) = Self::number(source, at, b'$', MAX_VALUE.max(MAX_KEY))?;
            let end = start + length;
            match source.at_least(end + 2)?.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => {
                    return Err(broken(format!(
                        "a word of {length} bytes is not followed by a line end"
                    )));
                }
                None => {
                    return Err(broken(
                        "the input ends in the middle of a command: it was cut short",
                    ));
                }
            }
            self.words.push(start..end);
            at = end + 2;
        }
        Ok(at)
    }

    /// Parses an inline command by the same rules as a server, which allow quoted words.
    fn inline(&mut self, source: &mut InputSource, row: &mut usize) -> io::Result<Result<(), String>> {
        let (end, next) = match Self::line(source, 0)? {
            Some(found) => found,
            None => (source.rest().len(), source.rest().len()),
        };
        *row = next;
        let mut line = [&source.rest()[..end], b"\n"].concat();
        let mut requests = ParsedRequests::default();
        if RequestParser::default()
            .parse(&mut line, &mut requests, &LINE, 1)
            .is_err()
        {
            let why = "a quote is not closed, or no space follows the closing quote";
            return Ok(Err(why.to_owned()));
        }
        let mut typed = Vec::with_capacity(line.len());
        if !requests.is_empty() {
            for word in requests.get(0, &line).iter() {
                self.words.push(typed.len()..typed.len() + word.len());
                typed.extend_from_slice(word);
            }
        }
        self.typed = Some(typed);
        Ok(Ok(()))
    }

    /// Returns the words of the last parsed command.
    fn found<'w>(&'w self, source: &'w InputSource) -> Vec<&'w [u8]> {
        let bytes = self.typed.as_deref().unwrap_or(source.rest());
        self.words.iter().map(|word| &bytes[word.clone()]).collect()
    }
}

fn number(word: &[u8]) -> Result<u64, String> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    number.filter(|&number| number > 0).ok_or_else(|| {
        format!(
            "\"{}\" is not a time: write a number above 0",
            crate::values::bytes::escape(word)
        )
    })
}

/// Converts a command to changes of plain keys and values.
fn apply(words: &[&[u8]], changes: &mut RowChanges) -> Result<(), String> {
    let Some((name, rest)) = words.split_first() else {
        return Ok(());
    };
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    match (name.as_str(), rest) {
        ("SET", [key, value]) => changes.put(key, value),
        ("SET", [key, value, unit, time]) => match unit.to_ascii_uppercase().as_slice() {
            b"EX" => changes.put_for(key, value, Some(number(time)?.saturating_mul(1000))),
            b"PX" => changes.put_for(key, value, Some(number(time)?)),
            _ => return Err("SET can be imported only with the options EX and PX".to_owned()),
        },
        ("SETEX", [key, time, value]) => {
            changes.put_for(key, value, Some(number(time)?.saturating_mul(1000)));
        }
        ("PSETEX", [key, time, value]) => changes.put_for(key, value, Some(number(time)?)),
        ("MSET", pairs) if !pairs.is_empty() && pairs.len() % 2 == 0 => {
            pairs
                .chunks_exact(2)
                .for_each(|pair| changes.put(pair[0], pair[1]));
        }
        ("DEL" | "UNLINK", [_, ..]) => rest.iter().for_each(|key| changes.delete(key)),
        ("PING" | "ECHO", _) => {}
        ("SELECT", [b"0"]) => {}
        ("SET" | "SETEX" | "PSETEX" | "MSET" | "DEL" | "UNLINK", _) => {
            return Err(format!("{name} cannot be imported with {} arguments", rest.len()));
        }
        _ => {
            return Err(format!(
                "{name} cannot be imported without --redis-db (only SET, SETEX, PSETEX, MSET, DEL and UNLINK can): add --redis-db N, or send the commands to `alluvium serve` with redis-cli --pipe"
            ));
        }
    }
    Ok(())
}

impl ReadRows for RedisFormat {
    fn next(
        &mut self,
        source: &mut InputSource,
        row: &mut usize,
        changes: &mut RowChanges,
    ) -> io::Result<NextRow> {
        if let Err(why) = self.command(source, row)? {
            return Ok(NextRow::Bad(why));
        }
        if *row == 0 {
            return Ok(NextRow::End);
        }
        let words = self.found(source);
        if self.takes_all {
            if let Some((name, rest)) = words.split_first() {
                let is_nothing = name.eq_ignore_ascii_case(b"PING") || name.eq_ignore_ascii_case(b"ECHO");
                if name.eq_ignore_ascii_case(b"SELECT") && !rest.is_empty() {
                    let why = "SELECT would change the database during the import: split the input by database, and import each part with its --redis-db";
                    return Ok(NextRow::Bad(why.to_owned()));
                }
                if !is_nothing {
                    changes.command(&encode(&words));
                }
            }
            return Ok(NextRow::Row);
        }
        Ok(match apply(&words, changes) {
            Ok(()) => NextRow::Row,
            Err(why) => NextRow::Bad(why),
        })
    }
}

/// Encodes a command in the wire format of a request.
#[must_use]
pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Decodes a command that [`encode`] has encoded.
#[must_use]
pub fn decode(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line(bytes).1;
    while let (Some(length), behind) = line(rest) {
        let Some((word, next)) = behind.split_at_checked(length) else {
            break;
        };
        words.push(word.to_vec());
        rest = next.get(2..).unwrap_or_default();
    }
    words
}

/// Parses the number on the first line. Returns the number and the bytes after that line.
fn line(bytes: &[u8]) -> (Option<usize>, &[u8]) {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n") else {
        return (None, &[]);
    };
    let digits = bytes
        .get(1..end)
        .and_then(|digits| std::str::from_utf8(digits).ok());
    (digits.and_then(|digits| digits.parse().ok()), &bytes[end + 2..])
}

impl WriteRows for RedisFormat {
    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        write!(out, "*3\r\n$3\r\nSET\r\n${}\r\n", key.len())?;
        out.write_all(key)?;
        write!(out, "\r\n${}\r\n", value.len())?;
        out.write_all(value)?;
        out.write_all(b"\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_apart_as_they_were_put_together() {
        for words in [&[&b"SET"[..], b"a\r\n$3\r\n", b""][..], &[b"PING"]] {
            assert_eq!(decode(&encode(words)), words);
        }
        assert!(decode(b"*1\r\n$9\r\nabc\r\n").is_empty() && decode(b"").is_empty());
    }
}
