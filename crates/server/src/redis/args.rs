//! Parsing and validation of command arguments.

use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter, number};
use std::borrow::Cow;

/// Longest key or element in bytes. The rest of the store's limit is needed for the key's prefix.
pub(super) const MAX_NAME: usize = alluvium::MAX_KEY - 64;

/// Parses an integer, or returns the error reply of Redis.
pub(super) fn integer(text: &[u8]) -> Result<i64, CommandError> {
    number::integer(text).ok_or(CommandError::NOT_INTEGER)
}

/// Parses a floating-point number, or returns the error reply of Redis.
pub(super) fn double(text: &[u8]) -> Result<f64, CommandError> {
    number::double(text).ok_or(CommandError::NOT_FLOAT)
}

/// Checks the length of a key, field or member.
pub(super) fn name(text: &[u8]) -> Result<&[u8], CommandError> {
    if text.len() > MAX_NAME {
        let why = format!(
            "ERR a key or member of {} bytes is too long: the maximum is {MAX_NAME} bytes",
            text.len()
        );
        return Err(CommandError::Refused(Cow::Owned(why)));
    }
    Ok(text)
}

/// Returns the error for a wrong number of arguments.
pub(super) fn wrong_number(command: &str) -> CommandError {
    CommandError::Refused(Cow::Owned(format!(
        "ERR wrong number of arguments for '{command}' command"
    )))
}

/// Returns the error for a reply that exceeds the limit of a client's output.
pub(super) fn too_long(most: usize) -> CommandError {
    CommandError::Refused(Cow::Owned(format!(
        "ERR the reply exceeds {most} bytes, the output limit of a client; request less at a time, with \
         SCAN, HSCAN, SSCAN, ZSCAN or ranges"
    )))
}

/// Fails if the reply exceeds the limit of a client's output. Commands whose reply size depends on
/// a number from the client call this after each element.
pub(super) fn check_room(reply: &ReplyWriter<'_>) -> Result<(), CommandError> {
    match reply.most() {
        most if reply.position() > most => Err(too_long(most)),
        _ => Ok(()),
    }
}

/// Converts an inclusive range of indexes, in which negative ones count from the end, to a
/// half-open range from the beginning.
pub(super) fn span(start: i64, end: i64, count: u64) -> std::ops::Range<u64> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(count)
        } else {
            index
        }
    };
    let start = from_end(start).max(0);
    let end = from_end(end).saturating_add(1).min(count);
    if start >= end {
        return 0..0;
    }
    start as u64..end as u64
}

/// The optional words after a command's positional arguments.
pub(super) struct OptionParser<'a> {
    args: Args<'a>,
    at: usize,
}

impl<'a> OptionParser<'a> {
    /// Starts at an index of the arguments.
    pub(super) fn new(args: Args<'a>, at: usize) -> OptionParser<'a> {
        OptionParser { args, at }
    }

    /// Returns the next word unchanged.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let word = self.args.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// Returns the number of remaining words.
    pub(super) fn left(&self) -> usize {
        self.args.len() - self.at.min(self.args.len())
    }

    /// Returns the value that must follow the last word.
    pub(super) fn value(&mut self) -> Result<&'a [u8], CommandError> {
        self.next().ok_or(CommandError::SYNTAX)
    }
}

/// Compares two words, ignoring case.
pub(super) fn is(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

/// Returns the error for an unknown command, as Redis words it.
pub(super) fn unknown(args: Args<'_>) -> String {
    const MOST: usize = 128;
    let shown =
        |bytes: &[u8], most: usize| String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned();
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        shown(args.at(0), MOST)
    );
    let mut left = MOST;
    for arg in args.from(1).iter() {
        if left == 0 {
            break;
        }
        let part = shown(arg, left);
        left = left.saturating_sub(part.len() + 3);
        text += &format!("'{part}' ");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_those_of_redis() {
        assert_eq!(span(0, -1, 5), 0..5);
        assert_eq!(span(-3, -2, 5), 2..4);
        assert_eq!(span(-9, 1, 5), 0..2);
        assert_eq!(span(3, 2, 5), 0..0);
        assert_eq!(span(0, 9, 0), 0..0);
        assert_eq!(span(i64::MIN, i64::MAX, 5), 0..5);
    }
}
