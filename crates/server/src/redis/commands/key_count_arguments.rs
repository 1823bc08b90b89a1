//! Parses arguments in which a count precedes the keys, as in `ZUNION 2 a b`, and pops elements
//! from the first non-empty one of several keys.

use super::{lists, sorted};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{integer, is};
use crate::store::{CommandTransaction, WalkDirection};
use std::borrow::Cow;

/// Parses a key count at index `at` and the keys after it. Returns the keys, and the index of the
/// argument after them.
pub(super) fn keys_at<'a>(
    args: Args<'a>,
    at: usize,
    none: &'static str,
) -> Result<(Vec<&'a [u8]>, usize), CommandError> {
    let count = integer(args.at(at)).ok();
    let count = match count.map(usize::try_from) {
        Some(Ok(count)) if count > 0 => count,
        _ => return Err(CommandError::Refused(Cow::Borrowed(none))),
    };
    let first = at + 1;
    if count > args.len().saturating_sub(first) {
        return Err(CommandError::SYNTAX);
    }
    let keys = (first..first + count).map(|index| args.at(index)).collect();
    Ok((keys, first + count))
}

pub(super) const NO_KEYS: &str = "ERR numkeys should be greater than 0";

/// Parses the arguments after the keys: a word, optionally followed by the number of elements to
/// pop.
pub(super) fn wish<'a>(args: Args<'a>, at: usize) -> Result<(&'a [u8], u64), CommandError> {
    let word = args.get(at).ok_or(CommandError::SYNTAX)?;
    let count = match args.len() - at {
        1 => 1,
        3 if is(args.at(at + 1), "COUNT") => integer(args.at(at + 2))
            .ok()
            .and_then(|count| u64::try_from(count).ok())
            .filter(|&count| count > 0)
            .ok_or(CommandError::say("ERR count should be greater than 0"))?,
        _ => return Err(CommandError::SYNTAX),
    };
    Ok((word, count))
}

pub(crate) fn lmpop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (keys, at) = keys_at(args, 1, NO_KEYS)?;
    let (word, count) = wish(args, at)?;
    let end = match word {
        word if is(word, "LEFT") => lists::ListEnd::Left,
        word if is(word, "RIGHT") => lists::ListEnd::Right,
        _ => return Err(CommandError::SYNTAX),
    };
    for key in keys {
        if lists::pop_from(transaction, key, count, end, reply)? {
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}

pub(crate) fn zmpop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (keys, at) = keys_at(args, 1, NO_KEYS)?;
    let (word, count) = wish(args, at)?;
    let direction = match word {
        word if is(word, "MIN") => WalkDirection::Forward,
        word if is(word, "MAX") => WalkDirection::Backward,
        _ => return Err(CommandError::SYNTAX),
    };
    for key in keys {
        if pop_members(transaction, key, count, direction, reply)? {
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}

/// Removes up to `count` members from an end of a sorted set, and replies with the key, the members
/// and their scores. Returns false without replying if the set does not exist.
pub(super) fn pop_members(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    count: u64,
    direction: WalkDirection,
    reply: &mut ReplyWriter<'_>,
) -> Result<bool, CommandError> {
    let (taken, _working) = sorted::pop_some(transaction, key, count, direction, reply)?;
    if taken.is_empty() {
        return Ok(false);
    }
    reply.array(2);
    reply.bulk(key);
    reply.array(taken.len());
    for (member, score) in &taken {
        reply.array(2);
        reply.bulk(member);
        reply.double(*score);
    }
    Ok(true)
}
