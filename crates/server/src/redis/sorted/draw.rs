//! ZRANDMEMBER.

use super::super::args::{check_count, check_room, integer, is};
use super::{Done, Scored, sorted_set};
use crate::error::Failure;
use crate::model::{Collection, format};
use crate::resp::{Args, Reply, Version};
use crate::store::{Direction, Transaction};

/// Sets up to this many members are read whole when some are drawn.
const DRAWN_FROM: u64 = 1024;

/// Some members of a set, each with the same chance.
struct Draw {
    /// All members of a small set.
    all: Option<Vec<Scored>>,
}

impl Draw {
    fn new(transaction: &Transaction<'_>, set: &Collection) -> Result<Draw, Failure> {
        let all = match set.count {
            0..=DRAWN_FROM => Some(take(transaction, set, 0, usize::MAX)?),
            _ => None,
        };
        Ok(Draw { all })
    }

    /// Any member: of a large set the next behind a place that is drawn in the order of hashes.
    fn one(&self, transaction: &Transaction<'_>, set: &Collection) -> Result<Option<Scored>, Failure> {
        if let Some(all) = &self.all {
            return Ok(all.get(fastrand::usize(..all.len().max(1))).cloned());
        }
        let found = take(transaction, set, fastrand::u64(..), 1)?.pop();
        match found {
            Some(found) => Ok(Some(found)),
            None => Ok(take(transaction, set, 0, 1)?.pop()),
        }
    }
}

/// Members in the order of their hashes, from a place on.
fn take(
    transaction: &Transaction<'_>,
    set: &Collection,
    from: u64,
    most: usize,
) -> Result<Vec<Scored>, Failure> {
    let start = format::sorted_place_key(transaction.database, set.number, from);
    let (end, _) = format::scores(transaction.database, set.number);
    let mut found = Vec::new();
    let mut scan = transaction.scan(start, end, Direction::Forward);
    while found.len() < most
        && let Some((key, value)) = scan.next()?
    {
        let member = format::sorted_member_of(&key).1.to_vec();
        found.push((member, format::decode_score(&value)?));
    }
    Ok(found)
}

/// So many different members, by one walk that keeps no more than these.
fn different(transaction: &Transaction<'_>, set: &Collection, most: usize) -> Result<Vec<Scored>, Failure> {
    let start = format::sorted_place_key(transaction.database, set.number, 0);
    let (end, _) = format::scores(transaction.database, set.number);
    let (mut kept, mut seen) = (Vec::new(), 0);
    let mut scan = transaction.scan(start, end, Direction::Forward);
    while let Some((key, value)) = scan.next()? {
        seen += 1;
        let at = fastrand::usize(..seen);
        if kept.len() >= most && at >= most {
            continue;
        }
        let scored = (
            format::sorted_member_of(&key).1.to_vec(),
            format::decode_score(&value)?,
        );
        if kept.len() < most {
            kept.push(scored);
        } else {
            kept[at] = scored;
        }
    }
    Ok(kept)
}

pub(in super::super) fn zrandmember(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let count = args.get(2).map(integer).transpose()?;
    let with_scores = match args.len() {
        2 | 3 => false,
        4 if is(args.at(3), "WITHSCORES") => true,
        _ => return Err(Failure::SYNTAX),
    };
    // As in Redis: one number less can be negated, and with scores the reply has twice as many.
    let least = if with_scores { -(i64::MAX / 2) } else { -i64::MAX };
    if count.is_some_and(|count| count < least || (with_scores && count > i64::MAX / 2)) {
        return Err(Failure::OUT_OF_RANGE);
    }
    let set = sorted_set(transaction, args.at(1))?;
    let (Some(set), Some(count)) = (set, count) else {
        return match (set, count) {
            (Some(set), None) => {
                let one = Draw::new(transaction, &set)?.one(transaction, &set)?;
                reply.bulk_or_null(one.as_ref().map(|(member, _)| &member[..]));
                Ok(())
            }
            (None, None) => {
                reply.null();
                Ok(())
            }
            _ => {
                reply.array(0);
                Ok(())
            }
        };
    };
    let nests = with_scores && reply.version() == Version::Three;
    let width = if with_scores && !nests { 2 } else { 1 };
    let show = |reply: &mut Reply<'_>, (member, score): &Scored| {
        if nests {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(*score);
        }
    };
    if count >= 0 {
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let found = different(transaction, &set, most)?;
        reply.array(width * found.len());
        found.iter().for_each(|scored| show(reply, scored));
        return Ok(());
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    check_count(reply, wanted)?;
    let draw = Draw::new(transaction, &set)?;
    reply.array(width * wanted);
    for _ in 0..wanted {
        match draw.one(transaction, &set)? {
            Some(scored) => show(reply, &scored),
            None => return Err(Failure::OUT_OF_RANGE),
        }
        check_room(reply)?;
    }
    Ok(())
}
