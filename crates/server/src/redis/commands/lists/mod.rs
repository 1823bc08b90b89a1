//! Commands on lists. Each element is stored under a key of its own, and these keys contain
//! consecutive positions (S5).
//!
//! *Scope*: operations at the ends of a list, access by index, and searches.
//!
//! *Must not depend on*: how a position is encoded in a key; that is left to
//! `store/model/format.rs`.

mod moves;
mod rewrite;

pub(super) use moves::{end, move_one};
pub(crate) use moves::{lmove, rpoplpush};

use super::sets::positive;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{OptionParser, check_room, integer, is, name, span, too_long, wrong_number};
use crate::redis::pages::{self, ElementProjection, ElementRange};
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};
use crate::store::{CommandTransaction, KeyEvent, KeyKind, WalkDirection};
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

/// The end of a list at which a command works.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListEnd {
    Left,
    Right,
}

impl ListEnd {
    /// Returns the event of taking elements from this end.
    fn pop_event(self) -> KeyEvent {
        match self {
            ListEnd::Left => KeyEvent::LPOP,
            ListEnd::Right => KeyEvent::RPOP,
        }
    }

    /// Returns the event of adding elements at this end.
    fn push_event(self) -> KeyEvent {
        match self {
            ListEnd::Left => KeyEvent::LPUSH,
            ListEnd::Right => KeyEvent::RPUSH,
        }
    }
}

fn list(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
) -> Result<Option<CollectionHeader>, CommandError> {
    transaction.collection(key, CollectionKind::List)
}

/// Returns whether a key holds a list. Fails if it holds a value of another type.
pub(super) fn exists(transaction: &mut CommandTransaction<'_>, key: &[u8]) -> Result<bool, CommandError> {
    Ok(list(transaction, key)?.is_some())
}

fn place(transaction: &CommandTransaction<'_>, list: &CollectionHeader, position: i64) -> InnerKey {
    format::position_key(transaction.database, list.number, position)
}

/// Returns the key range of the elements in a range of indexes.
fn stretch(
    transaction: &CommandTransaction<'_>,
    list: &CollectionHeader,
    indexes: Range<u64>,
    direction: WalkDirection,
) -> ElementRange {
    let at = |index| place(transaction, list, list.head.wrapping_add_unsigned(index));
    ElementRange {
        start: at(indexes.start),
        end: at(indexes.end),
        direction,
        skip: 0,
        count: indexes.end.saturating_sub(indexes.start),
    }
}

/// Calls `each` with every element in a range of indexes and the number of elements visited before
/// it, until `each` asks to stop.
pub(super) fn visit(
    transaction: &CommandTransaction<'_>,
    list: &CollectionHeader,
    indexes: Range<u64>,
    direction: WalkDirection,
    mut each: impl FnMut(u64, Vec<u8>) -> Result<ControlFlow<()>, CommandError>,
) -> CommandResult {
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

fn push_one(
    transaction: &mut CommandTransaction<'_>,
    list: &mut CollectionHeader,
    element: &[u8],
    end: ListEnd,
) {
    let position = match end {
        ListEnd::Left => {
            list.head = list.head.wrapping_sub(1);
            list.head
        }
        ListEnd::Right => list.tail(),
    };
    list.count += 1;
    let place = place(transaction, list, position);
    transaction.put(place, element.to_vec(), 0);
}

fn push(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    end: ListEnd,
    only_if_there: bool,
) -> CommandResult {
    let key = name(args.at(1))?;
    let list = list(transaction, key)?;
    let mut list = match list {
        Some(list) => list,
        None if only_if_there => {
            reply.integer(0);
            return Ok(());
        }
        None => transaction.new_collection(CollectionKind::List)?,
    };
    for element in args.from(2).iter() {
        push_one(transaction, &mut list, element, end);
    }
    transaction.save(key, &list);
    reply.integer(list.count as i64);
    Ok(())
}

pub(crate) fn lpush(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    push(transaction, args, reply, ListEnd::Left, false)
}

pub(crate) fn rpush(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    push(transaction, args, reply, ListEnd::Right, false)
}

pub(crate) fn lpushx(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    push(transaction, args, reply, ListEnd::Left, true)
}

pub(crate) fn rpushx(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    push(transaction, args, reply, ListEnd::Right, true)
}

/// Maximum number of elements to delete one by one. A range deletion deletes more than these.
const DELETED_SINGLY: u64 = 1000;

/// Removes `count` elements from an end of a list, and calls `each` with each of them in removal
/// order. The caller must then save the list's header.
fn take(
    transaction: &mut CommandTransaction<'_>,
    list: &mut CollectionHeader,
    count: u64,
    end: ListEnd,
    mut each: impl FnMut(&[u8]) -> CommandResult,
) -> CommandResult {
    if count == 1 {
        return take_one(transaction, list, end, each);
    }
    let (indexes, direction) = match end {
        ListEnd::Left => (0..count, WalkDirection::Forward),
        ListEnd::Right => (list.count - count..list.count, WalkDirection::Backward),
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
    if end == ListEnd::Left {
        list.head = list.head.wrapping_add_unsigned(count);
    }
    Ok(())
}

/// Removes an element from an end of a non-empty list. Looks the element up by its key, because a
/// batched read may have prefetched it for several commands.
fn take_one(
    transaction: &mut CommandTransaction<'_>,
    list: &mut CollectionHeader,
    end: ListEnd,
    each: impl FnOnce(&[u8]) -> CommandResult,
) -> CommandResult {
    let position = match end {
        ListEnd::Left => list.head,
        ListEnd::Right => list.tail().wrapping_sub(1),
    };
    let place = place(transaction, list, position);
    match transaction.get(&place)? {
        Some(element) => each(&element)?,
        None => return Err(miscounted(list)),
    }
    transaction.delete(place);
    list.count -= 1;
    if end == ListEnd::Left {
        list.head = list.head.wrapping_add(1);
    }
    Ok(())
}

fn miscounted(list: &CollectionHeader) -> CommandError {
    CommandError::Refused(Cow::Owned(format!(
        "ERR the elements of list {} are damaged; check the store with `alluvium check`",
        list.number
    )))
}

fn pop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    end: ListEnd,
    command: &str,
) -> CommandResult {
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

/// Removes elements from an end of a list and writes them as the reply. The list must contain at
/// least this number of elements.
fn pop_and_show(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    mut list: CollectionHeader,
    taken: u64,
    end: ListEnd,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    // If the reply becomes too long, the command fails here, before it has changed anything.
    take(transaction, &mut list, taken, end, |element| {
        reply.bulk(element);
        check_room(reply)
    })?;
    if taken > 0 {
        transaction.save(key, &list);
    }
    Ok(())
}

/// Removes up to `count` elements from an end of a list, and replies with the key and the elements.
/// Returns false without replying if the list does not exist.
pub(super) fn pop_from(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    count: u64,
    end: ListEnd,
    reply: &mut ReplyWriter<'_>,
) -> Result<bool, CommandError> {
    let Some(list) = list(transaction, key)? else {
        return Ok(false);
    };
    let taken = count.min(list.count);
    transaction.set_event(end.pop_event());
    reply.array(2);
    reply.bulk(key);
    reply.array(usize::try_from(taken).unwrap_or(usize::MAX));
    pop_and_show(transaction, key, list, taken, end, reply)?;
    Ok(true)
}

/// Removes an element from an end of a list, and replies with the key and the element. Returns
/// false without replying if the list does not exist.
pub(super) fn pop_one_from(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    end: ListEnd,
    reply: &mut ReplyWriter<'_>,
) -> Result<bool, CommandError> {
    let Some(list) = list(transaction, key)? else {
        return Ok(false);
    };
    transaction.set_event(end.pop_event());
    reply.array(2);
    reply.bulk(key);
    pop_and_show(transaction, key, list, 1, end, reply)?;
    Ok(true)
}

pub(crate) fn lpop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    pop(transaction, args, reply, ListEnd::Left, "lpop")
}

pub(crate) fn rpop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    pop(transaction, args, reply, ListEnd::Right, "rpop")
}

pub(crate) fn llen(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let count = list(transaction, args.at(1))?.map_or(0, |list| list.count);
    reply.integer(count as i64);
    Ok(())
}

pub(crate) fn lrange(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    let Some(list) = list(transaction, args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    let found = stretch(
        transaction,
        &list,
        span(start, end, list.count),
        WalkDirection::Forward,
    );
    reply.array(usize::try_from(found.count).unwrap_or(usize::MAX));
    pages::write(transaction, reply, found, ElementProjection::Value)
}

/// Returns the key of the element at an index, or `None` if the index is out of range. Negative
/// indexes count from the end.
fn at_index(transaction: &CommandTransaction<'_>, list: &CollectionHeader, index: i64) -> Option<InnerKey> {
    let index = if index < 0 {
        index.checked_add_unsigned(list.count)?
    } else {
        index
    };
    let index = u64::try_from(index).ok().filter(|&index| index < list.count)?;
    Some(place(transaction, list, list.head.wrapping_add_unsigned(index)))
}

pub(crate) fn lindex(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
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

pub(crate) fn lset(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let list = list(transaction, args.at(1))?.ok_or(CommandError::NO_SUCH_KEY)?;
    let place = at_index(transaction, &list, integer(args.at(2))?);
    let place = place.ok_or(CommandError::say("ERR index out of range"))?;
    transaction.put(place, args.at(3).to_vec(), 0);
    transaction.touch(args.at(1), KeyKind::Collection(CollectionKind::List));
    reply.ok();
    Ok(())
}

pub(crate) fn ltrim(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
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

pub(crate) fn lrem(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let count = integer(args.at(2))?;
    let Some(list) = list(transaction, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = rewrite::remove(transaction, args.at(1), list, args.at(3), count)?;
    reply.integer(i64::try_from(removed).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn linsert(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let behind = match (args.is(2, "AFTER"), args.is(2, "BEFORE")) {
        (true, _) => 1,
        (_, true) => 0,
        _ => return Err(CommandError::SYNTAX),
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
        WalkDirection::Forward,
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

/// The RANK, COUNT and MAXLEN options of LPOS. A negative rank counts matches from the end of the
/// list.
struct LposOptions {
    rank: i64,
    count: Option<usize>,
    most: usize,
}

fn search(args: Args<'_>) -> Result<LposOptions, CommandError> {
    let mut search = LposOptions {
        rank: 1,
        count: None,
        most: usize::MAX,
    };
    let mut options = OptionParser::new(args, 3);
    while let Some(word) = options.next() {
        let value = options.value()?;
        let natural = |error| {
            let number = usize::try_from(integer(value)?);
            number.map_err(|_| CommandError::say(error))
        };
        if is(word, "RANK") {
            search.rank = integer(value)?;
            if search.rank == 0 {
                return Err(CommandError::say(
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
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(search)
}

pub(crate) fn lpos(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
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
            (list.count - most..list.count, WalkDirection::Backward)
        } else {
            (0..most, WalkDirection::Forward)
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
                WalkDirection::Forward => step,
                WalkDirection::Backward => list.count - 1 - step,
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
