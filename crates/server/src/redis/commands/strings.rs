//! Commands on strings, which are stored in their keys' records.

use super::expiry::{ExpiryUnit, moment};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, number};
use crate::redis::args::{OptionParser, check_room, double, integer, is, name, wrong_number};
use crate::redis::string_store::{StringStore, fits};
use crate::store::model::TypedValue;

/// A copy of a string to be changed. It is empty if the key does not exist.
pub(super) struct StringUpdate<M> {
    pub(crate) text: Vec<u8>,
    pub(crate) expires_ms: u64,
    /// The memory charge for the new value.
    _working: M,
}

/// Copies the string stored under a key, and charges the memory for its new value. `grown` computes
/// the string's new length from its old one.
pub(super) fn to_change<T: StringStore>(
    transaction: &mut T,
    key: &[u8],
    grown: impl FnOnce(usize) -> usize,
) -> Result<StringUpdate<T::ChangeMemory>, CommandError> {
    let memory = transaction.memory();
    let old = transaction.text(key)?;
    let old_len = old.as_ref().map_or(0, |text| text.len());
    // Charge the memory before copying the value.
    let working = T::room_to_grow(memory, grown(old_len).max(old_len))?;
    Ok(StringUpdate {
        expires_ms: old.as_ref().map_or(0, |text| text.expires_ms),
        text: old.map_or_else(Vec::new, |text| text.to_vec()),
        _working: working,
    })
}

pub(crate) fn get(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let text = transaction.text(args.at(1))?;
    reply.bulk_or_null(text.as_deref());
    Ok(())
}

pub(crate) fn mget(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    reply.array(args.len() - 1);
    let at_once = transaction.at_once();
    let mut start = 1;
    while start < args.len() {
        let end = (start + at_once).min(args.len());
        let keys = args.from(start).iter().take(end - start);
        if args.len() - 1 > at_once {
            transaction.fetch_these(keys.clone())?;
        } else {
            transaction.fetch_records(keys.clone())?;
        }
        for key in keys {
            match transaction.entry(key)? {
                Some(TypedValue::Text(text)) => reply.bulk(&text),
                _ => reply.null(),
            }
        }
        if end < args.len() {
            check_room(reply)?;
        }
        start = end;
    }
    Ok(())
}

#[derive(Default)]
struct SetCommandOptions {
    if_absent: bool,
    if_present: bool,
    returns_old: bool,
    keeps_expiry: bool,
    expires_ms: u64,
}

fn parse_set_options(args: Args<'_>, now_ms: u64) -> Result<SetCommandOptions, CommandError> {
    let mut how = SetCommandOptions::default();
    let mut expiry = None;
    let mut options = OptionParser::new(args, 3);
    while let Some(word) = options.next() {
        let has_expiry = how.keeps_expiry || expiry.is_some();
        if is(word, "NX") && !how.if_present {
            how.if_absent = true;
        } else if is(word, "XX") && !how.if_absent {
            how.if_present = true;
        } else if is(word, "GET") {
            how.returns_old = true;
        } else if is(word, "KEEPTTL") && expiry.is_none() {
            how.keeps_expiry = true;
        } else if let Some(unit) = ExpiryUnit::of_option(word)
            && !has_expiry
        {
            expiry = Some((unit, options.value()?));
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if let Some((unit, value)) = expiry {
        how.expires_ms = moment(value, unit, now_ms, "set")?;
    }
    Ok(how)
}

pub(crate) fn set(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (key, value) = (name(args.at(1))?, args.at(2));
    fits(value.len())?;
    if args.len() == 3 {
        transaction.set_text(key, &[value], 0)?;
        reply.ok();
        return Ok(());
    }
    let mut how = parse_set_options(args, transaction.now_ms())?;
    let reads = how.if_absent || how.if_present || how.returns_old || how.keeps_expiry;
    if !reads {
        transaction.set_text(key, &[value], how.expires_ms)?;
        reply.ok();
        return Ok(());
    }
    let old = transaction.entry(key)?;
    let is_there = old.is_some();
    if how.keeps_expiry {
        how.expires_ms = old.as_ref().map_or(0, TypedValue::expires_ms);
    }
    let sets = if is_there { !how.if_absent } else { !how.if_present };
    match (&old, how.returns_old) {
        (Some(TypedValue::Collection(_)), true) => return Err(CommandError::WRONG_TYPE),
        (Some(TypedValue::Text(text)), true) => reply.bulk(text),
        (None, true) => reply.null(),
        (_, false) if sets => reply.ok(),
        (_, false) => reply.null(),
    }
    drop(old);
    if sets {
        transaction.set_text(key, &[value], how.expires_ms)?;
    }
    Ok(())
}

pub(crate) fn set_nx(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    fits(args.at(2).len())?;
    let sets = transaction.entry(name(args.at(1))?)?.is_none();
    if sets {
        transaction.overwrite_text(args.at(1), &[args.at(2)], 0)?;
    }
    reply.truth(sets);
    Ok(())
}

fn set_until(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    unit: ExpiryUnit,
    command: &str,
) -> CommandResult {
    fits(args.at(3).len())?;
    let expires_ms = moment(args.at(2), unit, transaction.now_ms(), command)?;
    transaction.set_text(name(args.at(1))?, &[args.at(3)], expires_ms)?;
    reply.ok();
    Ok(())
}

pub(crate) fn set_ex(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    set_until(transaction, args, reply, ExpiryUnit::InSeconds, "setex")
}

pub(crate) fn pset_ex(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    set_until(transaction, args, reply, ExpiryUnit::InMilliseconds, "psetex")
}

/// A key and its new value.
type StringAssignment<'a> = (&'a [u8], &'a [u8]);

/// Returns the keys and values of MSET or MSETNX. Returns an error if a value is missing.
fn pairs<'a>(args: Args<'a>, command: &str) -> Result<Vec<StringAssignment<'a>>, CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(wrong_number(command));
    }
    let mut pairs = Vec::with_capacity(args.len() / 2);
    for index in (1..args.len()).step_by(2) {
        fits(args.at(index + 1).len())?;
        pairs.push((name(args.at(index))?, args.at(index + 1)));
    }
    Ok(pairs)
}

pub(crate) fn mset(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    for (key, value) in pairs(args, "mset")? {
        transaction.set_text(key, &[value], 0)?;
    }
    reply.ok();
    Ok(())
}

pub(crate) fn mset_nx(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let pairs = pairs(args, "msetnx")?;
    transaction.fetch_records(pairs.iter().map(|(key, _)| *key))?;
    for (key, _) in &pairs {
        if transaction.entry(key)?.is_some() {
            reply.integer(0);
            return Ok(());
        }
    }
    for (key, value) in pairs {
        transaction.overwrite_text(key, &[value], 0)?;
    }
    reply.integer(1);
    Ok(())
}

pub(crate) fn get_set(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    fits(args.at(2).len())?;
    let key = name(args.at(1))?;
    reply.bulk_or_null(transaction.text(key)?.as_deref());
    transaction.overwrite_text(key, &[args.at(2)], 0)?;
    Ok(())
}

pub(crate) fn get_del(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let text = transaction.text(args.at(1))?;
    reply.bulk_or_null(text.as_deref());
    if text.is_some() {
        drop(text);
        transaction.remove(args.at(1))?;
    }
    Ok(())
}

pub(crate) fn get_ex(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let mut options = OptionParser::new(args, 2);
    let expires = match options.next() {
        None => None,
        Some(word) if is(word, "PERSIST") => Some(None),
        Some(word) => {
            let unit = ExpiryUnit::of_option(word).ok_or(CommandError::SYNTAX)?;
            Some(Some((unit, options.value()?)))
        }
    };
    if options.left() > 0 {
        return Err(CommandError::SYNTAX);
    }
    let now_ms = transaction.now_ms();
    let Some(text) = transaction.text(args.at(1))? else {
        reply.null();
        return Ok(());
    };
    let expires_ms = match expires {
        None => {
            reply.bulk(&text);
            return Ok(());
        }
        Some(None) => 0,
        Some(Some((unit, value))) => moment(value, unit, now_ms, "getex")?,
    };
    reply.bulk(&text);
    let has_changed = expires_ms != text.expires_ms;
    drop(text);
    if expires_ms != 0 && expires_ms <= now_ms {
        transaction.remove(args.at(1))?;
    } else if has_changed {
        transaction.expire(args.at(1), expires_ms)?;
    }
    Ok(())
}

pub(crate) fn strlen(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    reply.count(transaction.text(args.at(1))?.map_or(0, |text| text.len()));
    Ok(())
}

pub(crate) fn append(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let key = name(args.at(1))?;
    let more = args.at(2);
    let old = to_change(transaction, key, |length| length + more.len())?;
    transaction.overwrite_text(key, &[&old.text, more], old.expires_ms)?;
    reply.count(old.text.len() + more.len());
    Ok(())
}

pub(crate) fn get_range(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    let Some(text) = transaction.text(args.at(1))? else {
        reply.bulk(b"");
        return Ok(());
    };
    let length = text.len() as i64;
    if start < 0 && end < 0 && start > end {
        reply.bulk(b"");
        return Ok(());
    }
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(length).max(0)
        } else {
            index
        }
    };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    let part = if start > end {
        None
    } else {
        text.get(start as usize..=end as usize)
    };
    reply.bulk(part.unwrap_or_default());
    Ok(())
}

pub(crate) fn set_range(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (key, part) = (name(args.at(1))?, args.at(3));
    let offset = integer(args.at(2))?;
    let offset = usize::try_from(offset).map_err(|_| CommandError::say("ERR offset is out of range"))?;
    if part.is_empty() {
        reply.count(transaction.text(key)?.map_or(0, |text| text.len()));
        return Ok(());
    }
    let end = offset.saturating_add(part.len());
    let mut string = to_change(transaction, key, |_| end)?;
    if string.text.len() < end {
        string.text.resize(end, 0);
    }
    string.text[offset..end].copy_from_slice(part);
    transaction.overwrite_text(key, &[&string.text], string.expires_ms)?;
    reply.count(string.text.len());
    Ok(())
}

fn add(
    transaction: &mut impl StringStore,
    key: &[u8],
    by: i64,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (old, expires_ms) = match transaction.text(name(key)?)? {
        Some(text) => (integer(&text)?, text.expires_ms),
        None => (0, 0),
    };
    let new = old
        .checked_add(by)
        .ok_or(CommandError::say("ERR increment or decrement would overflow"))?;
    let mut text = Vec::with_capacity(20);
    number::write_integer(&mut text, new);
    transaction.overwrite_text(key, &[&text], expires_ms)?;
    reply.integer(new);
    Ok(())
}

pub(crate) fn incr(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    add(transaction, args.at(1), 1, reply)
}

pub(crate) fn decr(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    add(transaction, args.at(1), -1, reply)
}

pub(crate) fn incr_by(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    add(transaction, args.at(1), integer(args.at(2))?, reply)
}

pub(crate) fn decr_by(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let by = integer(args.at(2))?
        .checked_neg()
        .ok_or(CommandError::say("ERR decrement would overflow"))?;
    add(transaction, args.at(1), by, reply)
}

/// Returns the sum of two decimal numbers, or an error if either is invalid or the sum is not
/// finite.
pub(super) fn float_sum(old: &[u8], by: &[u8]) -> Result<Vec<u8>, CommandError> {
    double(by)?;
    double(old)?;
    number::add_floats(old, by).ok_or(CommandError::say("ERR increment would produce NaN or Infinity"))
}

pub(crate) fn incr_by_float(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let key = name(args.at(1))?;
    let (sum, expires_ms) = match transaction.text(key)? {
        Some(text) => (float_sum(&text, args.at(2))?, text.expires_ms),
        None => (float_sum(b"0", args.at(2))?, 0),
    };
    transaction.overwrite_text(key, &[&sum], expires_ms)?;
    reply.bulk(&sum);
    Ok(())
}
