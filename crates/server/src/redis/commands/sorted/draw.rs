//! The command ZRANDMEMBER.

use super::super::draw;
use super::{CommandResult, sorted_set};
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::redis::args::{check_room, integer, is};
use crate::store::model::format;
use crate::store::{CommandTransaction, OwnedPair};

pub(crate) fn zrandmember(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let count = args.get(2).map(integer).transpose()?;
    let with_scores = match args.len() {
        2 | 3 => false,
        4 if is(args.at(3), "WITHSCORES") => true,
        _ => return Err(CommandError::SYNTAX),
    };
    // As in Redis, reject a count that cannot be negated or, if the reply contains scores, doubled.
    let least = if with_scores { -(i64::MAX / 2) } else { -i64::MAX };
    if count.is_some_and(|count| count < least || (with_scores && count > i64::MAX / 2)) {
        return Err(CommandError::OUT_OF_RANGE);
    }
    let set = sorted_set(transaction, args.at(1))?;
    let (set, count) = match (set, count) {
        (Some(set), Some(count)) => (set, count),
        (None, None) => {
            reply.null();
            return Ok(());
        }
        (None, Some(_)) => {
            reply.array(0);
            return Ok(());
        }
        (Some(set), None) => {
            return draw::different(transaction, &set, 1, |(key, _)| {
                reply.bulk(format::sorted_member_of(key).1);
                Ok(())
            });
        }
    };
    let nests = with_scores && reply.version() == RespVersion::Three;
    let replies = if with_scores && !nests { 2 } else { 1 };
    let head = |count: u64| usize::try_from(count.saturating_mul(replies)).unwrap_or(usize::MAX);
    let write = |reply: &mut ReplyWriter<'_>, (key, value): &OwnedPair| {
        if nests {
            reply.array(2);
        }
        reply.bulk(format::sorted_member_of(key).1);
        if with_scores {
            reply.double(format::decode_score(value)?);
        }
        check_room(reply)
    };
    let wanted = count.unsigned_abs();
    if count < 0 {
        draw::check_count(reply, wanted)?;
        reply.array(head(wanted));
        return draw::with_repetitions(transaction, &set, wanted, |pair| write(reply, pair));
    }
    // The reply states the number of selected members first, but that number is known only after
    // the selection.
    let mut body = Vec::new();
    let mut drawn = ReplyWriter::new(&mut body, reply.version()).at_most(reply.most());
    let mut many = 0;
    draw::different(transaction, &set, wanted, |pair| {
        many += 1;
        write(&mut drawn, pair)
    })?;
    reply.array(head(many));
    reply.raw(&body);
    Ok(())
}
