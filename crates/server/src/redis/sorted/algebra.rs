//! Unions, intersections and differences of sorted sets; plain sets count as sorted ones whose scores are 1.

use super::super::args::{Options, integer, is, name};
use super::super::numbered;
use super::range::reply_scored;
use super::store::store;
use super::{Done, Scored, score};
use crate::error::Failure;
use crate::model::{Collection, Entry, Kind, format};
use crate::resp::{Args, Reply};
use crate::store::{Direction, Transaction};
use std::collections::HashMap;

/// What is made of several sorted sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    Union,
    Intersection,
    Difference,
}

/// What becomes of scores of one member.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Least,
    Most,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs make nothing.
            Aggregate::Sum => not_nan(one + other),
            Aggregate::Least => one.min(other),
            Aggregate::Most => one.max(other),
        }
    }
}

fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What a command says: its keys with their weights, and how scores are joined.
struct Wish<'a> {
    inputs: Vec<(&'a [u8], f64)>,
    aggregate: Aggregate,
    with_scores: bool,
}

/// Whether a command shows what it has made, or stores it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Shows,
    Stores,
}

impl<'a> Wish<'a> {
    fn read(
        args: Args<'a>,
        at: usize,
        sum: Sum,
        what_for: Use,
        none: &'static str,
    ) -> Result<Wish<'a>, Failure> {
        // Redis says the one thing of a number that is none, and the other of zero.
        integer(args.at(at))?;
        let (keys, rest) = numbered::keys_at(args, at, none)?;
        let mut wish = Wish {
            inputs: keys.into_iter().map(|key| (key, 1.0)).collect(),
            aggregate: Aggregate::Sum,
            with_scores: false,
        };
        let mut options = Options::new(args, rest);
        while let Some(word) = options.next() {
            let weighs = sum != Sum::Difference;
            if weighs && is(word, "WEIGHTS") && options.left() >= wish.inputs.len() {
                for (_, weight) in &mut wish.inputs {
                    let text = options.value()?;
                    *weight = super::super::args::double(text)
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

/// A set or sorted set.
fn input(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Collection>, Failure> {
    match transaction.entry(key)? {
        None => Ok(None),
        Some(Entry::Collection(collection)) if matches!(collection.kind, Kind::Set | Kind::SortedSet) => {
            Ok(Some(collection))
        }
        Some(_) => Err(Failure::WRONG_TYPE),
    }
}

/// All members with their scores.
fn members(transaction: &Transaction<'_>, set: &Collection) -> Result<Vec<Scored>, Failure> {
    let (start, end) = if set.kind == Kind::Set {
        let start = format::elements(transaction.database, set.number);
        let end = format::behind(&start);
        (start, end)
    } else {
        format::scores(transaction.database, set.number)
    };
    let mut found = Vec::new();
    let mut scan = transaction.scan(start, end, Direction::Forward);
    while let Some((key, _)) = scan.next()? {
        let (score, member) = if set.kind == Kind::Set {
            (1.0, format::member_of(&key).1)
        } else {
            format::scored_member_of(&key)
        };
        found.push((member.to_vec(), score));
    }
    Ok(found)
}

/// The score of a member, if the set has it.
fn score_in(
    transaction: &mut Transaction<'_>,
    set: &Collection,
    member: &[u8],
) -> Result<Option<f64>, Failure> {
    if set.kind == Kind::SortedSet {
        return score(transaction, set, member);
    }
    let place = format::member_key(transaction.database, set.number, member);
    Ok(transaction.get(&place)?.map(|_| 1.0))
}

/// What is made of the inputs, in the order of scores.
fn made(transaction: &mut Transaction<'_>, wish: &Wish<'_>, sum: Sum) -> Result<Vec<Scored>, Failure> {
    let mut sets = Vec::with_capacity(wish.inputs.len());
    for (key, weight) in &wish.inputs {
        sets.push((input(transaction, key)?, *weight));
    }
    let mut made = match sum {
        Sum::Union => union(transaction, sets, wish.aggregate)?,
        Sum::Intersection => intersection(transaction, sets, wish.aggregate, usize::MAX)?,
        Sum::Difference => difference(transaction, &sets)?,
    };
    made.sort_by(|(one, score), (other, other_score)| score.total_cmp(other_score).then(one.cmp(other)));
    Ok(made)
}

type Inputs = Vec<(Option<Collection>, f64)>;

fn by_size(sets: &mut Inputs) {
    sets.sort_by_key(|(set, _)| set.map_or(0, |set| set.count));
}

fn union(
    transaction: &Transaction<'_>,
    mut sets: Inputs,
    aggregate: Aggregate,
) -> Result<Vec<Scored>, Failure> {
    by_size(&mut sets);
    let mut all: HashMap<Vec<u8>, f64> = HashMap::new();
    for (set, weight) in sets {
        let Some(set) = set else { continue };
        for (member, score) in members(transaction, &set)? {
            let given = not_nan(weight * score);
            all.entry(member)
                .and_modify(|score| *score = aggregate.of(*score, given))
                .or_insert(given);
        }
    }
    Ok(all.into_iter().collect())
}

/// The smallest is read, the others are asked; it ends once `most` are found.
fn intersection(
    transaction: &mut Transaction<'_>,
    mut sets: Inputs,
    aggregate: Aggregate,
    most: usize,
) -> Result<Vec<Scored>, Failure> {
    by_size(&mut sets);
    let mut found = Vec::new();
    let Some((Some(first), weight)) = sets.first().copied() else {
        return Ok(found);
    };
    'members: for (member, score) in members(transaction, &first)? {
        let mut joined = not_nan(weight * score);
        for (set, weight) in &sets[1..] {
            let Some(set) = set else { break 'members };
            match score_in(transaction, set, &member)? {
                Some(score) => joined = aggregate.of(joined, not_nan(weight * score)),
                None => continue 'members,
            }
        }
        found.push((member, joined));
        if found.len() == most {
            break;
        }
    }
    Ok(found)
}

fn difference(transaction: &mut Transaction<'_>, sets: &Inputs) -> Result<Vec<Scored>, Failure> {
    let mut left = Vec::new();
    let Some((Some(first), _)) = sets.first() else {
        return Ok(left);
    };
    'members: for (member, score) in members(transaction, first)? {
        for (set, _) in &sets[1..] {
            if let Some(set) = set
                && score_in(transaction, set, &member)?.is_some()
            {
                continue 'members;
            }
        }
        left.push((member, score));
    }
    Ok(left)
}

macro_rules! sums {
    ($($show:ident, $store:ident, $sum:ident, $word:literal;)+) => {$(
        pub(in super::super) fn $show(
            transaction: &mut Transaction<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            let none = concat!("ERR at least 1 input key is needed for '", $word, "' command");
            let wish = Wish::read(args, 1, Sum::$sum, Use::Shows, none)?;
            let made = made(transaction, &wish, Sum::$sum)?;
            reply_scored(reply, &made, wish.with_scores);
            Ok(())
        }

        pub(in super::super) fn $store(
            transaction: &mut Transaction<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            let none = concat!("ERR at least 1 input key is needed for '", $word, "store' command");
            let key = name(args.at(1))?;
            let wish = Wish::read(args, 2, Sum::$sum, Use::Stores, none)?;
            let made = made(transaction, &wish, Sum::$sum)?;
            store(transaction, key, &made)?;
            reply.count(made.len());
            Ok(())
        }
    )+};
}

sums! {
    zunion, zunion_store, Union, "zunion";
    zinter, zinter_store, Intersection, "zinter";
    zdiff, zdiff_store, Difference, "zdiff";
}

/// ZINTERCARD and SINTERCARD: the number of members that all have, counted up to a limit.
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
    let mut sets = Vec::with_capacity(count);
    for index in 2..2 + count {
        let set = match kinds {
            Kinds::Sets => transaction.collection(args.at(index), Kind::Set)?,
            Kinds::SetsAndSorted => input(transaction, args.at(index))?,
        };
        sets.push((set, 1.0));
    }
    let found = intersection(transaction, sets, Aggregate::Sum, most)?;
    reply.count(found.len());
    Ok(())
}

/// What a command takes.
#[derive(Clone, Copy)]
enum Kinds {
    Sets,
    SetsAndSorted,
}

pub(in super::super) fn zintercard(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    count_common(transaction, args, reply, Kinds::SetsAndSorted)
}

pub(in super::super) fn sintercard(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    count_common(transaction, args, reply, Kinds::Sets)
}
