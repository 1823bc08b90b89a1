//! ZADD and other commands that write individual members.

use super::super::sets::positive;
use super::range::reply_scored;
use super::{CommandResult, ScoredMember, put, remove, save, score, sorted_set};
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::redis::args::{double, is, name, wrong_number};
use crate::store::model::CollectionKind;
use crate::store::{CommandTransaction, KeyEvent, WalkDirection, WorkingMemory};

const NOT_A_NUMBER: CommandError = CommandError::say("ERR resulting score is not a number (NaN)");

#[derive(Default)]
struct ZaddOptions {
    if_absent: bool,
    if_present: bool,
    if_greater: bool,
    if_less: bool,
    counts_changes: bool,
    adds: bool,
}

/// Parses ZADD's options. Returns them with the index of the first score.
fn parse_zadd_options(args: Args<'_>) -> Result<(ZaddOptions, usize), CommandError> {
    let mut how = ZaddOptions::default();
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let flag = if is(word, "NX") {
            &mut how.if_absent
        } else if is(word, "XX") {
            &mut how.if_present
        } else if is(word, "GT") {
            &mut how.if_greater
        } else if is(word, "LT") {
            &mut how.if_less
        } else if is(word, "CH") {
            &mut how.counts_changes
        } else if is(word, "INCR") {
            &mut how.adds
        } else {
            break;
        };
        *flag = true;
        at += 1;
    }
    let left = args.len() - at;
    if left == 0 || !left.is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    if how.if_absent && how.if_present {
        return Err(CommandError::say(
            "ERR XX and NX options at the same time are not compatible",
        ));
    }
    let compares = how.if_greater || how.if_less;
    if (how.if_greater && how.if_less) || (compares && how.if_absent) {
        return Err(CommandError::say(
            "ERR GT, LT, and/or NX options at the same time are not compatible",
        ));
    }
    if how.adds && left > 2 {
        return Err(CommandError::say(
            "ERR INCR option supports a single increment-element pair",
        ));
    }
    Ok((how, at))
}

impl ZaddOptions {
    /// Returns a member's new score, or `None` if the options forbid changing it. `old` is the
    /// member's current score, if it exists.
    fn new_score(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, CommandError> {
        let Some(old) = old else {
            return Ok((!self.if_present).then_some(given));
        };
        if self.if_absent {
            return Ok(None);
        }
        let new = if self.adds { old + given } else { given };
        if new.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        let is_refused = (self.if_greater && new <= old) || (self.if_less && new >= old);
        Ok((!is_refused).then_some(new))
    }
}

pub(crate) fn zadd(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (how, at) = parse_zadd_options(args)?;
    let pairs = (at..args.len())
        .step_by(2)
        .map(|index| Ok((double(args.at(index))?, name(args.at(index + 1))?)))
        .collect::<Result<Vec<_>, CommandError>>()?;
    add(transaction, name(args.at(1))?, &how, &pairs, reply)
}

pub(crate) fn zincr_by(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let how = ZaddOptions {
        adds: true,
        ..ZaddOptions::default()
    };
    let pair = (double(args.at(2))?, name(args.at(3))?);
    add(transaction, name(args.at(1))?, &how, &[pair], reply)
}

fn add(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    how: &ZaddOptions,
    pairs: &[(f64, &[u8])],
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let mut set = match sorted_set(transaction, key)? {
        Some(set) => set,
        None if how.if_present => {
            if how.adds {
                reply.null();
            } else {
                reply.integer(0);
            }
            return Ok(());
        }
        None => transaction.new_collection(CollectionKind::SortedSet)?,
    };
    let (mut added, mut changed) = (0, 0);
    let mut last = None;
    for &(given, member) in pairs {
        let old = score(transaction, &set, member)?;
        last = how.new_score(old, given)?;
        if let Some(new) = last
            && old != Some(new)
        {
            put(transaction, &mut set, member, old, new)?;
            added += i64::from(old.is_none());
            changed += 1;
        }
    }
    if changed > 0 {
        save(transaction, key, &mut set)?;
    }
    match (how.adds, last) {
        (true, Some(score)) => reply.double(score),
        (true, None) => reply.null(),
        (false, _) => reply.integer(if how.counts_changes { changed } else { added }),
    }
    Ok(())
}

pub(crate) fn zrem(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let Some(mut set) = sorted_set(transaction, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let before = set.count;
    for member in args.from(2).iter() {
        if let Some(score) = score(transaction, &set, member)? {
            remove(transaction, &mut set, member, score)?;
        }
    }
    if set.count != before {
        save(transaction, args.at(1), &mut set)?;
    }
    reply.integer((before - set.count) as i64);
    Ok(())
}

/// Removes up to `count` members from an end of a sorted set, and charges their memory. Returns no
/// members if the set does not exist.
pub(crate) fn pop_some<'s>(
    transaction: &mut CommandTransaction<'s>,
    key: &[u8],
    count: u64,
    direction: WalkDirection,
    reply: &ReplyWriter<'_>,
) -> Result<(Vec<ScoredMember>, WorkingMemory<'s>), CommandError> {
    let Some(mut set) = sorted_set(transaction, key)? else {
        return Ok((Vec::new(), WorkingMemory::new(transaction.store)));
    };
    let (taken, working) = super::range::first(transaction, &set, count, direction, reply)?;
    transaction.set_event(match direction {
        WalkDirection::Forward => KeyEvent::ZPOPMIN,
        WalkDirection::Backward => KeyEvent::ZPOPMAX,
    });
    for (member, score) in &taken {
        remove(transaction, &mut set, member, *score)?;
    }
    if !taken.is_empty() {
        save(transaction, key, &mut set)?;
    }
    Ok((taken, working))
}

fn pop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    direction: WalkDirection,
    command: &str,
) -> CommandResult {
    if args.len() > 3 {
        return Err(wrong_number(command));
    }
    let count = args.get(2).map(positive).transpose()?;
    let (taken, _working) = pop_some(transaction, args.at(1), count.unwrap_or(1), direction, reply)?;
    if taken.is_empty() {
        reply.array(0);
        return Ok(());
    }
    // In RESP3, a command without a count replies with a flat array.
    if count.is_none() && reply.version() == RespVersion::Three {
        reply.array(2 * taken.len());
        for (member, score) in &taken {
            reply.bulk(member);
            reply.double(*score);
        }
    } else {
        reply_scored(reply, &taken, true);
    }
    Ok(())
}

pub(crate) fn zpopmin(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    pop(transaction, args, reply, WalkDirection::Forward, "zpopmin")
}

pub(crate) fn zpopmax(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    pop(transaction, args, reply, WalkDirection::Backward, "zpopmax")
}
