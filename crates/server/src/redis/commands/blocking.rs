//! Commands that pop elements, and wait for them where there are none. Within MULTI, BEGIN and
//! scripts they never wait.

use super::key_count_arguments::{NO_KEYS, keys_at, wish};
use super::{lists, sorted};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, number};
use crate::redis::args::is;
use crate::store::model::CollectionKind;
use crate::store::{CommandTransaction, WaitLength, WalkDirection};
use lists::ListEnd;
use std::time::Duration;

/// Parses a timeout in seconds. 0 means that the command waits forever.
fn timeout(text: &[u8]) -> Result<WaitLength, CommandError> {
    const MOST_SECONDS: f64 = (i64::MAX / 1000) as f64;
    let seconds = number::double(text).filter(|seconds| !seconds.is_nan());
    match seconds {
        None => Err(CommandError::say("ERR timeout is not a float or out of range")),
        Some(seconds) if seconds < 0.0 => Err(CommandError::say("ERR timeout is negative")),
        Some(0.0) => Ok(WaitLength::Forever),
        Some(seconds) if seconds >= MOST_SECONDS => Err(CommandError::say("ERR timeout is out of range")),
        Some(seconds) => {
            // As in Redis, the timeout is rounded up to milliseconds.
            let milliseconds = (seconds * 1000.0).ceil() as u64;
            Ok(WaitLength::AtMost(Duration::from_millis(milliseconds)))
        }
    }
}

/// Replies for a command that has found nothing: it waits, or returns null.
fn wait(transaction: &mut CommandTransaction<'_>, length: WaitLength, reply: &mut ReplyWriter<'_>) {
    transaction.begin_wait(length);
    reply.null_array();
}

fn pop_list(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    end: ListEnd,
) -> CommandResult {
    let length = timeout(args.at(args.len() - 1))?;
    for key in args.from(1).iter().take(args.len() - 2) {
        if lists::exists(transaction, key)?
            && !transaction.yields(CollectionKind::List, key)
            && lists::pop_one_from(transaction, key, end, reply)?
        {
            return Ok(());
        }
    }
    wait(transaction, length, reply);
    Ok(())
}

pub(crate) fn blpop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    pop_list(transaction, args, reply, ListEnd::Left)
}

pub(crate) fn brpop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    pop_list(transaction, args, reply, ListEnd::Right)
}

fn move_one(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    ends: (ListEnd, ListEnd),
    length: WaitLength,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let from = args.at(1);
    if lists::exists(transaction, from)? && !transaction.yields(CollectionKind::List, from) {
        return lists::move_one(transaction, (from, args.at(2)), ends, reply);
    }
    transaction.begin_wait(length);
    reply.null();
    Ok(())
}

pub(crate) fn blmove(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let ends = (lists::end(args.at(3))?, lists::end(args.at(4))?);
    let length = timeout(args.at(5))?;
    move_one(transaction, args, ends, length, reply)
}

pub(crate) fn brpoplpush(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let length = timeout(args.at(3))?;
    move_one(transaction, args, (ListEnd::Right, ListEnd::Left), length, reply)
}

pub(crate) fn blmpop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let length = timeout(args.at(1))?;
    let (keys, at) = keys_at(args, 2, NO_KEYS)?;
    let (word, count) = wish(args, at)?;
    let end = lists::end(word)?;
    for key in keys {
        if lists::exists(transaction, key)?
            && !transaction.yields(CollectionKind::List, key)
            && lists::pop_from(transaction, key, count, end, reply)?
        {
            return Ok(());
        }
    }
    wait(transaction, length, reply);
    Ok(())
}

fn pop_sorted(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    direction: WalkDirection,
) -> CommandResult {
    let length = timeout(args.at(args.len() - 1))?;
    for key in args.from(1).iter().take(args.len() - 2) {
        if !sorted::exists(transaction, key)? || transaction.yields(CollectionKind::SortedSet, key) {
            continue;
        }
        let (taken, _working) = sorted::pop_some(transaction, key, 1, direction, reply)?;
        if let Some((member, score)) = taken.first() {
            reply.array(3);
            reply.bulk(key);
            reply.bulk(member);
            reply.double(*score);
            return Ok(());
        }
    }
    wait(transaction, length, reply);
    Ok(())
}

pub(crate) fn bzpopmin(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    pop_sorted(transaction, args, reply, WalkDirection::Forward)
}

pub(crate) fn bzpopmax(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    pop_sorted(transaction, args, reply, WalkDirection::Backward)
}

pub(crate) fn bzmpop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let length = timeout(args.at(1))?;
    let (keys, at) = keys_at(args, 2, NO_KEYS)?;
    let (word, count) = wish(args, at)?;
    let direction = match word {
        word if is(word, "MIN") => WalkDirection::Forward,
        word if is(word, "MAX") => WalkDirection::Backward,
        _ => return Err(CommandError::SYNTAX),
    };
    for key in keys {
        if sorted::exists(transaction, key)?
            && !transaction.yields(CollectionKind::SortedSet, key)
            && super::key_count_arguments::pop_members(transaction, key, count, direction, reply)?
        {
            return Ok(());
        }
    }
    wait(transaction, length, reply);
    Ok(())
}
