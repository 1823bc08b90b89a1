//! Encodes replies in the client's protocol version.

use super::number::{write_double, write_integer};
use crate::error::CommandError;
use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RespVersion {
    #[default]
    Two,
    /// RESP3, which has separate types for maps, sets, doubles and nulls.
    Three,
}

/// Whether a long reply is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyProgress {
    More,
    Whole,
}

/// The rest of a long reply, written in parts, each once the client has read the previous one.
pub(crate) trait ReplyTail: Send {
    /// Takes a snapshot of the data, so that later writes do not affect the reply. The caller must
    /// hold the data's locks.
    fn begin(&mut self);

    /// Writes the reply's next part, usually some tens of kilobytes.
    ///
    /// # Errors
    /// The reply cannot be completed. The connection must then be closed, because the beginning of
    /// the reply has already been sent.
    fn write(&mut self, reply: &mut ReplyWriter<'_>) -> Result<ReplyProgress, CommandError>;
}

/// Whether to write a long reply as a whole or in parts.
enum LongReplyMode {
    Whole,
    /// A long reply is written in parts. Holds the rest of the reply once its beginning has been
    /// written.
    Parts(Option<Box<dyn ReplyTail>>),
}

/// Appends encoded replies to a buffer.
pub struct ReplyWriter<'o> {
    out: &'o mut Vec<u8>,
    version: RespVersion,
    most: usize,
    length: LongReplyMode,
}

impl fmt::Debug for ReplyWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyWriter")
            .field("version", &self.version)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl<'o> ReplyWriter<'o> {
    /// Creates a writer that appends to a buffer.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, version: RespVersion) -> ReplyWriter<'o> {
        ReplyWriter {
            out,
            version,
            most: usize::MAX,
            length: LongReplyMode::Whole,
        }
    }

    /// Allows the rest of a long reply to be written in later parts: see [`ReplyWriter::set_tail`].
    #[inline]
    #[must_use]
    pub(crate) fn in_parts(self) -> ReplyWriter<'o> {
        // Build the value from its fields instead of assigning to one of them. An assignment would
        // generate drop code for the old field, which never needs to be dropped here.
        ReplyWriter {
            out: self.out,
            version: self.version,
            most: self.most,
            length: LongReplyMode::Parts(None),
        }
    }

    /// Returns whether the rest of a long reply may be written in later parts.
    pub(crate) fn accepts_tail(&self) -> bool {
        matches!(self.length, LongReplyMode::Parts(None))
    }

    /// Sets the object that will write the rest of the reply.
    pub(crate) fn set_tail(&mut self, tail: Box<dyn ReplyTail>) {
        self.length = LongReplyMode::Parts(Some(tail));
    }

    /// Returns the object that will write the rest of the reply, or `None` if the reply is
    /// complete.
    #[inline]
    pub(crate) fn into_tail(self) -> Option<Box<dyn ReplyTail>> {
        match self.length {
            LongReplyMode::Whole => None,
            LongReplyMode::Parts(tail) => tail,
        }
    }

    /// Limits the size of the buffer to `most` bytes. The limit is not enforced here; commands with
    /// long replies must check [`ReplyWriter::most`] while they write.
    #[inline]
    #[must_use]
    pub fn at_most(mut self, most: usize) -> ReplyWriter<'o> {
        self.most = most;
        self
    }

    /// Returns the maximum size of the buffer in bytes.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    #[must_use]
    pub fn version(&self) -> RespVersion {
        self.version
    }

    /// Returns the current length of the buffer in bytes.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Truncates the buffer to an earlier position, discarding everything written since.
    pub fn rewind(&mut self, position: usize) {
        self.out.truncate(position);
    }

    fn line(&mut self, mark: u8, text: &[u8]) {
        self.out.push(mark);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, mark: u8, number: i64) {
        self.out.push(mark);
        write_integer(self.out, number);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a simple string. The text must not contain line breaks.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// Writes an error. The text must begin with the error code; blanks replace its line breaks.
    pub fn error(&mut self, text: &str) {
        self.out.push(b'-');
        let bytes = text.bytes().map(|byte| {
            if byte == b'\r' || byte == b'\n' {
                b' '
            } else {
                byte
            }
        });
        self.out.extend(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    pub fn count(&mut self, value: usize) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Writes a boolean as the integer 1 or 0.
    pub fn truth(&mut self, value: bool) {
        self.integer(i64::from(value));
    }

    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a bulk string, or null if there is none.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Writes a boolean: as such in RESP3, as the integer 1 or as null in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match (self.version, value) {
            (RespVersion::Three, _) => self.line(b'#', if value { b"t" } else { b"f" }),
            (RespVersion::Two, true) => self.integer(1),
            (RespVersion::Two, false) => self.null(),
        }
    }

    /// Writes a human-readable text: a verbatim string in RESP3, a bulk string in RESP2.
    pub fn verbatim(&mut self, text: &str) {
        if self.version == RespVersion::Two {
            return self.bulk(text.as_bytes());
        }
        self.header(b'=', text.len() as i64 + 4);
        self.out.extend_from_slice(b"txt:");
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a double: as such in RESP3, as a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        write_double(&mut text, value);
        match self.version {
            RespVersion::Two => self.bulk(&text),
            RespVersion::Three => self.line(b',', &text),
        }
    }

    /// Writes null in place of a bulk string.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            RespVersion::Two => b"$-1\r\n",
            RespVersion::Three => b"_\r\n",
        });
    }

    /// Writes null in place of an array.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            RespVersion::Two => b"*-1\r\n",
            RespVersion::Three => b"_\r\n",
        });
    }

    /// Writes an array header. The caller must then write `count` elements.
    pub fn array(&mut self, count: usize) {
        self.header(b'*', count as i64);
    }

    /// Writes a map header. The caller must then write `count` keys, each followed by its value.
    pub fn map(&mut self, count: usize) {
        match self.version {
            RespVersion::Two => self.array(2 * count),
            RespVersion::Three => self.header(b'%', count as i64),
        }
    }

    /// Writes the header of a message that is no reply to a request. The caller must then write
    /// `count` elements.
    pub fn push(&mut self, count: usize) {
        match self.version {
            RespVersion::Two => self.array(count),
            RespVersion::Three => self.header(b'>', count as i64),
        }
    }

    /// Writes a set header. The caller must then write `count` distinct elements.
    pub fn set(&mut self, count: usize) {
        match self.version {
            RespVersion::Two => self.array(count),
            RespVersion::Three => self.header(b'~', count as i64),
        }
    }

    /// Appends replies that are already encoded in this protocol version.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: RespVersion) -> String {
        let mut out = Vec::new();
        let mut reply = ReplyWriter::new(&mut out, version);
        reply.ok();
        reply.error("ERR two\r\nlines");
        reply.integer(-5);
        reply.bulk(b"a\0b");
        reply.null();
        reply.null_array();
        reply.map(1);
        reply.set(2);
        reply.double(1.5);
        reply.verbatim("text");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn version_two_knows_arrays_and_strings_only() {
        let expected = "+OK\r\n-ERR two  lines\r\n:-5\r\n$3\r\na\0b\r\n$-1\r\n*-1\r\n*2\r\n*2\r\n$3\r\n1.5\r\n$4\r\ntext\r\n";
        assert_eq!(written(RespVersion::Two), expected);
    }

    #[test]
    fn version_three_says_what_it_means() {
        let expected =
            "+OK\r\n-ERR two  lines\r\n:-5\r\n$3\r\na\0b\r\n_\r\n_\r\n%1\r\n~2\r\n,1.5\r\n=8\r\ntxt:text\r\n";
        assert_eq!(written(RespVersion::Three), expected);
    }
}
