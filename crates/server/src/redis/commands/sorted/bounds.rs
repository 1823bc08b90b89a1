//! The bounds of score and member ranges.

use crate::error::CommandError;
use crate::protocol::resp::number;
use crate::store::CommandTransaction;
use crate::store::model::CollectionHeader;
use crate::store::model::format::{self, InnerKey};

/// Returns the range of score keys between two score bounds.
pub(super) fn scores(
    transaction: &CommandTransaction<'_>,
    set: &CollectionHeader,
    (low, high): (ScoreEnd, ScoreEnd),
) -> (InnerKey, InnerKey) {
    let before = |score| format::score_key(transaction.database, set.number, score, b"");
    let behind = |score| format::behind(&before(score));
    let start = if low.is_open {
        behind(low.score)
    } else {
        before(low.score)
    };
    let end = if high.is_open {
        before(high.score)
    } else {
        behind(high.score)
    };
    (start, end)
}

/// A bound of a score range, which may be exclusive.
#[derive(Clone, Copy)]
pub(super) struct ScoreEnd {
    score: f64,
    is_open: bool,
}

/// Parses a bound of a score range: a number, or `(` and a number for an exclusive bound.
pub(super) fn score_end(text: &[u8]) -> Result<ScoreEnd, CommandError> {
    let (digits, is_open) = match text.split_first() {
        Some((b'(', rest)) => (rest, true),
        _ => (text, false),
    };
    let score = number::bound(digits).ok_or(CommandError::say("ERR min or max is not a float"))?;
    Ok(ScoreEnd { score, is_open })
}

/// A bound of a member range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberEnd<'a> {
    Lowest,
    Highest,
    At(&'a [u8]),
    Beside(&'a [u8]),
}

/// Parses a bound of a member range: `-`, `+`, `[member` or `(member`.
pub(super) fn member_end(text: &[u8]) -> Result<MemberEnd<'_>, CommandError> {
    match text.split_first() {
        Some((b'-', [])) => Ok(MemberEnd::Lowest),
        Some((b'+', [])) => Ok(MemberEnd::Highest),
        Some((b'[', member)) => Ok(MemberEnd::At(member)),
        Some((b'(', member)) => Ok(MemberEnd::Beside(member)),
        _ => Err(CommandError::say("ERR min or max not valid string range item")),
    }
}

impl MemberEnd<'_> {
    /// Returns whether a member satisfies this bound if it is the lower bound of a range.
    pub(super) fn is_below(self, member: &[u8]) -> bool {
        match self {
            MemberEnd::Lowest => true,
            MemberEnd::Highest => false,
            MemberEnd::At(end) => member >= end,
            MemberEnd::Beside(end) => member > end,
        }
    }

    /// Returns whether a member satisfies this bound if it is the upper bound of a range.
    pub(super) fn is_above(self, member: &[u8]) -> bool {
        match self {
            MemberEnd::Lowest => false,
            MemberEnd::Highest => true,
            MemberEnd::At(end) => member <= end,
            MemberEnd::Beside(end) => member < end,
        }
    }
}
