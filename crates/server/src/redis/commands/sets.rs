//! Commands on sets. Each member is stored under a key of its own, with an empty value.

use super::draw;
use super::hashes::random_count;
use super::scan_commands::{self, ScanOptions};
use super::set_operations::{self, SetOperation, SetOperationState, member};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{check_room, integer, name, too_long};
use crate::redis::pages::{self, ElementProjection, ElementRange, PAGE};
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};
use crate::store::{CommandTransaction, KeyEvent, StagingWriter, WorkingMemory};
use smallvec::SmallVec;

type MemberList = Vec<Vec<u8>>;

/// Number of copies of a randomly selected member in memory (in this list, in the reply and, if it
/// is removed, in the transaction and its write batch), and overhead per member in bytes.
const COPIES: usize = 4;
const PER_MEMBER: usize = 192;

fn set(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
) -> Result<Option<CollectionHeader>, CommandError> {
    transaction.collection(key, CollectionKind::Set)
}

fn place(transaction: &CommandTransaction<'_>, set: &CollectionHeader, member: &[u8]) -> InnerKey {
    format::member_key(transaction.database, set.number, member)
}

fn has(
    transaction: &mut CommandTransaction<'_>,
    set: &CollectionHeader,
    member: &[u8],
) -> Result<bool, CommandError> {
    let place = place(transaction, set, member);
    Ok(transaction.get(&place)?.is_some())
}

/// Returns for each of these members whether the set contains it.
fn which<'a>(
    transaction: &mut CommandTransaction<'_>,
    set: &CollectionHeader,
    members: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<bool>, CommandError> {
    let places: Vec<InnerKey> = members.map(|member| place(transaction, set, member)).collect();
    Ok(transaction.are_there(&places)?.into_vec())
}

fn add<'a>(
    transaction: &mut CommandTransaction<'_>,
    set: &mut CollectionHeader,
    members: impl Iterator<Item = &'a [u8]>,
) -> Result<u64, CommandError> {
    let places: SmallVec<[InnerKey; 1]> = members.map(|member| place(transaction, set, member)).collect();
    let there = match set.count {
        0 => SmallVec::new(),
        _ => transaction.are_there(&places)?,
    };
    let is_one = places.len() == 1;
    let mut count = 0;
    for (index, place) in places.into_iter().enumerate() {
        let was_there = there.get(index) == Some(&true);
        // Count a member that occurs twice in the command only once.
        if !was_there && (is_one || transaction.own_value(&place).is_none()) {
            count += 1;
            transaction.put(place, Vec::new(), 0);
        }
    }
    set.count += count;
    Ok(count)
}

pub(crate) fn sadd(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let key = name(args.at(1))?;
    for member in args.from(2).iter() {
        name(member)?;
    }
    let mut set = transaction.collection_or_new(key, CollectionKind::Set)?;
    let count = add(transaction, &mut set, args.from(2).iter())?;
    if count > 0 {
        transaction.save(key, &set);
    }
    reply.integer(count as i64);
    Ok(())
}

pub(crate) fn srem(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
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

pub(crate) fn scard(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let count = set(transaction, args.at(1))?.map_or(0, |set| set.count);
    reply.integer(count as i64);
    Ok(())
}

pub(crate) fn sismember(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let is_there = match set(transaction, args.at(1))? {
        None => false,
        Some(set) => has(transaction, &set, args.at(2))?,
    };
    reply.truth(is_there);
    Ok(())
}

pub(crate) fn smismember(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let members = args.from(2);
    let there = match set(transaction, args.at(1))? {
        None => vec![false; members.len()],
        Some(set) => which(transaction, &set, members.iter())?,
    };
    reply.array(there.len());
    there.iter().for_each(|&is_there| reply.truth(is_there));
    Ok(())
}

pub(crate) fn smembers(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let Some(set) = set(transaction, args.at(1))? else {
        reply.set(0);
        return Ok(());
    };
    reply.set(usize::try_from(set.count).unwrap_or(usize::MAX));
    write_all(transaction, reply, &set)
}

fn write_all(
    transaction: &CommandTransaction<'_>,
    reply: &mut ReplyWriter<'_>,
    set: &CollectionHeader,
) -> CommandResult {
    let whole = ElementRange::whole(transaction.database, set.number, set.count);
    pages::write(transaction, reply, whole, ElementProjection::Member)
}

fn reply_set(reply: &mut ReplyWriter<'_>, members: &[Vec<u8>]) {
    reply.set(members.len());
    members.iter().for_each(|member| reply.bulk(member));
}

pub(crate) fn smove(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
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
    transaction.set_event(KeyEvent::SREM);
    transaction.save(from, &source);
    transaction.set_event(KeyEvent::SADD);
    let mut target = match target {
        Some(target) => target,
        None => transaction.new_collection(CollectionKind::Set)?,
    };
    // Notify the target's watchers only if the member is new in it.
    if add(transaction, &mut target, std::iter::once(member))? > 0 {
        transaction.save(to, &target);
    }
    Ok(())
}

/// Selects up to `count` distinct random members, and charges their memory. Fails if they do not
/// fit into a reply or into memory.
fn drawn<'s>(
    transaction: &CommandTransaction<'s>,
    set: &CollectionHeader,
    count: u64,
    reply: &ReplyWriter<'_>,
) -> Result<(MemberList, WorkingMemory<'s>), CommandError> {
    let mut working = WorkingMemory::new(transaction.store);
    let (mut members, mut bytes) = (MemberList::new(), reply.position());
    draw::different(transaction, set, count, |(key, _)| {
        let member = format::member_of(key).1;
        bytes += member.len();
        if bytes > reply.most() {
            return Err(too_long(reply.most()));
        }
        working.add(COPIES * member.len() + PER_MEMBER)?;
        members.push(member.to_vec());
        Ok(())
    })?;
    Ok((members, working))
}

/// Parses a number and rejects negative ones.
pub(crate) fn positive(text: &[u8]) -> Result<u64, CommandError> {
    const ERROR: CommandError = CommandError::say("ERR value is out of range, must be positive");
    let number = integer(text).map_err(|_| ERROR)?;
    u64::try_from(number).map_err(|_| ERROR)
}

pub(crate) fn spop(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if args.len() > 3 {
        return Err(CommandError::SYNTAX);
    }
    let count = args.get(2).map(positive).transpose()?;
    let Some(mut set) = set(transaction, args.at(1))? else {
        match count {
            None => reply.null(),
            Some(_) => reply.set(0),
        }
        return Ok(());
    };
    let (drawn, _working) = drawn(transaction, &set, count.unwrap_or(1), reply)?;
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

pub(crate) fn srandmember(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if args.len() > 3 {
        return Err(CommandError::SYNTAX);
    }
    let count = args.get(2).map(random_count).transpose()?;
    let set = set(transaction, args.at(1))?;
    match (&set, count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => {
            let (drawn, _working) = drawn(transaction, set, 1, reply)?;
            reply.bulk_or_null(drawn.first().map(Vec::as_slice));
        }
        (Some(set), Some(count @ 0..)) if count.unsigned_abs() >= set.count => {
            reply.array(usize::try_from(set.count).unwrap_or(usize::MAX));
            write_all(transaction, reply, set)?;
        }
        (Some(set), Some(count @ 0..)) => {
            let (drawn, _working) = drawn(transaction, set, count.unsigned_abs(), reply)?;
            reply.array(drawn.len());
            drawn.iter().for_each(|member| reply.bulk(member));
        }
        (Some(set), Some(count)) => {
            let count = count.unsigned_abs();
            draw::check_count(reply, count)?;
            reply.array(usize::try_from(count).unwrap_or(usize::MAX));
            draw::with_repetitions(transaction, set, count, |(key, _)| {
                reply.bulk(format::member_of(key).1);
                check_room(reply)
            })?;
        }
    }
    Ok(())
}

pub(crate) fn sscan(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let cursor = scan_commands::cursor(args.at(2))?;
    // As in Redis, the options are parsed only if the key exists.
    let Some(set) = set(transaction, args.at(1))? else {
        scan_commands::begin(reply, 0, 0);
        return Ok(());
    };
    let wish = ScanOptions::new(args, 3)?;
    let start = format::place_key(transaction.database, set.number, cursor);
    let end = format::behind(&format::elements(transaction.database, set.number));
    let (next, found) =
        scan_commands::some_elements(transaction, (start, end), wish.count, format::member_of)?;
    let found: Vec<_> = found
        .into_iter()
        .filter(|(member, _)| wish.fits(member))
        .collect();
    scan_commands::begin(reply, next, found.len());
    found.iter().for_each(|(member, _)| reply.bulk(member));
    Ok(())
}

fn combination(
    transaction: &mut CommandTransaction<'_>,
    keys: Args<'_>,
    sum: SetOperation,
) -> Result<SetOperationState, CommandError> {
    let mut sets = Vec::with_capacity(keys.len());
    for key in keys.iter() {
        sets.push(set(transaction, key)?);
    }
    Ok(SetOperationState::new(sum, transaction.database, &sets))
}

/// Replies with the result of a set operation. The reply must begin with the number of members, so
/// members that do not fit into a page are computed twice: once to count them, and once to send
/// them.
fn show(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    sum: SetOperation,
) -> CommandResult {
    let from_start = combination(transaction, args.from(1), sum)?;
    let mut walk = from_start.clone();
    let (mut listed, mut bytes, mut count) = (MemberList::new(), 0, 0);
    while let Some(page) = walk.next_page(&*transaction)? {
        count += page.len();
        for part in page {
            bytes += part.len() + size_of::<Vec<u8>>();
            if bytes <= PAGE || !reply.accepts_tail() {
                listed.push(member(&part).to_vec());
            }
        }
        if !reply.accepts_tail() && bytes > reply.most() {
            return Err(too_long(reply.most()));
        }
    }
    if listed.len() == count {
        reply_set(reply, &listed);
    } else {
        reply.set(count);
        reply.set_tail(set_operations::tail(transaction.store, from_start));
    }
    Ok(())
}

fn keep(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    sum: SetOperation,
) -> CommandResult {
    let key = name(args.at(1))?;
    let mut walk = combination(transaction, args.from(2), sum)?;
    let database = transaction.database;
    let mut set = transaction.new_collection(CollectionKind::Set)?;
    let mut staging = StagingWriter::new(transaction, database, set.number);
    while let Some(page) = walk.next_page(&*transaction)? {
        set.count += page.len() as u64;
        for part in page {
            let mut place = format::elements(database, set.number);
            place.extend_from_slice(&part);
            staging.put(place, Vec::new())?;
        }
    }
    staging.finish(transaction)?;
    transaction.remove(key)?;
    if set.count > 0 {
        transaction.save(key, &set);
    }
    reply.integer(i64::try_from(set.count).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn sunion(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    show(transaction, args, reply, SetOperation::Union)
}

pub(crate) fn sinter(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    show(transaction, args, reply, SetOperation::Intersection)
}

pub(crate) fn sdiff(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    show(transaction, args, reply, SetOperation::Difference)
}

pub(crate) fn sunion_store(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    keep(transaction, args, reply, SetOperation::Union)
}

pub(crate) fn sinter_store(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    keep(transaction, args, reply, SetOperation::Intersection)
}

pub(crate) fn sdiff_store(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    keep(transaction, args, reply, SetOperation::Difference)
}
