//! Replies, in the version that the client has chosen.

use super::number::{write_double, write_integer};
use crate::error::Failure;
use std::fmt;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// RESP2.
    #[default]
    Two,
    /// RESP3, which tells maps, sets, doubles and nulls apart.
    Three,
}

/// How far a long reply has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to be written.
    More,
    Whole,
}

/// The rest of a long reply, which is written in parts as the client takes them.
pub(crate) trait Tail: Send {
    /// Begins: from now on it shows what is there now, whatever is written meanwhile. The locks of
    /// what it shows are held.
    fn begin(&mut self);

    /// Writes the next part, some tens of kilobytes as a rule.
    ///
    /// # Errors
    /// The reply cannot be completed: its beginning was sent, so that only the end of the
    /// connection can say so.
    fn write(&mut self, reply: &mut Reply<'_>) -> Result<Progress, Failure>;
}

/// What becomes of long replies.
enum Length {
    /// They are written whole.
    Whole,
    /// They may have a tail.
    Parts(Option<Box<dyn Tail>>),
}

/// Appends replies to a buffer.
pub struct Reply<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
    most: usize,
    length: Length,
}

impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("version", &self.version)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl<'o> Reply<'o> {
    /// To the end of a buffer.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, version: Version) -> Reply<'o> {
        Reply {
            out,
            version,
            most: usize::MAX,
            length: Length::Whole,
        }
    }

    /// Lets a long reply be written in parts: see [`Reply::go_on`].
    #[inline]
    #[must_use]
    pub(crate) fn in_parts(self) -> Reply<'o> {
        // Field by field: there is nothing to be dropped in a reply that has just begun.
        Reply {
            out: self.out,
            version: self.version,
            most: self.most,
            length: Length::Parts(None),
        }
    }

    /// Whether a long reply may be written in parts.
    pub(crate) fn may_go_on(&self) -> bool {
        matches!(self.length, Length::Parts(None))
    }

    /// What was written is the beginning of a reply; this writes the rest.
    pub(crate) fn go_on(&mut self, tail: Box<dyn Tail>) {
        self.length = Length::Parts(Some(tail));
    }

    /// The rest of the reply, if there is one.
    #[inline]
    pub(crate) fn into_tail(self) -> Option<Box<dyn Tail>> {
        match self.length {
            Length::Whole => None,
            Length::Parts(tail) => tail,
        }
    }

    /// Lets the buffer have `most` bytes. Long replies look at [`Reply::most`] while they are
    /// written.
    #[inline]
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Reply<'o> {
        self.most = most;
        self
    }

    /// How many bytes the buffer may have.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// The version that is written.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// How long the buffer is.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Takes back what was written behind a position.
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

    /// A word of the protocol.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `OK`.
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// An error, which begins with its kind. Line ends in it become blanks.
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

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// How many.
    pub fn count(&mut self, value: usize) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// 1 or 0.
    pub fn truth(&mut self, value: bool) {
        self.integer(i64::from(value));
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Bytes or nothing.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: &str) {
        if self.version == Version::Two {
            return self.bulk(text.as_bytes());
        }
        self.header(b'=', text.len() as i64 + 4);
        self.out.extend_from_slice(b"txt:");
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// A floating-point number.
    pub fn double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        write_double(&mut text, value);
        match self.version {
            Version::Two => self.bulk(&text),
            Version::Three => self.line(b',', &text),
        }
    }

    /// Nothing, where bytes could be.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Two => b"$-1\r\n",
            Version::Three => b"_\r\n",
        });
    }

    /// Nothing, where an array could be.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Two => b"*-1\r\n",
            Version::Three => b"_\r\n",
        });
    }

    /// The head of an array: how many replies follow.
    pub fn array(&mut self, count: usize) {
        self.header(b'*', count as i64);
    }

    /// The head of a map: how many pairs of replies follow.
    pub fn map(&mut self, count: usize) {
        match self.version {
            Version::Two => self.array(2 * count),
            Version::Three => self.header(b'%', count as i64),
        }
    }

    /// The head of a set: how many replies follow, of which none comes twice.
    pub fn set(&mut self, count: usize) {
        match self.version {
            Version::Two => self.array(count),
            Version::Three => self.header(b'~', count as i64),
        }
    }

    /// Replies that were written elsewhere, in the same version.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: Version) -> String {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, version);
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
        assert_eq!(written(Version::Two), expected);
    }

    #[test]
    fn version_three_says_what_it_means() {
        let expected =
            "+OK\r\n-ERR two  lines\r\n:-5\r\n$3\r\na\0b\r\n_\r\n_\r\n%1\r\n~2\r\n,1.5\r\n=8\r\ntxt:text\r\n";
        assert_eq!(written(Version::Three), expected);
    }
}
