//! Commands that read a sorted set or individual members: scores, ranks and scans.

use super::super::scan_commands::{self, ScanOptions, scanned_score};
use super::{CommandResult, score, sorted_set};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::store::model::format;
use crate::store::{CommandTransaction, WalkDirection};

pub(crate) fn zcard(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let count = sorted_set(transaction, args.at(1))?.map_or(0, |set| set.count);
    reply.integer(count as i64);
    Ok(())
}

fn reply_score(reply: &mut ReplyWriter<'_>, score: Option<f64>) {
    match score {
        None => reply.null(),
        Some(score) => reply.double(score),
    }
}

pub(crate) fn zscore(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let score = match sorted_set(transaction, args.at(1))? {
        None => None,
        Some(set) => score(transaction, &set, args.at(2))?,
    };
    reply_score(reply, score);
    Ok(())
}

pub(crate) fn zmscore(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let set = sorted_set(transaction, args.at(1))?;
    reply.array(args.len() - 2);
    for member in args.from(2).iter() {
        let found = match &set {
            None => None,
            Some(set) => score(transaction, set, member)?,
        };
        reply_score(reply, found);
    }
    Ok(())
}

/// Replies with a member's rank, which is the number of members between an end of the set and this
/// member.
fn rank(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    direction: WalkDirection,
) -> CommandResult {
    let Some(mut set) = sorted_set(transaction, args.at(1))? else {
        reply.null();
        return Ok(());
    };
    let member = args.at(2);
    let Some(score) = score(transaction, &set, member)? else {
        reply.null();
        return Ok(());
    };
    transaction.ensure_counted(args.at(1), &mut set)?;
    let place = format::score_key(transaction.database, set.number, score, member);
    let before = transaction.rank(&set, &place)? as i64;
    reply.integer(match direction {
        WalkDirection::Forward => before,
        WalkDirection::Backward => set.count as i64 - 1 - before,
    });
    Ok(())
}

pub(crate) fn zrank(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    rank(transaction, args, reply, WalkDirection::Forward)
}

pub(crate) fn zrev_rank(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    rank(transaction, args, reply, WalkDirection::Backward)
}

pub(crate) fn zscan(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let cursor = scan_commands::cursor(args.at(2))?;
    // As in Redis, the options are parsed only if the key exists.
    let Some(set) = sorted_set(transaction, args.at(1))? else {
        scan_commands::begin(reply, 0, 0);
        return Ok(());
    };
    let wish = ScanOptions::new(args, 3)?;
    let start = format::sorted_place_key(transaction.database, set.number, cursor);
    let end = format::sorted_members_end(transaction.database, set.number);
    let (next, found) =
        scan_commands::some_elements(transaction, (start, end), wish.count, format::sorted_member_of)?;
    let found: Vec<_> = found
        .into_iter()
        .filter(|(member, _)| wish.fits(member))
        .collect();
    scan_commands::begin(reply, next, 2 * found.len());
    for (member, value) in &found {
        reply.bulk(member);
        reply.bulk(&scanned_score(format::decode_score(value)?));
    }
    Ok(())
}
