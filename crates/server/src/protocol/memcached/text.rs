//! The text commands of memcached.

use super::items::{self, ItemChange, ItemHandle, ItemStore, StoredItems};
use super::request::{MAX_KEY, MemcachedRequest, flags, number};
use crate::error::{CommandError, CommandResult};
use crate::observe::item_counts::{ArithmeticDirection, ItemCounters, count};
use crate::shared::{ServerCounters, StoreContext};
use crate::store::model::format::{MemcachedItem, encode_item};
use std::sync::atomic::Ordering;

pub(super) const BAD_LINE: CommandError = CommandError::say("CLIENT_ERROR bad command line format");
const BAD_EXPIRY: CommandError = CommandError::say("CLIENT_ERROR invalid exptime argument");
const ERROR: CommandError = CommandError::say("ERROR");
const NO_ROOM: CommandError =
    CommandError::say("SERVER_ERROR out of memory writing get response (--client-memory)");

/// The error reply for an oversized item.
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

/// Returns a key if it is valid in memcached, otherwise an error.
pub(super) fn key(word: &[u8]) -> Result<&[u8], CommandError> {
    if word.is_empty() || word.len() > MAX_KEY {
        return Err(BAD_LINE);
    }
    Ok(word)
}

pub(super) fn say(request: &MemcachedRequest<'_>, output: &mut Vec<u8>, text: &str) {
    if !request.is_quiet() {
        output.extend_from_slice(text.as_bytes());
        output.extend_from_slice(b"\r\n");
    }
}

pub(super) fn get(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counters: &ServerCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    let command = request.word(0);
    let touches = command.starts_with(b"gat");
    let from = if touches { 2 } else { 1 };
    if request.words.len() < 2 {
        return Err(ERROR);
    }
    let keys = &request.words[from..];
    for word in keys {
        key(word)?;
    }
    let seconds = match touches {
        true => Some(number::<i64>(request.word(1)).ok_or(BAD_EXPIRY)?),
        false => None,
    };
    let start = output.len();
    for &word in keys {
        // Read one item at a time, so that a request's items are never all in memory. If the reply
        // becomes too long, the client gets an error instead.
        if output.len() - start > items.reply_room() {
            return match touches {
                // Items touched so far remain touched.
                true => Err(NO_ROOM),
                false => Ok(()),
            };
        }
        let kept = items.get(word)?;
        let _working = match (seconds, &kept) {
            (Some(_), Some(kept)) => items.room_to_touch(kept.item()?.value.len()),
            _ => None,
        };
        if seconds.is_some() {
            counters.items.touched(kept.is_some());
        }
        counters.items_got.fetch_add(1, Ordering::Relaxed);
        let Some(kept) = kept else {
            continue;
        };
        counters.items_hit.fetch_add(1, Ordering::Relaxed);
        let item = kept.item()?;
        output.extend_from_slice(b"VALUE ");
        output.extend_from_slice(word);
        let cas = if command.ends_with(b"s") {
            format!(" {}", item.cas)
        } else {
            String::new()
        };
        output.extend_from_slice(format!(" {} {}{cas}\r\n", item.flags, item.value.len()).as_bytes());
        output.extend_from_slice(item.value);
        output.extend_from_slice(b"\r\n");
        if let Some(seconds) = seconds {
            // Return the value even if it expires immediately under its new expiry time.
            let touched = touched(items, item, seconds);
            drop(kept);
            items.put(word, touched)?;
            items.relieve()?;
        }
    }
    output.extend_from_slice(b"END\r\n");
    Ok(())
}

pub(super) fn store(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counters: &ServerCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    let command = request.word(0);
    let word = key(request.word(1))?;
    let flags = flags(request.word(2)).ok_or(BAD_LINE)?;
    let seconds = number::<i64>(request.word(3)).ok_or(BAD_LINE)?;
    let compares = command == b"cas";
    let wanted = compares.then(|| number::<u64>(request.word(5)).ok_or(BAD_LINE));
    let wanted = wanted.transpose()?;
    counters.items_set.fetch_add(1, Ordering::Relaxed);
    if command == b"set" {
        let item = MemcachedItem {
            flags,
            cas: items.next_cas(),
            expires_ms: items.expiry(seconds),
            touched: items.now_s(),
            staleness: 0,
            value: request.block,
        };
        items.put(word, encode_item(&item))?;
        count(&counters.items.stored);
        say(request, output, "STORED");
        return Ok(());
    }
    let said = items.change(word, |items, old| {
        let refusal = match (command, &old) {
            (b"add", Some(_)) | (b"replace" | b"append" | b"prepend", None) => Some("NOT_STORED"),
            (b"cas", None) => Some("NOT_FOUND"),
            (b"cas", Some(old)) if Some(old.cas) != wanted => Some("EXISTS"),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return Ok((ItemChange::Nothing, refusal));
        }
        let cas = items.next_cas();
        let (joined, _working);
        let new = match (command, old) {
            (b"append" | b"prepend", Some(old)) => {
                _working = items.room_to_grow(old.value.len() + request.block.len())?;
                joined = if command == b"append" {
                    [old.value, request.block].concat()
                } else {
                    [request.block, old.value].concat()
                };
                MemcachedItem {
                    cas,
                    value: &joined,
                    staleness: 0,
                    ..old
                }
            }
            _ => MemcachedItem {
                flags,
                cas,
                expires_ms: items.expiry(seconds),
                touched: items.now_s(),
                staleness: 0,
                value: request.block,
            },
        };
        Ok((ItemChange::Put(encode_item(&new)), "STORED"))
    })?;
    counters.items.has_said(command, said);
    say(request, output, said);
    Ok(())
}

pub(super) fn arithmetic(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counts: &ItemCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    if !(3..=4).contains(&request.words.len()) {
        return Err(ERROR);
    }
    let adds = request.word(0) == b"incr";
    let word = key(request.word(1))?;
    let delta = number::<u64>(request.word(2));
    let delta = delta.ok_or(CommandError::say("CLIENT_ERROR invalid numeric delta argument"))?;
    let said = items.change(word, |items, old| {
        let direction = if adds {
            ArithmeticDirection::Up
        } else {
            ArithmeticDirection::Down
        };
        counts.changed(direction, old.is_some());
        let Some(old) = old else {
            return Ok((ItemChange::Nothing, "NOT_FOUND".to_owned()));
        };
        let (new, value) = items::arithmetic(old.value, delta, adds).ok_or(CommandError::say(
            "CLIENT_ERROR cannot increment or decrement non-numeric value",
        ))?;
        let item = MemcachedItem {
            cas: items.next_cas(),
            staleness: items::staleness_after(&old, &value),
            value: &value,
            ..old
        };
        Ok((ItemChange::Put(encode_item(&item)), new.to_string()))
    })?;
    say(request, output, &said);
    Ok(())
}

/// Sets an item's expiry time. Returns whether the item exists.
fn touch_one(items: &mut impl ItemStore, word: &[u8], seconds: i64) -> Result<bool, CommandError> {
    items.change(word, |items, old| {
        let Some(old) = old else {
            return Ok((ItemChange::Nothing, false));
        };
        Ok((ItemChange::Put(touched(items, old, seconds)), true))
    })
}

/// Encodes an item with a new expiry time.
fn touched(items: &impl ItemStore, item: MemcachedItem<'_>, seconds: i64) -> Vec<u8> {
    encode_item(&MemcachedItem {
        expires_ms: items.expiry(seconds),
        touched: items.now_s(),
        ..item
    })
}

pub(super) fn touch(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counters: &ServerCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    if !(3..=4).contains(&request.words.len()) {
        return Err(ERROR);
    }
    let word = key(request.word(1))?;
    let seconds = number::<i64>(request.word(2)).ok_or(BAD_EXPIRY)?;
    counters.items_touched.fetch_add(1, Ordering::Relaxed);
    let was_there = touch_one(items, word, seconds)?;
    counters.items.touched(was_there);
    say(request, output, if was_there { "TOUCHED" } else { "NOT_FOUND" });
    Ok(())
}

pub(super) fn delete(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counts: &ItemCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    let is_usual = match request.words.len() {
        2 => true,
        3 => request.is_quiet() || request.word(2) == b"0",
        4 => request.is_quiet() && request.word(2) == b"0",
        _ => return Err(ERROR),
    };
    if !is_usual {
        return Err(CommandError::say(
            "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
        ));
    }
    let said = items.change(key(request.word(1))?, |_, old| {
        Ok(match old {
            Some(_) => (ItemChange::Delete, "DELETED"),
            None => (ItemChange::Nothing, "NOT_FOUND"),
        })
    })?;
    counts.deleted(said == "DELETED");
    say(request, output, said);
    Ok(())
}

/// Returns the delay in a `flush_all` request in seconds, or 0 if there is none.
pub(super) fn flush_delay(request: &MemcachedRequest<'_>) -> Result<i64, CommandError> {
    let words = request.words.len() - usize::from(request.is_quiet());
    match words {
        1 => Ok(0),
        _ => number::<i64>(request.word(1)).ok_or(BAD_EXPIRY),
    }
}

/// Executes `flush_all`: deletes all items immediately, or schedules the deletion after a delay.
/// Returns whether any items were deleted.
pub(super) fn flush(
    request: &MemcachedRequest<'_>,
    shared: &StoreContext,
    output: &mut Vec<u8>,
) -> Result<bool, CommandError> {
    let delay = flush_delay(request)?;
    shared.counters.item_flushes.fetch_add(1, Ordering::Relaxed);
    if delay > 0 {
        let items = StoredItems::new(&shared.store, false, false);
        shared.flush_at.store(items.expiry(delay), Ordering::Release);
    } else {
        items::flush(&shared.store)?;
    }
    say(request, output, "OK");
    Ok(delay <= 0)
}

pub(super) fn verbosity(request: &MemcachedRequest<'_>, output: &mut Vec<u8>) -> CommandResult {
    if request.words.len() < 2 {
        return Err(ERROR);
    }
    if !request.is_quiet() && number::<u32>(request.word(1)).is_none() {
        return Err(BAD_LINE);
    }
    say(request, output, "OK");
    Ok(())
}
