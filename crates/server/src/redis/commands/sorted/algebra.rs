//! Unions, intersections and differences of sorted sets. Inputs may also be plain sets, whose
//! members have the score 1.

use super::super::key_count_arguments;
use super::merge::{ScoreAggregate, SortedSetOperation, VisitControl, WeightedSets, visit};
use super::range::reply_scored;
use super::store::SortedSetBuilder;
use super::{CommandResult, ScoredMember};
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{OptionParser, integer, is, name, too_long};
use crate::store::model::{CollectionHeader, CollectionKind, TypedValue};
use crate::store::{CommandTransaction, WorkingMemory};
use std::cmp::Ordering;

/// Memory overhead of a result member in bytes: its entry in a list whose capacity doubles when it
/// grows, an allocation, and its framing and score in the reply.
const PER_MEMBER: usize = 2 * size_of::<ScoredMember>() + 16 + 48;

/// A command's parsed arguments: the input sets with their weights, and how to combine scores.
struct SetOperationRequest {
    inputs: WeightedSets,
    aggregate: ScoreAggregate,
    with_scores: bool,
}

/// Whether a command replies with its result or stores it in a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultDestination {
    Shows,
    Stores,
}

impl SetOperationRequest {
    /// Parses the arguments, beginning with the number of keys at index `at`. As in Redis, a key of
    /// the wrong type is reported before an invalid option.
    fn read(
        transaction: &mut CommandTransaction<'_>,
        args: Args<'_>,
        at: usize,
        sum: SortedSetOperation,
        what_for: ResultDestination,
        none: &'static str,
    ) -> Result<SetOperationRequest, CommandError> {
        // Redis reports different errors for an invalid number and for zero, so check the number
        // first.
        integer(args.at(at))?;
        let (keys, rest) = key_count_arguments::keys_at(args, at, none)?;
        let mut inputs = Vec::with_capacity(keys.len());
        for key in keys {
            inputs.push((input(transaction, key)?, 1.0));
        }
        let mut wish = SetOperationRequest {
            inputs,
            aggregate: ScoreAggregate::Sum,
            with_scores: false,
        };
        let mut options = OptionParser::new(args, rest);
        while let Some(word) = options.next() {
            let weighs = sum != SortedSetOperation::Difference;
            if weighs && is(word, "WEIGHTS") && options.left() >= wish.inputs.len() {
                for (_, weight) in &mut wish.inputs {
                    let text = options.value()?;
                    *weight = crate::redis::args::double(text)
                        .map_err(|_| CommandError::say("ERR weight value is not a float"))?;
                }
            } else if weighs && is(word, "AGGREGATE") && options.left() >= 1 {
                wish.aggregate = match options.value()? {
                    word if is(word, "SUM") => ScoreAggregate::Sum,
                    word if is(word, "MIN") => ScoreAggregate::Least,
                    word if is(word, "MAX") => ScoreAggregate::Most,
                    _ => return Err(CommandError::SYNTAX),
                };
            } else if what_for == ResultDestination::Shows && is(word, "WITHSCORES") {
                wish.with_scores = true;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(wish)
    }
}

/// Returns the set or sorted set stored under a key, or `None` if the key does not exist. Fails if
/// it has another type.
fn input(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
) -> Result<Option<CollectionHeader>, CommandError> {
    match transaction.entry(key)? {
        None => Ok(None),
        Some(TypedValue::Collection(collection))
            if matches!(collection.kind, CollectionKind::Set | CollectionKind::SortedSet) =>
        {
            Ok(Some(collection))
        }
        Some(_) => Err(CommandError::WRONG_TYPE),
    }
}

/// Replies with the result in score order. The result is computed in hash order, so all of it must
/// be in memory to be sorted. Its memory is charged to the clients' budget.
fn show(
    transaction: &mut CommandTransaction<'_>,
    wish: SetOperationRequest,
    sum: SortedSetOperation,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let mut working = WorkingMemory::new(transaction.store);
    let (mut made, mut bytes): (Vec<ScoredMember>, _) = (Vec::new(), reply.position());
    visit(transaction, wish.inputs, sum, wish.aggregate, |member, score| {
        bytes += member.len();
        if bytes > reply.most() {
            return Err(too_long(reply.most()));
        }
        // Each member is in memory twice: in this list and in the reply.
        working.add(2 * member.len() + PER_MEMBER)?;
        made.push((member.to_vec(), score));
        Ok(VisitControl::GoesOn)
    })?;
    // Equal scores include -0 and 0. No score is NaN.
    made.sort_by(|(one, score), (other, other_score)| {
        let by_score = score.partial_cmp(other_score).unwrap_or(Ordering::Equal);
        by_score.then(one.cmp(other))
    });
    reply_scored(reply, &made, wish.with_scores);
    Ok(())
}

/// Stores the result in a key.
fn keep(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    wish: SetOperationRequest,
    sum: SortedSetOperation,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let mut making = SortedSetBuilder::new(transaction)?;
    visit(transaction, wish.inputs, sum, wish.aggregate, |member, score| {
        making.add(member, score)?;
        Ok(VisitControl::GoesOn)
    })?;
    let count = making.finish(transaction, key)?;
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

macro_rules! sums {
    ($($show:ident, $store:ident, $sum:ident, $word:literal;)+) => {$(
        pub(crate) fn $show(
            transaction: &mut CommandTransaction<'_>,
            args: Args<'_>,
            reply: &mut ReplyWriter<'_>,
        ) -> CommandResult {
            let none = concat!("ERR at least 1 input key is needed for '", $word, "' command");
            let wish = SetOperationRequest::read(transaction, args, 1, SortedSetOperation::$sum, ResultDestination::Shows, none)?;
            show(transaction, wish, SortedSetOperation::$sum, reply)
        }

        pub(crate) fn $store(
            transaction: &mut CommandTransaction<'_>,
            args: Args<'_>,
            reply: &mut ReplyWriter<'_>,
        ) -> CommandResult {
            let none = concat!("ERR at least 1 input key is needed for '", $word, "store' command");
            let key = name(args.at(1))?;
            let wish = SetOperationRequest::read(transaction, args, 2, SortedSetOperation::$sum, ResultDestination::Stores, none)?;
            keep(transaction, key, wish, SortedSetOperation::$sum, reply)
        }
    )+};
}

sums! {
    zunion, zunion_store, Union, "zunion";
    zinter, zinter_store, Intersection, "zinter";
    zdiff, zdiff_store, Difference, "zdiff";
}

/// The commands ZINTERCARD and SINTERCARD, which count the members that all sets share, up to a
/// limit.
fn count_common(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    kinds: AcceptedKinds,
) -> CommandResult {
    let (none, too_many) = match kinds {
        AcceptedKinds::Sets => (
            CommandError::say("ERR numkeys should be greater than 0"),
            CommandError::say("ERR Number of keys can't be greater than number of args"),
        ),
        AcceptedKinds::SetsAndSorted => {
            integer(args.at(1))?;
            let none = "ERR at least 1 input key is needed for 'zintercard' command";
            (CommandError::say(none), CommandError::SYNTAX)
        }
    };
    let count = integer(args.at(1))
        .ok()
        .and_then(|count| usize::try_from(count).ok())
        .filter(|&count| count > 0)
        .ok_or(none)?;
    if count > args.len() - 2 {
        return Err(too_many);
    }
    // As in Redis, ZINTERCARD reports a key of the wrong type before an invalid option, and
    // SINTERCARD after it.
    let of_both = match kinds {
        AcceptedKinds::Sets => None,
        AcceptedKinds::SetsAndSorted => Some(sets_at(transaction, args, count, kinds)?),
    };
    let mut most = usize::MAX;
    let mut options = OptionParser::new(args, 2 + count);
    while let Some(word) = options.next() {
        if !is(word, "LIMIT") || options.left() == 0 {
            return Err(CommandError::SYNTAX);
        }
        let limit = integer(options.value()?).ok();
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        most = match limit.ok_or(CommandError::say("ERR LIMIT can't be negative"))? {
            0 => usize::MAX,
            limit => limit,
        };
    }
    let sets = match of_both {
        Some(sets) => sets,
        None => sets_at(transaction, args, count, kinds)?,
    };
    let mut found = 0;
    visit(
        transaction,
        sets,
        SortedSetOperation::Intersection,
        ScoreAggregate::Sum,
        |_, _| {
            found += 1;
            Ok(if found == most {
                VisitControl::Stops
            } else {
                VisitControl::GoesOn
            })
        },
    )?;
    reply.count(found);
    Ok(())
}

/// Returns the `count` sets whose keys follow the key count in the arguments.
fn sets_at(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    count: usize,
    kinds: AcceptedKinds,
) -> Result<WeightedSets, CommandError> {
    let mut sets = Vec::with_capacity(count);
    for index in 2..2 + count {
        let set = match kinds {
            AcceptedKinds::Sets => transaction.collection(args.at(index), CollectionKind::Set)?,
            AcceptedKinds::SetsAndSorted => input(transaction, args.at(index))?,
        };
        sets.push((set, 1.0));
    }
    Ok(sets)
}

/// The value types that a command accepts as inputs.
#[derive(Clone, Copy)]
enum AcceptedKinds {
    Sets,
    SetsAndSorted,
}

pub(crate) fn zintercard(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    count_common(transaction, args, reply, AcceptedKinds::SetsAndSorted)
}

pub(crate) fn sintercard(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    count_common(transaction, args, reply, AcceptedKinds::Sets)
}
