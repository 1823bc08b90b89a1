//! Moves of elements from list to list.

use super::{ListEnd, list, push_one, take};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{is, name};
use crate::store::model::CollectionKind;
use crate::store::{CommandTransaction, KeyKind};

/// Parses the end of a list.
pub(in crate::redis::commands) fn end(word: &[u8]) -> Result<ListEnd, CommandError> {
    if is(word, "LEFT") {
        Ok(ListEnd::Left)
    } else if is(word, "RIGHT") {
        Ok(ListEnd::Right)
    } else {
        Err(CommandError::SYNTAX)
    }
}

pub(in crate::redis::commands) fn move_one(
    transaction: &mut CommandTransaction<'_>,
    (from, to): (&[u8], &[u8]),
    (start, target): (ListEnd, ListEnd),
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let Some(mut source) = list(transaction, from)? else {
        reply.null();
        return Ok(());
    };
    let other = if from == to {
        None
    } else {
        list(transaction, name(to)?)?
    };
    let mut element = Vec::new();
    take(transaction, &mut source, 1, start, |taken| {
        element = taken.to_vec();
        Ok(())
    })?;
    let element = &element[..];
    transaction.set_event(start.pop_event());
    if from == to {
        push_one(transaction, &mut source, element, target);
        transaction.touch(from, KeyKind::Collection(CollectionKind::List));
        transaction.set_event(target.push_event());
        transaction.save(from, &source);
    } else {
        transaction.save(from, &source);
        transaction.set_event(target.push_event());
        let mut other = match other {
            Some(other) => other,
            None => transaction.new_collection(CollectionKind::List)?,
        };
        push_one(transaction, &mut other, element, target);
        transaction.save(to, &other);
    }
    reply.bulk(element);
    Ok(())
}

pub(crate) fn lmove(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let ends = (end(args.at(3))?, end(args.at(4))?);
    move_one(transaction, (args.at(1), args.at(2)), ends, reply)
}

pub(crate) fn rpoplpush(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    move_one(
        transaction,
        (args.at(1), args.at(2)),
        (ListEnd::Right, ListEnd::Left),
        reply,
    )
}
