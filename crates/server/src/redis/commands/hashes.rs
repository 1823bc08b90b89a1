//! Commands on hashes. Each field is stored under a key of its own.

use super::draw;
use super::scan_commands::{self, ScanOptions};
use super::strings::float_sum;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, RespVersion, number};
use crate::redis::args::{OptionParser, check_room, integer, is, name, wrong_number};
use crate::redis::pages::{self, ElementProjection, ElementRange};
use crate::redis::string_store::AT_ONCE;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};
use crate::store::{CommandTransaction, OwnedPair};
use smallvec::SmallVec;

fn hash(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
) -> Result<Option<CollectionHeader>, CommandError> {
    transaction.collection(key, CollectionKind::Hash)
}

fn place(transaction: &CommandTransaction<'_>, hash: &CollectionHeader, field: &[u8]) -> InnerKey {
    format::member_key(transaction.database, hash.number, field)
}

/// Sets fields of a hash and returns how many of them are new.
fn set_all(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    command: &str,
) -> Result<u64, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(wrong_number(command));
    }
    let key = name(args.at(1))?;
    for index in (2..args.len()).step_by(2) {
        name(args.at(index))?;
    }
    let mut hash = transaction.collection_or_new(key, CollectionKind::Hash)?;
    let places: SmallVec<[InnerKey; 1]> = (2..args.len())
        .step_by(2)
        .map(|index| place(transaction, &hash, args.at(index)))
        .collect();
    // An empty hash has no fields to look up.
    let there = match hash.count {
        0 => SmallVec::new(),
        _ => transaction.are_there(&places)?,
    };
    let is_one = places.len() == 1;
    let mut count = 0;
    for (index, place) in places.into_iter().enumerate() {
        let was_there = there.get(index) == Some(&true);
        // Count a field that occurs twice in the command only once.
        if !was_there && (is_one || transaction.own_value(&place).is_none()) {
            count += 1;
        }
        transaction.put(place, args.at(3 + 2 * index).to_vec(), 0);
    }
    hash.count += count;
    transaction.save(key, &hash);
    Ok(count)
}

pub(crate) fn hset(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let count = set_all(transaction, args, "hset")?;
    reply.integer(count as i64);
    Ok(())
}

pub(crate) fn hmset(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    set_all(transaction, args, "hmset")?;
    reply.ok();
    Ok(())
}

/// Returns a hash and the value of one of its fields, with `None` for whichever does not exist.
fn field(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    field: &[u8],
) -> Result<(Option<CollectionHeader>, Option<Vec<u8>>), CommandError> {
    let Some(hash) = hash(transaction, key)? else {
        return Ok((None, None));
    };
    let place = place(transaction, &hash, field);
    let value = transaction.get(&place)?.map(|found| found.to_vec());
    Ok((Some(hash), value))
}

/// Sets a field of a hash. Creates the hash if it does not exist.
fn set_one(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    name: &[u8],
    (hash, old): (Option<CollectionHeader>, Option<&[u8]>),
    value: Vec<u8>,
) -> CommandResult {
    let mut hash = match hash {
        Some(hash) => hash,
        None => transaction.new_collection(CollectionKind::Hash)?,
    };
    hash.count += u64::from(old.is_none());
    let place = place(transaction, &hash, name);
    transaction.put(place, value, 0);
    transaction.save(key, &hash);
    Ok(())
}

pub(crate) fn hset_nx(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (key, wanted) = (name(args.at(1))?, name(args.at(2))?);
    let (hash, old) = field(transaction, key, wanted)?;
    reply.truth(old.is_none());
    if old.is_none() {
        set_one(transaction, key, wanted, (hash, None), args.at(3).to_vec())?;
    }
    Ok(())
}

pub(crate) fn hget(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (_, value) = field(transaction, args.at(1), args.at(2))?;
    reply.bulk_or_null(value.as_deref());
    Ok(())
}

pub(crate) fn hexists(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (_, value) = field(transaction, args.at(1), args.at(2))?;
    reply.truth(value.is_some());
    Ok(())
}

pub(crate) fn hstrlen(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (_, value) = field(transaction, args.at(1), args.at(2))?;
    reply.count(value.map_or(0, |value| value.len()));
    Ok(())
}

pub(crate) fn hmget(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let fields = args.from(2);
    reply.array(fields.len());
    let Some(hash) = hash(transaction, args.at(1))? else {
        fields.iter().for_each(|_| reply.null());
        return Ok(());
    };
    // Read only a few fields at a time, because a command can name a field with a long value many
    // times.
    let mut start = 0;
    while start < fields.len() {
        let at_once = AT_ONCE.min(transaction.store.sizes.most());
        let some = fields.iter().skip(start).take(at_once);
        let places: Vec<_> = some.map(|field| place(transaction, &hash, field)).collect();
        start += places.len();
        for value in transaction.multi_get(&places)? {
            transaction.store.sizes.note(value.as_ref().map_or(0, Vec::len));
            reply.bulk_or_null(value.as_deref());
        }
        check_room(reply)?;
    }
    Ok(())
}

pub(crate) fn hlen(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let count = hash(transaction, args.at(1))?.map_or(0, |hash| hash.count);
    reply.integer(count as i64);
    Ok(())
}

/// Writes the part `what` (field, value or both) of every field of a hash.
fn write_all(
    transaction: &CommandTransaction<'_>,
    reply: &mut ReplyWriter<'_>,
    hash: &CollectionHeader,
    what: ElementProjection,
) -> CommandResult {
    let whole = ElementRange::whole(transaction.database, hash.number, hash.count);
    pages::write(transaction, reply, whole, what)
}

/// Returns the number of fields, as a reply states it.
fn count(hash: Option<&CollectionHeader>) -> usize {
    hash.map_or(0, |hash| usize::try_from(hash.count).unwrap_or(usize::MAX))
}

pub(crate) fn hgetall(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let hash = hash(transaction, args.at(1))?;
    reply.map(count(hash.as_ref()));
    hash.map_or(Ok(()), |hash| {
        write_all(transaction, reply, &hash, ElementProjection::Pair)
    })
}

pub(crate) fn hkeys(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let hash = hash(transaction, args.at(1))?;
    reply.array(count(hash.as_ref()));
    hash.map_or(Ok(()), |hash| {
        write_all(transaction, reply, &hash, ElementProjection::Member)
    })
}

pub(crate) fn hvals(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let hash = hash(transaction, args.at(1))?;
    reply.array(count(hash.as_ref()));
    hash.map_or(Ok(()), |hash| {
        write_all(transaction, reply, &hash, ElementProjection::Value)
    })
}

pub(crate) fn hdel(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
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

pub(crate) fn hincr_by(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let by = integer(args.at(3))?;
    let (key, wanted) = (name(args.at(1))?, name(args.at(2))?);
    let (hash, old) = field(transaction, key, wanted)?;
    let value = match &old {
        None => 0,
        Some(text) => number::integer(text).ok_or(CommandError::say("ERR hash value is not an integer"))?,
    };
    let sum = value
        .checked_add(by)
        .ok_or(CommandError::say("ERR increment or decrement would overflow"))?;
    let text = sum.to_string().into_bytes();
    set_one(transaction, key, wanted, (hash, old.as_deref()), text)?;
    reply.integer(sum);
    Ok(())
}

pub(crate) fn hincr_by_float(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if crate::redis::args::double(args.at(3))?.is_infinite() {
        return Err(CommandError::say("ERR value is NaN or Infinity"));
    }
    let (key, wanted) = (name(args.at(1))?, name(args.at(2))?);
    let (hash, old) = field(transaction, key, wanted)?;
    if old.as_ref().is_some_and(|text| number::double(text).is_none()) {
        return Err(CommandError::say("ERR hash value is not a float"));
    }
    let sum = float_sum(old.as_deref().unwrap_or(b"0"), args.at(3))?;
    reply.bulk(&sum);
    set_one(transaction, key, wanted, (hash, old.as_deref()), sum)
}

pub(crate) fn hscan(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let cursor = scan_commands::cursor(args.at(2))?;
    // As in Redis, the options are parsed only if the key exists.
    let Some(hash) = hash(transaction, args.at(1))? else {
        scan_commands::begin(reply, 0, 0);
        return Ok(());
    };
    let wish = ScanOptions::new(args, 3)?;
    let start = format::place_key(transaction.database, hash.number, cursor);
    let end = format::behind(&format::elements(transaction.database, hash.number));
    let (next, found) =
        scan_commands::some_elements(transaction, (start, end), wish.count, format::member_of)?;
    let found: Vec<_> = found.into_iter().filter(|(field, _)| wish.fits(field)).collect();
    scan_commands::begin(reply, next, 2 * found.len());
    for (field, value) in &found {
        reply.bulk(field);
        reply.bulk(value);
    }
    Ok(())
}

pub(crate) fn hrandfield(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let mut options = OptionParser::new(args, 2);
    let count = options.next().map(random_count).transpose()?;
    let with_values = match options.next() {
        None => false,
        Some(word) if is(word, "WITHVALUES") && options.left() == 0 => true,
        Some(_) => return Err(CommandError::SYNTAX),
    };
    // As in Redis, the number of fields plus the number of values must fit into one integer.
    if with_values && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return Err(CommandError::OUT_OF_RANGE);
    }
    let hash = hash(transaction, args.at(1))?;
    let (hash, count) = match (hash, count) {
        (Some(hash), Some(count)) => (hash, count),
        (None, None) => {
            reply.null();
            return Ok(());
        }
        (None, Some(_)) => {
            reply.array(0);
            return Ok(());
        }
        (Some(hash), None) => {
            return draw::different(transaction, &hash, 1, |(key, _)| {
                reply.bulk(format::member_of(key).1);
                Ok(())
            });
        }
    };
    let nests = with_values && reply.version() == RespVersion::Three;
    let replies = if with_values && !nests { 2 } else { 1 };
    let head = |count: u64| usize::try_from(count.saturating_mul(replies)).unwrap_or(usize::MAX);
    let write = |reply: &mut ReplyWriter<'_>, (key, value): &OwnedPair| {
        if nests {
            reply.array(2);
        }
        reply.bulk(format::member_of(key).1);
        if with_values {
            reply.bulk(value);
        }
        check_room(reply)
    };
    let wanted = count.unsigned_abs();
    if count < 0 {
        draw::check_count(reply, wanted)?;
        reply.array(head(wanted));
        return draw::with_repetitions(transaction, &hash, wanted, |pair| write(reply, pair));
    }
    if wanted >= hash.count && !nests {
        let what = if with_values {
            ElementProjection::Pair
        } else {
            ElementProjection::Member
        };
        reply.array(head(hash.count));
        return write_all(transaction, reply, &hash, what);
    }
    // The reply states the number of selected elements first, but that number is known only after
    // the selection.
    let mut body = Vec::new();
    let mut drawn = ReplyWriter::new(&mut body, reply.version()).at_most(reply.most());
    let mut many = 0;
    draw::different(transaction, &hash, wanted, |pair| {
        many += 1;
        write(&mut drawn, pair)
    })?;
    reply.array(head(many));
    reply.raw(&body);
    Ok(())
}

/// Parses the number of random elements to select. If it is negative, an element may be selected
/// repeatedly.
pub(super) fn random_count(text: &[u8]) -> Result<i64, CommandError> {
    match integer(text)? {
        i64::MIN => Err(CommandError::OUT_OF_RANGE),
        count => Ok(count),
    }
}
