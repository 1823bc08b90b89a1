//! Lists: a record for each element, at positions that lie side by side (S5).

use super::args::{Options, integer, is, name, span, wrong_number};
use super::sets::positive;
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::model::{Collection, Kind};
use crate::resp::{Args, Reply};
use crate::store::{Direction, Transaction};
use std::ops::Range;

type Done = Result<(), Failure>;

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

fn list(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Collection>, Failure> {
    transaction.collection(key, Kind::List)
}

fn place(transaction: &Transaction<'_>, list: &Collection, position: i64) -> InnerKey {
    format::position_key(transaction.database, list.number, position)
}

/// The elements of some indexes, in order.
fn elements(
    transaction: &Transaction<'_>,
    list: &Collection,
    indexes: Range<u64>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let at = |index| place(transaction, list, list.head.wrapping_add_unsigned(index));
    let mut scan = transaction.scan(at(indexes.start), at(indexes.end), Direction::Forward);
    let mut elements = Vec::new();
    while let Some((_, value)) = scan.next()? {
        elements.push(value);
    }
    Ok(elements)
}

fn push_one(transaction: &mut Transaction<'_>, list: &mut Collection, element: &[u8], end: End) {
    let position = match end {
        End::Left => {
            list.head = list.head.wrapping_sub(1);
            list.head
        }
        End::Right => list.tail(),
    };
    list.count += 1;
    let place = place(transaction, list, position);
    transaction.put(place, element.to_vec(), 0);
}

fn push(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
    only_if_there: bool,
) -> Done {
    let key = name(args.at(1))?;
    let list = list(transaction, key)?;
    let mut list = match list {
        Some(list) => list,
        None if only_if_there => {
            reply.integer(0);
            return Ok(());
        }
        None => transaction.new_collection(Kind::List)?,
    };
    for element in args.from(2).iter() {
        push_one(transaction, &mut list, element, end);
    }
    transaction.save(key, &list);
    reply.integer(list.count as i64);
    Ok(())
}

pub(super) fn lpush(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    push(transaction, args, reply, End::Left, false)
}

pub(super) fn rpush(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    push(transaction, args, reply, End::Right, false)
}

pub(super) fn lpushx(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    push(transaction, args, reply, End::Left, true)
}

pub(super) fn rpushx(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    push(transaction, args, reply, End::Right, true)
}

/// Takes elements from an end, in the order in which they are taken. The list is not saved.
fn take(
    transaction: &mut Transaction<'_>,
    list: &mut Collection,
    count: u64,
    end: End,
) -> Result<Vec<Vec<u8>>, Failure> {
    let count = count.min(list.count);
    let indexes = match end {
        End::Left => 0..count,
        End::Right => list.count - count..list.count,
    };
    let mut taken = elements(transaction, list, indexes.clone())?;
    for index in indexes {
        let place = place(transaction, list, list.head.wrapping_add_unsigned(index));
        transaction.delete(place);
    }
    list.count -= count;
    match end {
        End::Left => list.head = list.head.wrapping_add_unsigned(count),
        End::Right => taken.reverse(),
    }
    Ok(taken)
}

fn pop(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
    command: &str,
) -> Done {
    if args.len() > 3 {
        return Err(wrong_number(command));
    }
    let count = args.get(2).map(positive).transpose()?;
    let Some(mut list) = list(transaction, args.at(1))? else {
        match count {
            None => reply.null(),
            Some(_) => reply.null_array(),
        }
        return Ok(());
    };
    let taken = take(transaction, &mut list, count.unwrap_or(1), end)?;
    if !taken.is_empty() {
        transaction.save(args.at(1), &list);
    }
    match count {
        None => reply.bulk_or_null(taken.first().map(Vec::as_slice)),
        Some(_) => reply_all(reply, &taken),
    }
    Ok(())
}

/// Takes up to so many elements from an end of a list, if there is one.
pub(super) fn pop_some(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    count: u64,
    end: End,
) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(mut list) = list(transaction, key)? else {
        return Ok(Vec::new());
    };
    let taken = take(transaction, &mut list, count, end)?;
    if !taken.is_empty() {
        transaction.save(key, &list);
    }
    Ok(taken)
}

fn reply_all(reply: &mut Reply<'_>, elements: &[Vec<u8>]) {
    reply.array(elements.len());
    elements.iter().for_each(|element| reply.bulk(element));
}

pub(super) fn lpop(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    pop(transaction, args, reply, End::Left, "lpop")
}

pub(super) fn rpop(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    pop(transaction, args, reply, End::Right, "rpop")
}

pub(super) fn llen(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let count = list(transaction, args.at(1))?.map_or(0, |list| list.count);
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn lrange(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    let found = match list(transaction, args.at(1))? {
        None => Vec::new(),
        Some(list) => elements(transaction, &list, span(start, end, list.count))?,
    };
    reply_all(reply, &found);
    Ok(())
}

/// The place of an index, which counts from the end if it is negative.
fn at_index(transaction: &Transaction<'_>, list: &Collection, index: i64) -> Option<InnerKey> {
    let index = if index < 0 {
        index.checked_add_unsigned(list.count)?
    } else {
        index
    };
    let index = u64::try_from(index).ok().filter(|&index| index < list.count)?;
    Some(place(transaction, list, list.head.wrapping_add_unsigned(index)))
}

pub(super) fn lindex(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    // Without a list Redis does not look at the index.
    let Some(list) = list(transaction, args.at(1))? else {
        reply.null();
        return Ok(());
    };
    match at_index(transaction, &list, integer(args.at(2))?) {
        None => reply.null(),
        Some(place) => reply.bulk_or_null(transaction.get(&place)?.as_deref()),
    }
    Ok(())
}

pub(super) fn lset(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let list = list(transaction, args.at(1))?.ok_or(Failure::NO_SUCH_KEY)?;
    let place = at_index(transaction, &list, integer(args.at(2))?);
    let place = place.ok_or(Failure::say("ERR index out of range"))?;
    transaction.put(place, args.at(3).to_vec(), 0);
    transaction.touch(args.at(1));
    reply.ok();
    Ok(())
}

pub(super) fn ltrim(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    reply.ok();
    let Some(mut list) = list(transaction, args.at(1))? else {
        return Ok(());
    };
    let kept = span(start, end, list.count);
    let at = |index| place(transaction, &list, list.head.wrapping_add_unsigned(index));
    let ends = [(at(0), at(kept.start)), (at(kept.end), at(list.count))];
    for (start, end) in ends {
        transaction.delete_range(start, end);
    }
    list.head = list.head.wrapping_add_unsigned(kept.start);
    list.count = kept.end - kept.start;
    transaction.save(args.at(1), &list);
    Ok(())
}

/// Stores elements from an index on, in place of all that were there.
fn rewrite(transaction: &mut Transaction<'_>, list: &mut Collection, from: u64, elements: &[Vec<u8>]) {
    let start = place(transaction, list, list.head.wrapping_add_unsigned(from));
    let end = place(transaction, list, list.tail());
    transaction.delete_range(start, end);
    list.count = from;
    for element in elements {
        push_one(transaction, list, element, End::Right);
    }
}

pub(super) fn lrem(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let count = integer(args.at(2))?;
    let Some(mut list) = list(transaction, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let all = elements(transaction, &list, 0..list.count)?;
    let most = if count == 0 {
        usize::MAX
    } else {
        count.unsigned_abs() as usize
    };
    let equal = |&index: &usize| all[index] == args.at(3);
    let removed: Vec<usize> = if count < 0 {
        let mut found: Vec<usize> = (0..all.len()).rev().filter(equal).take(most).collect();
        found.reverse();
        found
    } else {
        (0..all.len()).filter(equal).take(most).collect()
    };
    if let Some(&first) = removed.first() {
        let kept: Vec<Vec<u8>> = (first..all.len())
            .filter(|index| removed.binary_search(index).is_err())
            .map(|index| all[index].clone())
            .collect();
        rewrite(transaction, &mut list, first as u64, &kept);
        transaction.save(args.at(1), &list);
    }
    reply.count(removed.len());
    Ok(())
}

pub(super) fn linsert(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let behind = match (args.is(2, "AFTER"), args.is(2, "BEFORE")) {
        (true, _) => 1,
        (_, true) => 0,
        _ => return Err(Failure::SYNTAX),
    };
    let Some(mut list) = list(transaction, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let all = elements(transaction, &list, 0..list.count)?;
    let Some(pivot) = all.iter().position(|element| element == args.at(3)) else {
        reply.integer(-1);
        return Ok(());
    };
    let at = pivot + behind;
    let mut rest = vec![args.at(4).to_vec()];
    rest.extend_from_slice(&all[at..]);
    rewrite(transaction, &mut list, at as u64, &rest);
    transaction.save(args.at(1), &list);
    reply.integer(list.count as i64);
    Ok(())
}

/// What LPOS wants.
struct Search {
    rank: i64,
    count: Option<usize>,
    most: usize,
}

fn search(args: Args<'_>) -> Result<Search, Failure> {
    let mut search = Search {
        rank: 1,
        count: None,
        most: usize::MAX,
    };
    let mut options = Options::new(args, 3);
    while let Some(word) = options.next() {
        let value = options.value()?;
        let natural = |error| {
            let number = usize::try_from(integer(value)?);
            number.map_err(|_| Failure::say(error))
        };
        if is(word, "RANK") {
            search.rank = integer(value)?;
            if search.rank == 0 {
                return Err(Failure::say(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                     negative to start from the end of the list",
                ));
            }
        } else if is(word, "COUNT") {
            search.count = Some(natural("ERR COUNT can't be negative")?);
        } else if is(word, "MAXLEN") {
            let most = natural("ERR MAXLEN can't be negative")?;
            search.most = if most == 0 { usize::MAX } else { most };
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok(search)
}

pub(super) fn lpos(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let search = search(args)?;
    let all = match list(transaction, args.at(1))? {
        None => Vec::new(),
        Some(list) => elements(transaction, &list, 0..list.count)?,
    };
    let from_end = search.rank < 0;
    let index = |step: usize| if from_end { all.len() - 1 - step } else { step };
    let wanted = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let found: Vec<usize> = (0..all.len().min(search.most))
        .map(index)
        .filter(|&index| all[index] == args.at(2))
        .skip(search.rank.unsigned_abs() as usize - 1)
        .take(wanted)
        .collect();
    match (search.count, found.first()) {
        (None, None) => reply.null(),
        (None, Some(&index)) => reply.count(index),
        (Some(_), _) => {
            reply.array(found.len());
            found.iter().for_each(|&index| reply.count(index));
        }
    }
    Ok(())
}

fn end(word: &[u8]) -> Result<End, Failure> {
    if is(word, "LEFT") {
        Ok(End::Left)
    } else if is(word, "RIGHT") {
        Ok(End::Right)
    } else {
        Err(Failure::SYNTAX)
    }
}

fn move_one(
    transaction: &mut Transaction<'_>,
    (from, to): (&[u8], &[u8]),
    (start, target): (End, End),
    reply: &mut Reply<'_>,
) -> Done {
    let Some(mut source) = list(transaction, from)? else {
        reply.null();
        return Ok(());
    };
    let other = if from == to {
        None
    } else {
        list(transaction, name(to)?)?
    };
    let taken = take(transaction, &mut source, 1, start)?;
    let element = taken.first().map_or(&[][..], Vec::as_slice);
    if from == to {
        push_one(transaction, &mut source, element, target);
        transaction.save(from, &source);
    } else {
        transaction.save(from, &source);
        let mut other = match other {
            Some(other) => other,
            None => transaction.new_collection(Kind::List)?,
        };
        push_one(transaction, &mut other, element, target);
        transaction.save(to, &other);
    }
    reply.bulk(element);
    Ok(())
}

pub(super) fn lmove(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let ends = (end(args.at(3))?, end(args.at(4))?);
    move_one(transaction, (args.at(1), args.at(2)), ends, reply)
}

pub(super) fn rpoplpush(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    move_one(
        transaction,
        (args.at(1), args.at(2)),
        (End::Right, End::Left),
        reply,
    )
}
