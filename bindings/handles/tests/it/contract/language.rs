//! The language of the cases: words and ranges.

use alluvium::text::split_words;
use alluvium_handles::{Result, WalkRange};
use std::ops::Bound;
use std::time::{Duration, SystemTime};

/// A word of a line, and whether it was quoted.
pub(crate) type Word = (Vec<u8>, bool);

/// Splits a line into words. A count after a quoted word repeats it: `"ab"*3`.
pub(crate) fn words(line: &str) -> Vec<Word> {
    let (mut all, mut rest) = (Vec::new(), line.trim_start());
    while !rest.is_empty() && !rest.starts_with('#') {
        let is_quoted = rest.starts_with('"');
        let mut is_escaped = false;
        let mut end = rest.char_indices().skip(1).find(|&(_, c)| match is_quoted {
            false => c == ' ',
            true => {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            }
        });
        let (at, _) = end.get_or_insert((rest.len(), ' '));
        let (word, behind) = rest.split_at(*at + usize::from(is_quoted));
        rest = behind;
        let mut bytes = match is_quoted {
            true => split_words(word.as_bytes()).unwrap().remove(0),
            false => word.as_bytes().to_vec(),
        };
        if let Some(count) = rest.strip_prefix('*').filter(|_| is_quoted) {
            let (count, behind) = count.split_at(count.find(' ').unwrap_or(count.len()));
            bytes = bytes.repeat(count.parse().unwrap());
            rest = behind;
        }
        all.push((bytes, is_quoted));
        rest = rest.trim_start();
    }
    all
}

pub(crate) fn time(word: Option<&Word>) -> Option<SystemTime> {
    let (text, _) = word?;
    let now = SystemTime::now();
    match &text[..] {
        b"soon" => Some(now + Duration::from_millis(40)),
        text => Some(
            SystemTime::UNIX_EPOCH
                + Duration::from_millis(std::str::from_utf8(text).unwrap().parse().unwrap()),
        ),
    }
}

pub(crate) fn optional(word: &Word) -> Option<&[u8]> {
    (word.1 || word.0 != b"none").then_some(&word.0[..])
}

/// Calls `body` with the range that words describe.
pub(crate) fn with_range<T>(words: &[Word], body: impl FnOnce(&WalkRange<'_>) -> Result<T>) -> Result<T> {
    let mut range = WalkRange::default();
    let prefix_end;
    let mut at = words.iter();
    while let Some((verb, _)) = at.next() {
        let mut bound = || &at.next().unwrap().0[..];
        match &verb[..] {
            b"keys" => range.omits_values = true,
            b"unordered" => range.is_unordered = true,
            b"from" => range.start = Bound::Included(bound()),
            b"after" => range.start = Bound::Excluded(bound()),
            b"to" => range.end = Bound::Excluded(bound()),
            b"through" => range.end = Bound::Included(bound()),
            b"prefix" => {
                let prefix = bound();
                prefix_end = WalkRange::end_of_prefix(prefix);
                range.start = Bound::Included(prefix);
                range.end = prefix_end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                break;
            }
            other => panic!("{} is no word of a range", other.escape_ascii()),
        }
    }
    let has = |verb: &[u8]| words.iter().any(|(word, _)| word == verb);
    (range.omits_values, range.is_unordered) = (has(b"keys"), has(b"unordered"));
    body(&range)
}

pub(crate) fn text(word: &Word) -> String {
    String::from_utf8_lossy(&word.0).into_owned()
}
