//! Lists: one record per element, at consecutive positions (S5).
//!
//! *Knows*: ends, indexes, searches.
//!
//! *Does not know*: how a position is encoded in a key; that is left to `store/model/format.rs`.
//!
//! *Read in this order*: this file, then `rewrite.rs` (LINSERT and LREM, which move elements).

mod rewrite;

use super::sets::positive;
use crate::error::Failure;
use crate::protocol::resp::{Args, Reply};
use crate::redis::args::{Options, check_room, integer, is, name, span, too_long, wrong_number};
use crate::redis::pages::{self, Show, Stretch};
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{Collection, Kind};
use crate::store::{Direction, Transaction};
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

type Done = Result<(), Failure>;

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

fn list(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Collection>, Failure> {
    transaction.collection(key, Kind::List)
}

fn place(transaction: &Transaction<'_>, list: &Collection, position: i64) -> InnerKey {
    format::position_key(transaction.database, list.number, position)
}

/// Returns the elements of a range of indexes as a stretch of keys.
fn stretch(
    transaction: &Transaction<'_>,
    list: &Collection,
    indexes: Range<u64>,
    direction: Direction,
) -> Stretch {
    let at = |index| place(transaction, list, list.head.wrapping_add_unsigned(index));
    Stretch {
        start: at(indexes.start),
        end: at(indexes.end),
        direction,
        skip: 0,
        count: indexes.end.saturating_sub(indexes.start),
    }
}

/// Calls `each` with the elements of a range of indexes and the number before each, until it
/// returns false.
pub(super) fn visit(
    transaction: &Transaction<'_>,
    list: &Collection,
    indexes: Range<u64>,
    direction: Direction,
    mut each: impl FnMut(u64, Vec<u8>) -> Result<ControlFlow<()>, Failure>,
) -> Done {
    let stretch = stretch(transaction, list, indexes, direction);
    let mut scan = transaction.scan(stretch.start, stretch.end, direction);
    let mut step = 0;
    while let Some((_, value)) = scan.next()? {
        if each(step, value)?.is_break() {
            break;
        }
        step += 1;
    }
    Ok(())
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

pub(crate) fn lpush(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    push(transaction, args, reply, End::Left, false)
}

pub(crate) fn rpush(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    push(transaction, args, reply, End::Right, false)
}

pub(crate) fn lpushx(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    push(transaction, args, reply, End::Left, true)
}

pub(crate) fn rpushx(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    push(transaction, args, reply, End::Right, true)
}

/// Up to this number of elements are deleted one by one; more are deleted as a range.
const DELETED_SINGLY: u64 = 1000;

/// Removes elements from an end and passes them to `each` in order of removal. The caller saves the
/// list.
fn take(
    transaction: &mut Transaction<'_>,
    list: &mut Collection,
    count: u64,
    end: End,
    mut each: impl FnMut(&[u8]) -> Done,
) -> Done {
    if count == 1 {
        return take_one(transaction, list, end, each);
    }
    let (indexes, direction) = match end {
        End::Left => (0..count, Direction::Forward),
        End::Right => (list.count - count..list.count, Direction::Backward),
    };
    visit(transaction, list, indexes.clone(), direction, |_, element| {
        each(&element)?;
        Ok(ControlFlow::Continue(()))
    })?;
    if count > DELETED_SINGLY {
        let gone = stretch(transaction, list, indexes, direction);
        transaction.delete_range(gone.start, gone.end);
    } else {
        for index in indexes {
            let place = place(transaction, list, list.head.wrapping_add_unsigned(index));
            transaction.delete(place);
        }
    }
    list.count -= count;
    if end == End::Left {
        list.head = list.head.wrapping_add_unsigned(count);
    }
    Ok(())
}

/// Removes an element from an end of a non-empty list. Looks it up by key, because it may have been
/// prefetched with those of neighbouring commands.
fn take_one(
    transaction: &mut Transaction<'_>,
    list: &mut Collection,
    end: End,
    each: impl FnOnce(&[u8]) -> Done,
) -> Done {
    let position = match end {
        End::Left => list.head,
        End::Right => list.tail().wrapping_sub(1),
    };
    let place = place(transaction, list, position);
    match transaction.get(&place)? {
        Some(element) => each(&element)?,
        None => return Err(miscounted(list)),
    }
    transaction.delete(place);
    list.count -= 1;
    if end == End::Left {
        list.head = list.head.wrapping_add(1);
    }
    Ok(())
}

fn miscounted(list: &Collection) -> Failure {
    Failure::Refused(Cow::Owned(format!(
        "ERR the elements of list {} are damaged: check the store",
        list.number
    )))
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
    let Some(list) = list(transaction, args.at(1))? else {
        match count {
            None => reply.null(),
            Some(_) => reply.null_array(),
        }
        return Ok(());
    };
    let taken = count.unwrap_or(1).min(list.count);
    if count.is_some() {
        reply.array(usize::try_from(taken).unwrap_or(usize::MAX));
    }
    pop_and_show(transaction, args.at(1), list, taken, end, reply)
}

/// Removes elements from an end of a list that has at least as many, and replies with them.
fn pop_and_show(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    mut list: Collection,
    taken: u64,
    end: End,
    reply: &mut Reply<'_>,
) -> Done {
    // The command fails before it has changed anything if the reply becomes too long.
    take(transaction, &mut list, taken, end, |element| {
        reply.bulk(element);
        check_room(reply)
    })?;
    if taken > 0 {
        transaction.save(key, &list);
    }
    Ok(())
}

/// Removes up to a number of elements from an end of a list and replies with its key and the
/// elements. Returns false if the list does not exist.
pub(super) fn pop_from(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    count: u64,
    end: End,
    reply: &mut Reply<'_>,
) -> Result<bool, Failure> {
    let Some(list) = list(transaction, key)? else {
        return Ok(false);
    };
    let taken = count.min(list.count);
    reply.array(2);
    reply.bulk(key);
    reply.array(usize::try_from(taken).unwrap_or(usize::MAX));
    pop_and_show(transaction, key, list, taken, end, reply)?;
    Ok(true)
}

pub(crate) fn lpop(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    pop(transaction, args, reply, End::Left, "lpop")
}

pub(crate) fn rpop(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    pop(transaction, args, reply, End::Right, "rpop")
}

pub(crate) fn llen(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let count = list(transaction, args.at(1))?.map_or(0, |list| list.count);
    reply.integer(count as i64);
    Ok(())
}

pub(crate) fn lrange(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    let Some(list) = list(transaction, args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    let found = stretch(
        transaction,
        &list,
        span(start, end, list.count),
        Direction::Forward,
    );
    reply.array(usize::try_from(found.count).unwrap_or(usize::MAX));
    pages::write(transaction, reply, found, Show::Value)
}

/// Returns the key of the element at an index, which counts from the end if it is negative.
fn at_index(transaction: &Transaction<'_>, list: &Collection, index: i64) -> Option<InnerKey> {
    let index = if index < 0 {
        index.checked_add_unsigned(list.count)?
    } else {
        index
    };
    let index = u64::try_from(index).ok().filter(|&index| index < list.count)?;
    Some(place(transaction, list, list.head.wrapping_add_unsigned(index)))
}

pub(crate) fn lindex(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    // As in Redis, the index is parsed only if the list exists.
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

pub(crate) fn lset(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let list = list(transaction, args.at(1))?.ok_or(Failure::NO_SUCH_KEY)?;
    let place = at_index(transaction, &list, integer(args.at(2))?);
    let place = place.ok_or(Failure::say("ERR index out of range"))?;
    transaction.put(place, args.at(3).to_vec(), 0);
    transaction.touch(args.at(1));
    reply.ok();
    Ok(())
}

pub(crate) fn ltrim(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
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

pub(crate) fn lrem(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let count = integer(args.at(2))?;
    let Some(list) = list(transaction, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = rewrite::remove(transaction, args.at(1), list, args.at(3), count)?;
    reply.integer(i64::try_from(removed).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn linsert(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let behind = match (args.is(2, "AFTER"), args.is(2, "BEFORE")) {
        (true, _) => 1,
        (_, true) => 0,
        _ => return Err(Failure::SYNTAX),
    };
    let Some(list) = list(transaction, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let mut pivot = None;
    visit(
        transaction,
        &list,
        0..list.count,
        Direction::Forward,
        |index, element| {
            Ok(if element == args.at(3) {
                pivot = Some(index);
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        },
    )?;
    let Some(pivot) = pivot else {
        reply.integer(-1);
        return Ok(());
    };
    let count = rewrite::insert(transaction, args.at(1), list, pivot + behind, args.at(4))?;
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

/// The arguments of LPOS.
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

pub(crate) fn lpos(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let search = search(args)?;
    let wanted = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let mut found = Vec::new();
    if let Some(list) = list(transaction, args.at(1))? {
        let most = list.count.min(search.most as u64);
        let (indexes, direction) = if search.rank < 0 {
            (list.count - most..list.count, Direction::Backward)
        } else {
            (0..most, Direction::Forward)
        };
        let mut skipped = search.rank.unsigned_abs() - 1;
        let room = reply.most() / size_of::<u64>();
        visit(transaction, &list, indexes, direction, |step, element| {
            if element != args.at(2) {
                return Ok(ControlFlow::Continue(()));
            }
            if skipped > 0 {
                skipped -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            found.push(match direction {
                Direction::Forward => step,
                Direction::Backward => list.count - 1 - step,
            });
            if found.len() > room {
                return Err(too_long(reply.most()));
            }
            Ok(if found.len() < wanted {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
    }
    match (search.count, found.first()) {
        (None, None) => reply.null(),
        (None, Some(&index)) => reply.integer(index as i64),
        (Some(_), _) => {
            reply.array(found.len());
            found.iter().for_each(|&index| reply.integer(index as i64));
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
    let mut element = Vec::new();
    take(transaction, &mut source, 1, start, |taken| {
        element = taken.to_vec();
        Ok(())
    })?;
    let element = &element[..];
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

pub(crate) fn lmove(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let ends = (end(args.at(3))?, end(args.at(4))?);
    move_one(transaction, (args.at(1), args.at(2)), ends, reply)
}

pub(crate) fn rpoplpush(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    move_one(
        transaction,
        (args.at(1), args.at(2)),
        (End::Right, End::Left),
        reply,
    )
}
