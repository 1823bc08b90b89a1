//! Sets: a record without a value for each member.

use super::args::{check_room, integer, name};
use super::hashes::{Drawn, random_count};
use super::walks::{self, Wish};
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::model::{Collection, Kind};
use crate::resp::{Args, Reply};
use crate::store::{Direction, Transaction};
use std::collections::BTreeSet;

type Done = Result<(), Failure>;
type Members = Vec<Vec<u8>>;

/// Sets up to this many members are read whole when some are drawn.
const DRAWN_FROM: u64 = 1024;

fn set(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Collection>, Failure> {
    transaction.collection(key, Kind::Set)
}

fn place(transaction: &Transaction<'_>, set: &Collection, member: &[u8]) -> InnerKey {
    format::member_key(transaction.database, set.number, member)
}

fn has(transaction: &mut Transaction<'_>, set: &Collection, member: &[u8]) -> Result<bool, Failure> {
    let place = place(transaction, set, member);
    Ok(transaction.get(&place)?.is_some())
}

fn members(transaction: &Transaction<'_>, set: &Collection) -> Result<Members, Failure> {
    let start = format::elements(transaction.database, set.number);
    let end = format::behind(&start);
    let mut members = Vec::new();
    let mut scan = transaction.scan(start, end, Direction::Forward);
    while let Some((key, _)) = scan.next()? {
        members.push(format::member_of(&key).1.to_vec());
    }
    Ok(members)
}

/// Which of some members a set has.
fn which<'a>(
    transaction: &mut Transaction<'_>,
    set: &Collection,
    members: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<bool>, Failure> {
    let places: Vec<InnerKey> = members.map(|member| place(transaction, set, member)).collect();
    Ok(transaction
        .multi_get(&places)?
        .iter()
        .map(Option::is_some)
        .collect())
}

fn add<'a>(
    transaction: &mut Transaction<'_>,
    set: &mut Collection,
    members: impl Iterator<Item = &'a [u8]>,
) -> Result<u64, Failure> {
    let places: Vec<InnerKey> = members.map(|member| place(transaction, set, member)).collect();
    let is_new = set.count == 0;
    let there = if is_new {
        Vec::new()
    } else {
        transaction.multi_get(&places)?
    };
    let mut count = 0;
    for (index, place) in places.into_iter().enumerate() {
        let was_there = there.get(index).is_some_and(Option::is_some);
        if !was_there && transaction.own_value(&place).is_none() {
            count += 1;
            transaction.put(place, Vec::new(), 0);
        }
    }
    set.count += count;
    Ok(count)
}

pub(super) fn sadd(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = name(args.at(1))?;
    for member in args.from(2).iter() {
        name(member)?;
    }
    let mut set = transaction.collection_or_new(key, Kind::Set)?;
    let count = add(transaction, &mut set, args.from(2).iter())?;
    if count > 0 {
        transaction.save(key, &set);
    }
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn srem(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let Some(mut set) = set(transaction, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let before = set.count;
    for member in args.from(2).iter() {
        if has(transaction, &set, member)? {
            let place = place(transaction, &set, member);
            transaction.delete(place);
            set.count -= 1;
        }
    }
    if set.count != before {
        transaction.save(args.at(1), &set);
    }
    reply.integer((before - set.count) as i64);
    Ok(())
}

pub(super) fn scard(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let count = set(transaction, args.at(1))?.map_or(0, |set| set.count);
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn sismember(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let is_there = match set(transaction, args.at(1))? {
        None => false,
        Some(set) => has(transaction, &set, args.at(2))?,
    };
    reply.truth(is_there);
    Ok(())
}

pub(super) fn smismember(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let members = args.from(2);
    let there = match set(transaction, args.at(1))? {
        None => vec![false; members.len()],
        Some(set) => which(transaction, &set, members.iter())?,
    };
    reply.array(there.len());
    there.iter().for_each(|&is_there| reply.truth(is_there));
    Ok(())
}

pub(super) fn smembers(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let members = match set(transaction, args.at(1))? {
        None => Vec::new(),
        Some(set) => members(transaction, &set)?,
    };
    reply_set(reply, &members);
    Ok(())
}

fn reply_set(reply: &mut Reply<'_>, members: &[Vec<u8>]) {
    reply.set(members.len());
    members.iter().for_each(|member| reply.bulk(member));
}

pub(super) fn smove(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (from, to, member) = (args.at(1), name(args.at(2))?, name(args.at(3))?);
    let Some(mut source) = set(transaction, from)? else {
        reply.integer(0);
        return Ok(());
    };
    let target = set(transaction, to)?;
    let is_there = has(transaction, &source, member)?;
    reply.truth(is_there);
    if !is_there || from == to {
        return Ok(());
    }
    let old = place(transaction, &source, member);
    transaction.delete(old);
    source.count -= 1;
    transaction.save(from, &source);
    let mut target = match target {
        Some(target) => target,
        None => transaction.new_collection(Kind::Set)?,
    };
    // Who watches the target is told only if it has changed.
    if add(transaction, &mut target, std::iter::once(member))? > 0 {
        transaction.save(to, &target);
    }
    Ok(())
}

/// Some different members, drawn.
fn drawn(transaction: &Transaction<'_>, set: &Collection, count: u64) -> Result<Members, Failure> {
    if set.count <= DRAWN_FROM || count > set.count / 4 {
        let mut all = members(transaction, set)?;
        let drawn = Drawn::new(all.len(), i64::try_from(count).unwrap_or(i64::MAX));
        return Ok(drawn.map(|index| std::mem::take(&mut all[index])).collect());
    }
    // Members lie in the order of their hashes: behind a place that is drawn stands one that nobody has chosen.
    let whole = format::elements(transaction.database, set.number);
    let end = format::behind(&whole);
    let mut found = BTreeSet::new();
    while (found.len() as u64) < count {
        let start = format::place_key(transaction.database, set.number, fastrand::u64(..));
        let mut scan = transaction.scan(start, end.clone(), Direction::Forward);
        let next = match scan.next()? {
            Some(next) => Some(next),
            None => transaction
                .scan(whole.clone(), end.clone(), Direction::Forward)
                .next()?,
        };
        let Some((key, _)) = next else { break };
        found.insert(format::member_of(&key).1.to_vec());
    }
    Ok(found.into_iter().collect())
}

/// A number that must not be negative.
pub(super) fn positive(text: &[u8]) -> Result<u64, Failure> {
    const ERROR: Failure = Failure::say("ERR value is out of range, must be positive");
    let number = integer(text).map_err(|_| ERROR)?;
    u64::try_from(number).map_err(|_| ERROR)
}

pub(super) fn spop(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    if args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    let count = args.get(2).map(positive).transpose()?;
    let Some(mut set) = set(transaction, args.at(1))? else {
        match count {
            None => reply.null(),
            Some(_) => reply.set(0),
        }
        return Ok(());
    };
    let drawn = drawn(transaction, &set, count.unwrap_or(1))?;
    for member in &drawn {
        let place = place(transaction, &set, member);
        transaction.delete(place);
    }
    set.count -= drawn.len() as u64;
    if !drawn.is_empty() {
        transaction.save(args.at(1), &set);
    }
    match count {
        None => reply.bulk_or_null(drawn.first().map(Vec::as_slice)),
        Some(_) => reply_set(reply, &drawn),
    }
    Ok(())
}

pub(super) fn srandmember(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    if args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    let count = args.get(2).map(random_count).transpose()?;
    let set = set(transaction, args.at(1))?;
    let drawn = match (&set, count) {
        (None, _) => Vec::new(),
        (Some(set), None) => drawn(transaction, set, 1)?,
        (Some(set), Some(count @ 0..)) => drawn(transaction, set, count.unsigned_abs())?,
        (Some(set), Some(count)) => {
            let all = members(transaction, set)?;
            let drawn = Drawn::new(all.len(), count);
            reply.array(drawn.len());
            for index in drawn {
                reply.bulk(&all[index]);
                check_room(reply)?;
            }
            return Ok(());
        }
    };
    if count.is_none() {
        reply.bulk_or_null(drawn.first().map(Vec::as_slice));
    } else {
        reply.array(drawn.len());
        drawn.iter().for_each(|member| reply.bulk(member));
    }
    Ok(())
}

pub(super) fn sscan(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let cursor = walks::cursor(args.at(2))?;
    // As in Redis, options are read only where there is something to walk over.
    let Some(set) = set(transaction, args.at(1))? else {
        walks::begin(reply, 0, 0);
        return Ok(());
    };
    let wish = Wish::new(args, 3)?;
    let start = format::place_key(transaction.database, set.number, cursor);
    let end = format::behind(&format::elements(transaction.database, set.number));
    let (next, found) = walks::some_elements(transaction, (start, end), wish.count, format::member_of)?;
    let found: Vec<_> = found
        .into_iter()
        .filter(|(member, _)| wish.fits(member))
        .collect();
    walks::begin(reply, next, found.len());
    found.iter().for_each(|(member, _)| reply.bulk(member));
    Ok(())
}

/// What is made of several sets.
#[derive(Clone, Copy)]
enum Sum {
    Union,
    Intersection,
    Difference,
}

fn combined(transaction: &mut Transaction<'_>, keys: Args<'_>, sum: Sum) -> Result<Members, Failure> {
    let mut sets = Vec::with_capacity(keys.len());
    for key in keys.iter() {
        sets.push(set(transaction, key)?);
    }
    match sum {
        Sum::Union => {
            let mut all = BTreeSet::new();
            for set in sets.iter().flatten() {
                all.extend(members(transaction, set)?);
            }
            Ok(all.into_iter().collect())
        }
        Sum::Intersection => {
            // The smallest is read; the others are asked.
            let Some(mut sets) = sets.into_iter().collect::<Option<Vec<_>>>() else {
                return Ok(Vec::new());
            };
            sets.sort_by_key(|set| set.count);
            filtered(transaction, &sets[0], &sets[1..], true)
        }
        Sum::Difference => match sets[0] {
            None => Ok(Vec::new()),
            Some(first) => {
                let others: Vec<Collection> = sets[1..].iter().flatten().copied().collect();
                filtered(transaction, &first, &others, false)
            }
        },
    }
}

/// The members of a set that all others have, or none of them.
fn filtered(
    transaction: &mut Transaction<'_>,
    first: &Collection,
    others: &[Collection],
    wanted: bool,
) -> Result<Members, Failure> {
    let mut left = members(transaction, first)?;
    for other in others {
        let there = which(transaction, other, left.iter().map(Vec::as_slice))?;
        let mut there = there.into_iter();
        left.retain(|_| there.next() == Some(wanted));
    }
    Ok(left)
}

fn show(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>, sum: Sum) -> Done {
    let members = combined(transaction, args.from(1), sum)?;
    reply_set(reply, &members);
    Ok(())
}

fn keep(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>, sum: Sum) -> Done {
    let key = name(args.at(1))?;
    let members = combined(transaction, args.from(2), sum)?;
    transaction.remove(key)?;
    if !members.is_empty() {
        let mut set = transaction.new_collection(Kind::Set)?;
        add(transaction, &mut set, members.iter().map(Vec::as_slice))?;
        transaction.save(key, &set);
    }
    reply.count(members.len());
    Ok(())
}

pub(super) fn sunion(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    show(transaction, args, reply, Sum::Union)
}

pub(super) fn sinter(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    show(transaction, args, reply, Sum::Intersection)
}

pub(super) fn sdiff(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    show(transaction, args, reply, Sum::Difference)
}

pub(super) fn sunion_store(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    keep(transaction, args, reply, Sum::Union)
}

pub(super) fn sinter_store(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    keep(transaction, args, reply, Sum::Intersection)
}

pub(super) fn sdiff_store(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    keep(transaction, args, reply, Sum::Difference)
}
