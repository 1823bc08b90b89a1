//! Parsing and validation of command arguments.

use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter, number};
use std::borrow::Cow;

/// Maximum length in bytes of a key or an element. It is below the store's limit because the server
/// adds a prefix.
pub(super) const MAX_NAME: usize = alluvium::MAX_KEY - 64;

/// Parses an integer. If the text is not an integer, returns the same error as Redis.
pub(super) fn integer(text: &[u8]) -> Result<i64, CommandError> {
    number::integer(text).ok_or(CommandError::NOT_INTEGER)
}

/// Parses a floating-point number. If the text is not a number, returns the same error as Redis.
pub(super) fn double(text: &[u8]) -> Result<f64, CommandError> {
    number::double(text).ok_or(CommandError::NOT_FLOAT)
}

/// Returns a key, field or member, or an error if it is too long.
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

/// Returns the error for a command with a wrong number of arguments.
pub(super) fn wrong_number(command: &str) -> CommandError {
    CommandError::Refused(Cow::Owned(format!(
        "ERR wrong number of arguments for '{command}' command"
    )))
}

/// Returns the error for a reply that exceeds `most` bytes, a client's output limit.
pub(super) fn too_long(most: usize) -> CommandError {
    CommandError::Refused(Cow::Owned(format!(
        "ERR the reply exceeds {most} bytes, the output limit of a client; request less at a time, with \
         SCAN, HSCAN, SSCAN, ZSCAN or ranges"
    )))
}

/// Returns an error if the reply written so far exceeds the client's output limit. Commands whose
/// reply size depends on a number sent by the client must call this after each element.
pub(super) fn check_room(reply: &ReplyWriter<'_>) -> Result<(), CommandError> {
    match reply.most() {
        most if reply.position() > most => Err(too_long(most)),
        _ => Ok(()),
    }
}

/// Converts an inclusive range of indexes to a half-open range of non-negative ones. Negative input
/// indexes count from the end of the `count` elements.
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

/// Reads the optional words after a command's positional arguments.
pub(super) struct OptionParser<'a> {
    args: Args<'a>,
    at: usize,
}

impl<'a> OptionParser<'a> {
    /// Creates a parser that begins with the argument at index `at`.
    pub(super) fn new(args: Args<'a>, at: usize) -> OptionParser<'a> {
        OptionParser { args, at }
    }

    /// Returns the next word unchanged, or `None` after the last one.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let word = self.args.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// Returns the number of words that have not been read yet.
    pub(super) fn left(&self) -> usize {
        self.args.len() - self.at.min(self.args.len())
    }

    /// Returns the next word, which is the value of the preceding option. Fails with a syntax error
    /// if it is missing.
    pub(super) fn value(&mut self) -> Result<&'a [u8], CommandError> {
        self.next().ok_or(CommandError::SYNTAX)
    }
}

/// Returns whether two words are equal, ignoring case.
pub(super) fn is(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

/// Returns the error for an unknown command, worded as in Redis.
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
