//! Hashes: a record for each field.

use super::args::{Options, integer, is, name, wrong_number};
use super::strings::float_sum;
use super::walks::{self, Wish};
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::model::{Collection, Kind};
use crate::resp::{Args, Reply, Version, number};
use crate::store::{Direction, Pair, Transaction};

type Done = Result<(), Failure>;

fn hash(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Collection>, Failure> {
    transaction.collection(key, Kind::Hash)
}

fn place(transaction: &Transaction<'_>, hash: &Collection, field: &[u8]) -> InnerKey {
    format::member_key(transaction.database, hash.number, field)
}

/// All fields and values.
fn pairs(transaction: &Transaction<'_>, hash: &Collection) -> Result<Vec<Pair>, Failure> {
    let start = format::elements(transaction.database, hash.number);
    let end = format::behind(&start);
    let mut pairs = Vec::new();
    let mut scan = transaction.scan(start, end, Direction::Forward);
    while let Some((key, value)) = scan.next()? {
        pairs.push((format::member_of(&key).1.to_vec(), value));
    }
    Ok(pairs)
}

/// Sets fields; how many are new.
fn set_all(transaction: &mut Transaction<'_>, args: Args<'_>, command: &str) -> Result<u64, Failure> {
    if !args.len().is_multiple_of(2) {
        return Err(wrong_number(command));
    }
    let key = name(args.at(1))?;
    for index in (2..args.len()).step_by(2) {
        name(args.at(index))?;
    }
    let mut hash = transaction.collection_or_new(key, Kind::Hash)?;
    let places: Vec<InnerKey> = (2..args.len())
        .step_by(2)
        .map(|index| place(transaction, &hash, args.at(index)))
        .collect();
    // A hash that is made now has no fields to look for.
    let is_new = hash.count == 0;
    let old = if is_new {
        Vec::new()
    } else {
        transaction.multi_get(&places)?
    };
    let mut count = 0;
    for (index, place) in places.into_iter().enumerate() {
        let was_there = old.get(index).is_some_and(Option::is_some);
        if !was_there && transaction.own_value(&place).is_none() {
            count += 1;
        }
        transaction.put(place, args.at(3 + 2 * index).to_vec(), 0);
    }
    hash.count += count;
    transaction.save(key, &hash);
    Ok(count)
}

pub(super) fn hset(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let count = set_all(transaction, args, "hset")?;
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn hmset(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    set_all(transaction, args, "hmset")?;
    reply.ok();
    Ok(())
}

/// A hash and the value of one of its fields.
fn field(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    field: &[u8],
) -> Result<(Option<Collection>, Option<Vec<u8>>), Failure> {
    let Some(hash) = hash(transaction, key)? else {
        return Ok((None, None));
    };
    let place = place(transaction, &hash, field);
    let value = transaction.get(&place)?.map(|found| found.to_vec());
    Ok((Some(hash), value))
}

/// Sets one field of a hash that may have to be made.
fn set_one(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    name: &[u8],
    (hash, old): (Option<Collection>, Option<&[u8]>),
    value: Vec<u8>,
) -> Done {
    let mut hash = match hash {
        Some(hash) => hash,
        None => transaction.new_collection(Kind::Hash)?,
    };
    hash.count += u64::from(old.is_none());
    let place = place(transaction, &hash, name);
    transaction.put(place, value, 0);
    transaction.save(key, &hash);
    Ok(())
}

pub(super) fn hset_nx(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (key, wanted) = (name(args.at(1))?, name(args.at(2))?);
    let (hash, old) = field(transaction, key, wanted)?;
    reply.truth(old.is_none());
    if old.is_none() {
        set_one(transaction, key, wanted, (hash, None), args.at(3).to_vec())?;
    }
    Ok(())
}

pub(super) fn hget(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (_, value) = field(transaction, args.at(1), args.at(2))?;
    reply.bulk_or_null(value.as_deref());
    Ok(())
}

pub(super) fn hexists(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (_, value) = field(transaction, args.at(1), args.at(2))?;
    reply.truth(value.is_some());
    Ok(())
}

pub(super) fn hstrlen(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (_, value) = field(transaction, args.at(1), args.at(2))?;
    reply.count(value.map_or(0, |value| value.len()));
    Ok(())
}

pub(super) fn hmget(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let fields = args.from(2);
    let values = match hash(transaction, args.at(1))? {
        None => vec![None; fields.len()],
        Some(hash) => {
            let places: Vec<_> = fields
                .iter()
                .map(|field| place(transaction, &hash, field))
                .collect();
            transaction.multi_get(&places)?
        }
    };
    reply.array(values.len());
    values
        .iter()
        .for_each(|value| reply.bulk_or_null(value.as_deref()));
    Ok(())
}

pub(super) fn hlen(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let count = hash(transaction, args.at(1))?.map_or(0, |hash| hash.count);
    reply.integer(count as i64);
    Ok(())
}

fn all(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<Vec<Pair>, Failure> {
    match hash(transaction, key)? {
        None => Ok(Vec::new()),
        Some(hash) => pairs(transaction, &hash),
    }
}

pub(super) fn hgetall(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let pairs = all(transaction, args.at(1))?;
    reply.map(pairs.len());
    for (field, value) in &pairs {
        reply.bulk(field);
        reply.bulk(value);
    }
    Ok(())
}

pub(super) fn hkeys(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let pairs = all(transaction, args.at(1))?;
    reply.array(pairs.len());
    pairs.iter().for_each(|(field, _)| reply.bulk(field));
    Ok(())
}

pub(super) fn hvals(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let pairs = all(transaction, args.at(1))?;
    reply.array(pairs.len());
    pairs.iter().for_each(|(_, value)| reply.bulk(value));
    Ok(())
}

pub(super) fn hdel(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let Some(mut hash) = hash(transaction, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let before = hash.count;
    for field in args.from(2).iter() {
        let place = place(transaction, &hash, field);
        if transaction.get(&place)?.is_some() {
            transaction.delete(place);
            hash.count -= 1;
        }
    }
    if hash.count != before {
        transaction.save(args.at(1), &hash);
    }
    reply.integer((before - hash.count) as i64);
    Ok(())
}

pub(super) fn hincr_by(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let by = integer(args.at(3))?;
    let (key, wanted) = (name(args.at(1))?, name(args.at(2))?);
    let (hash, old) = field(transaction, key, wanted)?;
    let value = match &old {
        None => 0,
        Some(text) => number::integer(text).ok_or(Failure::say("ERR hash value is not an integer"))?,
    };
    let sum = value
        .checked_add(by)
        .ok_or(Failure::say("ERR increment or decrement would overflow"))?;
    let text = sum.to_string().into_bytes();
    set_one(transaction, key, wanted, (hash, old.as_deref()), text)?;
    reply.integer(sum);
    Ok(())
}

pub(super) fn hincr_by_float(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    if super::args::double(args.at(3))?.is_infinite() {
        return Err(Failure::say("ERR value is NaN or Infinity"));
    }
    let (key, wanted) = (name(args.at(1))?, name(args.at(2))?);
    let (hash, old) = field(transaction, key, wanted)?;
    if old.as_ref().is_some_and(|text| number::double(text).is_none()) {
        return Err(Failure::say("ERR hash value is not a float"));
    }
    let sum = float_sum(old.as_deref().unwrap_or(b"0"), args.at(3))?;
    reply.bulk(&sum);
    set_one(transaction, key, wanted, (hash, old.as_deref()), sum)
}

pub(super) fn hscan(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let cursor = walks::cursor(args.at(2))?;
    // As in Redis, options are read only where there is something to walk over.
    let Some(hash) = hash(transaction, args.at(1))? else {
        walks::begin(reply, 0, 0);
        return Ok(());
    };
    let wish = Wish::new(args, 3)?;
    let start = format::place_key(transaction.database, hash.number, cursor);
    let end = format::behind(&format::elements(transaction.database, hash.number));
    let (next, found) = walks::some_elements(transaction, (start, end), wish.count, format::member_of)?;
    let found: Vec<_> = found.into_iter().filter(|(field, _)| wish.fits(field)).collect();
    walks::begin(reply, next, 2 * found.len());
    for (field, value) in &found {
        reply.bulk(field);
        reply.bulk(value);
    }
    Ok(())
}

pub(super) fn hrandfield(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let mut options = Options::new(args, 2);
    let count = options.next().map(random_count).transpose()?;
    let with_values = match options.next() {
        None => false,
        Some(word) if is(word, "WITHVALUES") && options.left() == 0 => true,
        Some(_) => return Err(Failure::SYNTAX),
    };
    // Redis counts fields and values in the same number.
    if with_values && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return Err(Failure::OUT_OF_RANGE);
    }
    let pairs = all(transaction, args.at(1))?;
    let Some(count) = count else {
        match pairs.len() {
            0 => reply.null(),
            many => reply.bulk(&pairs[fastrand::usize(..many)].0),
        }
        return Ok(());
    };
    let drawn = Drawn::new(pairs.len(), count);
    let nests = with_values && reply.version() == Version::Three;
    let replies = if with_values && !nests { 2 } else { 1 };
    reply.array(drawn.len().saturating_mul(replies));
    for index in drawn {
        let (field, value) = &pairs[index];
        if nests {
            reply.array(2);
        }
        reply.bulk(field);
        if with_values {
            reply.bulk(value);
        }
        super::args::check_room(reply)?;
    }
    Ok(())
}

/// How many elements a client wants to be drawn; negative if they may repeat.
pub(super) fn random_count(text: &[u8]) -> Result<i64, Failure> {
    match integer(text)? {
        i64::MIN => Err(Failure::OUT_OF_RANGE),
        count => Ok(count),
    }
}

/// The indexes of elements that are drawn at random, one after the other: whatever number the
/// client has sent, at most one index for each element is in memory.
pub(super) struct Drawn {
    /// Different elements, in the order in which they are taken; empty when elements may repeat.
    distinct: Vec<usize>,
    /// How many elements there are.
    many: usize,
    left: usize,
}

impl Drawn {
    /// Draws `count` different elements of `many`, or, if it is negative, as many of which some may repeat.
    pub(super) fn new(many: usize, count: i64) -> Drawn {
        let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        if count < 0 {
            let left = if many == 0 { 0 } else { wanted };
            let distinct = Vec::new();
            return Drawn { distinct, many, left };
        }
        let mut distinct: Vec<usize> = (0..many).collect();
        if wanted < many {
            // The first steps of a shuffle: what follows them is not wanted.
            for index in 0..wanted {
                distinct.swap(index, fastrand::usize(index..many));
            }
            distinct.truncate(wanted);
        }
        let left = distinct.len();
        Drawn { distinct, many, left }
    }

    /// How many are still to come.
    pub(super) fn len(&self) -> usize {
        self.left
    }
}

impl Iterator for Drawn {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        Some(
            self.distinct
                .pop()
                .unwrap_or_else(|| fastrand::usize(..self.many)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_drawn_once_or_as_often_as_chance_wants() {
        let mut all: Vec<usize> = Drawn::new(5, 9).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        let some: std::collections::BTreeSet<usize> = Drawn::new(100, 30).collect();
        assert_eq!(some.len(), 30);
        assert_eq!(Drawn::new(3, -7).filter(|&index| index < 3).count(), 7);
        assert_eq!(Drawn::new(0, -7).count(), 0);
    }

    #[test]
    fn a_huge_number_takes_no_memory() {
        let drawn = Drawn::new(3, -i64::MAX);
        assert_eq!(drawn.len() as u64, i64::MAX as u64);
        assert_eq!(drawn.take(10).count(), 10);
    }
}
