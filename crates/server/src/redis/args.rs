//! What commands ask of their arguments.

use crate::error::Failure;
use crate::resp::{Args, Reply, number};
use std::borrow::Cow;

/// The longest key or element that the store takes; what stands before it in a key needs the rest.
pub(super) const MAX_NAME: usize = alluvium::MAX_KEY - 64;

/// Returns an integer.
pub(super) fn integer(text: &[u8]) -> Result<i64, Failure> {
    number::integer(text).ok_or(Failure::NOT_INTEGER)
}

/// Returns a floating-point number.
pub(super) fn double(text: &[u8]) -> Result<f64, Failure> {
    number::double(text).ok_or(Failure::NOT_FLOAT)
}

/// Returns a key, field or member that the store can take.
pub(super) fn name(text: &[u8]) -> Result<&[u8], Failure> {
    if text.len() > MAX_NAME {
        let why = format!(
            "ERR a key or member of {} bytes is too long: at most {MAX_NAME} are possible",
            text.len()
        );
        return Err(Failure::Refused(Cow::Owned(why)));
    }
    Ok(text)
}

/// Returns the error of a wrong number of arguments.
pub(super) fn wrong_number(command: &str) -> Failure {
    Failure::Refused(Cow::Owned(format!(
        "ERR wrong number of arguments for '{command}' command"
    )))
}

/// Returns the error of a reply that is longer than a client's output may be.
pub(super) fn too_long(most: usize) -> Failure {
    Failure::Refused(Cow::Owned(format!(
        "ERR the reply exceeds {most} bytes, the limit of a client's output: ask for less at a time, as SCAN, HSCAN, SSCAN, ZSCAN and \
         ranges do"
    )))
}

/// Fails once a reply is longer than a connection may have waiting. Commands whose replies a
/// client's number makes long ask after each element.
pub(super) fn check_room(reply: &Reply<'_>) -> Result<(), Failure> {
    match reply.most() {
        most if reply.position() > most => Err(too_long(most)),
        _ => Ok(()),
    }
}

/// Elements of an order from one index to another, both included, negative ones from the end; as a
/// range of indexes from the beginning.
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

/// Words that follow a command's positional arguments, taken from the front.
pub(super) struct Options<'a> {
    args: Args<'a>,
    at: usize,
}

impl<'a> Options<'a> {
    /// Those from an index on.
    pub(super) fn new(args: Args<'a>, at: usize) -> Options<'a> {
        Options { args, at }
    }

    /// Returns the next word, as it was sent.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let word = self.args.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// Returns how many are left.
    pub(super) fn left(&self) -> usize {
        self.args.len() - self.at.min(self.args.len())
    }

    /// Returns what must follow the last word.
    pub(super) fn value(&mut self) -> Result<&'a [u8], Failure> {
        self.next().ok_or(Failure::SYNTAX)
    }
}

/// Returns whether a word is another, in capitals or not.
pub(super) fn is(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

/// The error of a command that does not exist, as Redis words it.
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
