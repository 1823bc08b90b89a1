//! Commands on keys with values of any type.

use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{OptionParser, integer, is, name};
use crate::redis::string_store::StringStore;
use crate::store::model::{CollectionHeader, CollectionKind, TypedValue, format};
use crate::store::{
    ChunkCounter, CommandTransaction, DATABASES, KeyEvent, KeyKind, StagingWriter, WalkDirection,
};

pub(crate) fn del(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    transaction.fetch_records(args.from(1).iter())?;
    let mut count = 0;
    for key in args.from(1).iter() {
        count += usize::from(transaction.remove(key)?);
    }
    reply.count(count);
    Ok(())
}

pub(crate) fn exists(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    transaction.fetch_records(args.from(1).iter())?;
    let mut count = 0;
    for key in args.from(1).iter() {
        count += usize::from(transaction.entry(key)?.is_some());
    }
    reply.count(count);
    Ok(())
}

pub(crate) fn type_of(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let entry = transaction.entry(args.at(1))?;
    reply.simple(entry.map_or("none", |entry| entry.type_name()));
    Ok(())
}

/// A key's value, copied so that it does not borrow the transaction.
enum OwnedTypedValue {
    Text(Vec<u8>, u64),
    Collection(CollectionHeader),
}

fn held(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
) -> Result<Option<OwnedTypedValue>, CommandError> {
    Ok(transaction.entry(key)?.map(|entry| match entry {
        TypedValue::Text(text) => OwnedTypedValue::Text(text.to_vec(), text.expires_ms),
        TypedValue::Collection(collection) => OwnedTypedValue::Collection(collection),
    }))
}

fn move_to(
    transaction: &mut CommandTransaction<'_>,
    from: &[u8],
    to: &[u8],
    held: OwnedTypedValue,
) -> CommandResult {
    transaction.remove(to)?;
    transaction.delete(format::record_key(transaction.database, from));
    transaction.touch_as(from, KeyKind::Absent, KeyEvent::RENAME_FROM);
    match held {
        OwnedTypedValue::Text(text, expires_ms) => transaction.overwrite_text(to, &[&text], expires_ms),
        OwnedTypedValue::Collection(mut collection) => {
            // The elements stay in place, because they are stored under the collection's number.
            // Only the mark and the expiry index entry must refer to the new key; the reaper uses
            // the latter to find the collection when it expires.
            let expires_ms = collection.expires_ms;
            transaction.unmark(from, collection.number);
            transaction.mark(to, collection.number);
            transaction.set_expiry(to, &mut collection, expires_ms);
            transaction.save(to, &collection);
        }
    }
    Ok(())
}

pub(crate) fn rename(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (from, to) = (args.at(1), name(args.at(2))?);
    let held = held(transaction, from)?.ok_or(CommandError::NO_SUCH_KEY)?;
    if from != to {
        move_to(transaction, from, to, held)?;
    }
    reply.ok();
    Ok(())
}

pub(crate) fn rename_nx(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (from, to) = (args.at(1), name(args.at(2))?);
    let held = held(transaction, from)?.ok_or(CommandError::NO_SUCH_KEY)?;
    let is_free = transaction.entry(to)?.is_none();
    if is_free {
        move_to(transaction, from, to, held)?;
    }
    reply.truth(is_free);
    Ok(())
}

pub(crate) fn copy(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (from, to) = (args.at(1), name(args.at(2))?);
    let here = transaction.database;
    let (mut there, mut replaces) = (here, false);
    let mut options = OptionParser::new(args, 3);
    while let Some(word) = options.next() {
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "DB") {
            there = transaction.number_of(database(options.value()?)?);
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if from == to && here == there {
        return Err(CommandError::say(
            "ERR source and destination objects are the same",
        ));
    }
    let source = held(transaction, from)?;
    transaction.database = there;
    let result = copy_to(transaction, here, to, source, replaces);
    transaction.database = here;
    reply.truth(result?);
    Ok(())
}

/// Returns whether a COPY command targets a database other than `here`. Returns false if its
/// arguments are invalid, because COPY itself reports the error.
pub(crate) fn copies_beyond(args: Args<'_>, here: u8) -> bool {
    let mut options = OptionParser::new(args, 3);
    while let Some(word) = options.next() {
        let there = is(word, "DB").then(|| options.value().and_then(database));
        if matches!(there, Some(Ok(there)) if there != here) {
            return true;
        }
    }
    false
}

/// The MOVE command. Moves a key to another database, unless that database already contains the
/// key.
pub(crate) fn move_key(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let key = args.at(1);
    let here = transaction.database;
    let there = transaction.number_of(database(args.at(2))?);
    if here == there {
        return Err(CommandError::say(
            "ERR source and destination objects are the same",
        ));
    }
    let source = held(transaction, key)?;
    transaction.database = there;
    let result = copy_to(transaction, here, key, source, false);
    transaction.database = here;
    let is_moved = result?;
    if is_moved {
        transaction.remove_as(key, KeyEvent::MOVE_FROM)?;
    }
    reply.truth(is_moved);
    Ok(())
}

/// The SWAPDB command. Swaps two databases for all clients atomically.
pub(crate) fn swap_db(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let number = |index, which: &'static str| match integer(args.at(index)) {
        Ok(_) => database(args.at(index)),
        Err(_) => Err(CommandError::say(which)),
    };
    let one = number(1, "ERR invalid first DB index")?;
    let other = number(2, "ERR invalid second DB index")?;
    if one != other {
        transaction.swap(one, other)?;
    }
    reply.ok();
    Ok(())
}

fn copy_to(
    transaction: &mut CommandTransaction<'_>,
    here: u8,
    to: &[u8],
    source: Option<OwnedTypedValue>,
    replaces: bool,
) -> Result<bool, CommandError> {
    let Some(source) = source else {
        return Ok(false);
    };
    if !replaces && transaction.entry(to)?.is_some() {
        return Ok(false);
    }
    match source {
        OwnedTypedValue::Text(text, expires_ms) => {
            transaction.remove(to)?;
            transaction.overwrite_text(to, &[&text], expires_ms);
        }
        OwnedTypedValue::Collection(old) => {
            let mut new = transaction.new_collection(old.kind)?;
            (new.count, new.head) = (old.count, old.head);
            copy_elements(transaction, here, &old, &mut new)?;
            transaction.remove(to)?;
            transaction.set_expiry(to, &mut new, old.expires_ms);
            transaction.save(to, &new);
        }
    }
    Ok(true)
}

fn copy_elements(
    transaction: &mut CommandTransaction<'_>,
    here: u8,
    old: &CollectionHeader,
    new: &mut CollectionHeader,
) -> CommandResult {
    let there = transaction.database;
    let mut staging = StagingWriter::new(transaction, there, new.number);
    let mut counting = ChunkCounter::new(old.count);
    let start = format::elements(here, old.number);
    let end = format::behind(&start);
    let (counts, scores) = (format::chunks(here, old.number), format::scores(here, old.number));
    let mut scan = transaction.scan(start, end, WalkDirection::Forward);
    while let Some((key, value)) = scan.next()? {
        if old.kind == CollectionKind::SortedSet {
            if (&counts.0[..]..&counts.1[..]).contains(&&key[..]) {
                continue;
            }
            if key[..] >= scores.0[..] {
                counting.add(&key);
            }
        }
        let mut inner = format::elements(there, new.number);
        inner.extend_from_slice(key.get(format::ELEMENT_PREFIX..).unwrap_or_default());
        staging.put(inner, value)?;
    }
    drop(scan);
    staging.finish(transaction)?;
    if old.kind == CollectionKind::SortedSet {
        transaction.adopt_order(new, counting)?;
    }
    Ok(())
}

/// Parses a database number from 0 to 15.
pub(crate) fn database(text: &[u8]) -> Result<u8, CommandError> {
    let number = integer(text)?;
    let number = u8::try_from(number).ok().filter(|&number| number < DATABASES);
    number.ok_or(CommandError::say("ERR DB index is out of range"))
}

pub(crate) fn flush_mode(args: Args<'_>) -> CommandResult {
    match args.len() {
        1 => Ok(()),
        2 if args.is(1, "SYNC") || args.is(1, "ASYNC") => Ok(()),
        _ => Err(CommandError::SYNTAX),
    }
}

pub(crate) fn flush_db(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    flush_mode(args)?;
    transaction.empty(transaction.database)?;
    reply.ok();
    Ok(())
}

pub(crate) fn flush_all(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    flush_mode(args)?;
    for database in 0..DATABASES {
        transaction.empty(database)?;
    }
    reply.ok();
    Ok(())
}
