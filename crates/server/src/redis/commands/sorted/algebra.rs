//! Unions, intersections and differences of sorted sets. Plain sets count as sorted sets with all
//! scores 1.

use super::super::numbered;
use super::merge::{Aggregate, Inputs, Next, Sum, visit};
use super::range::reply_scored;
use super::store::Making;
use super::{Done, Scored};
use crate::error::Failure;
use crate::protocol::resp::{Args, Reply};
use crate::redis::args::{Options, integer, is, name, too_long};
use crate::store::model::{Collection, Entry, Kind};
use crate::store::{Transaction, Working};
use std::cmp::Ordering;

/// Memory of a collected member besides its bytes: its entry in a list that doubles as it grows, an
/// allocation, and its frame and score in the reply.
const PER_MEMBER: usize = 2 * size_of::<Scored>() + 16 + 48;

/// The arguments of a command: sets with weights, and the aggregation of scores.
struct Wish {
    inputs: Inputs,
    aggregate: Aggregate,
    with_scores: bool,
}

/// Whether a command replies with its result or stores it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Shows,
    Stores,
}

impl Wish {
    /// Parses the arguments from the number of keys at `at` on. As in Redis, a key of the wrong
    /// type is reported before an invalid option.
    fn read(
        transaction: &mut Transaction<'_>,
        args: Args<'_>,
        at: usize,
        sum: Sum,
        what_for: Use,
        none: &'static str,
    ) -> Result<Wish, Failure> {
        // Redis reports different errors for an invalid number and for zero.
        integer(args.at(at))?;
        let (keys, rest) = numbered::keys_at(args, at, none)?;
        let mut inputs = Vec::with_capacity(keys.len());
        for key in keys {
            inputs.push((input(transaction, key)?, 1.0));
        }
        let mut wish = Wish {
            inputs,
            aggregate: Aggregate::Sum,
            with_scores: false,
        };
        let mut options = Options::new(args, rest);
        while let Some(word) = options.next() {
            let weighs = sum != Sum::Difference;
            if weighs && is(word, "WEIGHTS") && options.left() >= wish.inputs.len() {
                for (_, weight) in &mut wish.inputs {
                    let text = options.value()?;
                    *weight = crate::redis::args::double(text)
                        .map_err(|_| Failure::say("ERR weight value is not a float"))?;
                }
            } else if weighs && is(word, "AGGREGATE") && options.left() >= 1 {
                wish.aggregate = match options.value()? {
                    word if is(word, "SUM") => Aggregate::Sum,
                    word if is(word, "MIN") => Aggregate::Least,
                    word if is(word, "MAX") => Aggregate::Most,
                    _ => return Err(Failure::SYNTAX),
                };
            } else if what_for == Use::Shows && is(word, "WITHSCORES") {
                wish.with_scores = true;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(wish)
    }
}

/// Returns a set or sorted set.
fn input(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Collection>, Failure> {
    match transaction.entry(key)? {
        None => Ok(None),
        Some(Entry::Collection(collection)) if matches!(collection.kind, Kind::Set | Kind::SortedSet) => {
            Ok(Some(collection))
        }
        Some(_) => Err(Failure::WRONG_TYPE),
    }
}

/// Replies with the result in score order. It is computed in hash order, so all of it is held in
/// memory, charged to the clients' memory.
fn show(transaction: &mut Transaction<'_>, wish: Wish, sum: Sum, reply: &mut Reply<'_>) -> Done {
    let mut working = Working::new(transaction.store);
    let (mut made, mut bytes): (Vec<Scored>, _) = (Vec::new(), reply.position());
    visit(transaction, wish.inputs, sum, wish.aggregate, |member, score| {
        bytes += member.len();
        if bytes > reply.most() {
            return Err(too_long(reply.most()));
        }
        // One copy here, one in the reply.
        working.add(2 * member.len() + PER_MEMBER)?;
        made.push((member.to_vec(), score));
        Ok(Next::GoesOn)
    })?;
    // -0 and 0 are equal, and no score is NaN.
    made.sort_by(|(one, score), (other, other_score)| {
        let by_score = score.partial_cmp(other_score).unwrap_or(Ordering::Equal);
        by_score.then(one.cmp(other))
    });
    reply_scored(reply, &made, wish.with_scores);
    Ok(())
}

/// Stores the result in a key.
fn keep(transaction: &mut Transaction<'_>, key: &[u8], wish: Wish, sum: Sum, reply: &mut Reply<'_>) -> Done {
    let mut making = Making::new(transaction)?;
    visit(transaction, wish.inputs, sum, wish.aggregate, |member, score| {
        making.add(member, score)?;
        Ok(Next::GoesOn)
    })?;
    let count = making.finish(transaction, key)?;
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

macro_rules! sums {
    ($($show:ident, $store:ident, $sum:ident, $word:literal;)+) => {$(
        pub(crate) fn $show(
            transaction: &mut Transaction<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            let none = concat!("ERR at least 1 input key is needed for '", $word, "' command");
            let wish = Wish::read(transaction, args, 1, Sum::$sum, Use::Shows, none)?;
            show(transaction, wish, Sum::$sum, reply)
        }

        pub(crate) fn $store(
            transaction: &mut Transaction<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            let none = concat!("ERR at least 1 input key is needed for '", $word, "store' command");
            let key = name(args.at(1))?;
            let wish = Wish::read(transaction, args, 2, Sum::$sum, Use::Stores, none)?;
            keep(transaction, key, wish, Sum::$sum, reply)
        }
    )+};
}

sums! {
    zunion, zunion_store, Union, "zunion";
    zinter, zinter_store, Intersection, "zinter";
    zdiff, zdiff_store, Difference, "zdiff";
}

/// ZINTERCARD and SINTERCARD: count the common members up to a limit.
fn count_common(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    kinds: Kinds,
) -> Done {
    let (none, too_many) = match kinds {
        Kinds::Sets => (
            Failure::say("ERR numkeys should be greater than 0"),
            Failure::say("ERR Number of keys can't be greater than number of args"),
        ),
        Kinds::SetsAndSorted => {
            integer(args.at(1))?;
            let none = "ERR at least 1 input key is needed for 'zintercard' command";
            (Failure::say(none), Failure::SYNTAX)
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
    // As in Redis, ZINTERCARD reports a key of the wrong type before an invalid option, SINTERCARD
    // after it.
    let of_both = match kinds {
        Kinds::Sets => None,
        Kinds::SetsAndSorted => Some(sets_at(transaction, args, count, kinds)?),
    };
    let mut most = usize::MAX;
    let mut options = Options::new(args, 2 + count);
    while let Some(word) = options.next() {
        if !is(word, "LIMIT") || options.left() == 0 {
            return Err(Failure::SYNTAX);
        }
        let limit = integer(options.value()?).ok();
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        most = match limit.ok_or(Failure::say("ERR LIMIT can't be negative"))? {
            0 => usize::MAX,
            limit => limit,
        };
    }
    let sets = match of_both {
        Some(sets) => sets,
        None => sets_at(transaction, args, count, kinds)?,
    };
    let mut found = 0;
    visit(transaction, sets, Sum::Intersection, Aggregate::Sum, |_, _| {
        found += 1;
        Ok(if found == most { Next::Stops } else { Next::GoesOn })
    })?;
    reply.count(found);
    Ok(())
}

/// Returns the sets that follow their number.
fn sets_at(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    count: usize,
    kinds: Kinds,
) -> Result<Inputs, Failure> {
    let mut sets = Vec::with_capacity(count);
    for index in 2..2 + count {
        let set = match kinds {
            Kinds::Sets => transaction.collection(args.at(index), Kind::Set)?,
            Kinds::SetsAndSorted => input(transaction, args.at(index))?,
        };
        sets.push((set, 1.0));
    }
    Ok(sets)
}

/// The types of keys that a command accepts.
#[derive(Clone, Copy)]
enum Kinds {
    Sets,
    SetsAndSorted,
}

pub(crate) fn zintercard(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    count_common(transaction, args, reply, Kinds::SetsAndSorted)
}

pub(crate) fn sintercard(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    count_common(transaction, args, reply, Kinds::Sets)
}
