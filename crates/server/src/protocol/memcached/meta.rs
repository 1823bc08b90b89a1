//! memcached's meta commands, whose options are one-letter flags.

mod arithmetic;

pub(super) use arithmetic::arithmetic;

use super::items::{CLAIMED, ItemAccess, ItemChange, ItemHandle, ItemStore, STALE};
use super::request::{MemcachedRequest, number};
use super::text::{BAD_LINE, key};
use crate::error::{CommandError, CommandResult};
use crate::observe::item_counts::{ItemCounters, count};
use crate::shared::ServerCounters;
use crate::store::model::format::{MemcachedItem, encode_item};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

const BAD_TOKEN: CommandError = CommandError::say("CLIENT_ERROR bad token in command line format");
const BAD_DELTA: CommandError = CommandError::say("CLIENT_ERROR invalid numeric delta value");
/// Maximum length in bytes of an opaque token, including its flag letter.
const MAX_OPAQUE: usize = 32;

const BAD_INITIAL: CommandError = CommandError::say("CLIENT_ERROR invalid numeric initial value");

/// The valid flags other than digits. Every meta command accepts all of them, even those that have
/// no effect on it.
const LETTERS: &[u8] = b"MILOPbcfhklqstuvx";

/// A meta command's flags, each with its token if it has one.
struct MetaFlags<'a> {
    words: &'a [&'a [u8]],
}

impl<'a> MetaFlags<'a> {
    fn new(request: &'a MemcachedRequest<'_>, from: usize) -> MetaFlags<'a> {
        MetaFlags {
            words: request.words.get(from..).unwrap_or_default(),
        }
    }

    fn value(&self, letter: u8) -> Option<&'a [u8]> {
        self.words
            .iter()
            .find(|word| word.first() == Some(&letter))
            .map(|word| &word[1..])
    }

    fn has(&self, letter: u8) -> bool {
        self.value(letter).is_some()
    }

    fn number<T: std::str::FromStr>(&self, letter: u8) -> Result<Option<T>, CommandError> {
        match self.value(letter) {
            None => Ok(None),
            Some(text) => number(text).map(Some).ok_or(BAD_TOKEN),
        }
    }

    /// Rejects unknown flags, duplicate flags, and invalid tokens.
    fn check(&self) -> CommandResult {
        for (index, word) in self.words.iter().enumerate() {
            let letter = word.first().copied().unwrap_or_default();
            if self.words[..index]
                .iter()
                .any(|other| other.first() == Some(&letter))
            {
                return Err(CommandError::say("CLIENT_ERROR duplicate flag"));
            }
            match letter {
                b'C' | b'E' => drop(self.number::<u64>(letter)?),
                b'N' | b'R' | b'T' => drop(self.number::<i32>(letter)?),
                b'F' => drop(self.number::<u64>(letter).map_err(|_| BAD_LINE)?),
                b'D' => drop(self.number::<u64>(letter).map_err(|_| BAD_DELTA)?),
                b'J' => drop(self.number::<u64>(letter).map_err(|_| BAD_INITIAL)?),
                b'O' if word.len() > MAX_OPAQUE => {
                    return Err(CommandError::say("CLIENT_ERROR opaque token too long"));
                }
                b'M' if word.len() != 2 => {
                    return Err(CommandError::say("CLIENT_ERROR incorrect length for M token"));
                }
                _ if LETTERS.contains(&letter) => {}
                _ => return Err(CommandError::say("CLIENT_ERROR invalid flag")),
            }
        }
        Ok(())
    }

    /// Like `check`, but reports only a general error, as memcached does for some commands.
    fn check_briefly(&self) -> CommandResult {
        self.check()
            .map_err(|_| CommandError::say("CLIENT_ERROR invalid or duplicate flag"))
    }
}

/// Returns a request's key, decoded if the flags mark it as base64.
fn meta_key<'a>(
    request: &MemcachedRequest<'a>,
    flags: &MetaFlags<'_>,
) -> Result<Cow<'a, [u8]>, CommandError> {
    let word = key(request.word(1))?;
    if !flags.has(b'b') {
        return Ok(Cow::Borrowed(word));
    }
    let decoded = BASE64.decode(word);
    let decoded = decoded.map_err(|_| CommandError::say("CLIENT_ERROR error decoding key"))?;
    key(&decoded)?;
    Ok(Cow::Owned(decoded))
}

/// Returns the key of the item that a request accesses, and the kind of access: see
/// [`run::accesses`](super::run::accesses).
pub(super) fn access<'a>(
    request: &MemcachedRequest<'a>,
    careful: bool,
) -> Option<(Cow<'a, [u8]>, ItemAccess)> {
    let from = if request.word(0) == b"ms" { 3 } else { 2 };
    let flags = MetaFlags::new(request, from);
    let key = meta_key(request, &flags).ok()?;
    let only_reads = match request.word(0) {
        b"me" => true,
        b"mg" => !careful && !b"NRTlh".iter().any(|&letter| flags.has(letter)),
        _ => false,
    };
    Some((
        key,
        if only_reads {
            ItemAccess::Reads
        } else {
            ItemAccess::Changes
        },
    ))
}

/// Appends the request's `k`, `O` and `b` flags to the reply, in request order. For each other
/// flag, appends what `own` returns.
fn echo(
    request: &MemcachedRequest<'_>,
    flags: &MetaFlags<'_>,
    output: &mut Vec<u8>,
    own: impl Fn(u8) -> Option<String>,
) {
    for word in flags.words {
        match word.first() {
            Some(b'k') => {
                output.extend_from_slice(b" k");
                output.extend_from_slice(request.word(1));
            }
            Some(b'O') => {
                output.push(b' ');
                output.extend_from_slice(word);
            }
            Some(b'b') => output.extend_from_slice(b" b"),
            Some(&letter) => {
                if let Some(text) = own(letter) {
                    output.extend_from_slice(format!(" {}{text}", char::from(letter)).as_bytes());
                }
            }
            None => {}
        }
    }
}

fn line(
    output: &mut Vec<u8>,
    code: &str,
    request: &MemcachedRequest<'_>,
    flags: &MetaFlags<'_>,
    own: impl Fn(u8) -> Option<String>,
) {
    output.extend_from_slice(code.as_bytes());
    echo(request, flags, output, own);
    output.extend_from_slice(b"\r\n");
}

/// The item that a get returns, and its metadata.
struct MetaGetResult {
    flags: u32,
    cas: u64,
    expires_ms: u64,
    idle_s: u32,
    size: usize,
    value: Option<Vec<u8>>,
    /// The reply's `W`, `X` and `Z` markers, in memcached's order.
    marks: &'static str,
    /// Whether this get has created the item.
    is_new: bool,
}

impl MetaGetResult {
    fn new(items: &impl ItemStore, item: &MemcachedItem<'_>, wants_value: bool) -> MetaGetResult {
        MetaGetResult {
            flags: item.flags,
            cas: item.cas,
            expires_ms: item.expires_ms,
            idle_s: items.now_s().saturating_sub(item.touched),
            size: item.value.len(),
            value: wants_value.then(|| item.value.to_vec()),
            marks: "",
            is_new: false,
        }
    }

    fn letter(&self, items: &impl ItemStore, letter: u8) -> Option<String> {
        Some(match letter {
            b'c' => self.cas.to_string(),
            b'f' => self.flags.to_string(),
            b'h' => u8::from(!self.is_new).to_string(),
            b'l' => self.idle_s.to_string(),
            b's' => self.size.to_string(),
            b't' => items.seconds_left(self.expires_ms).to_string(),
            _ => return None,
        })
    }
}

/// Determines a get's result and how the get changes the item: whether a client is asked to renew
/// it, its expiry time, and its last access time.
fn look(
    items: &impl ItemStore,
    old: Option<MemcachedItem<'_>>,
    flags: &MetaFlags<'_>,
    (vivify, recache, touch): (Option<i64>, Option<i64>, Option<i64>),
) -> Result<(ItemChange, Option<MetaGetResult>), CommandError> {
    let wants_value = flags.has(b'v');
    let Some(mut item) = old else {
        let Some(seconds) = vivify else {
            return Ok((ItemChange::Nothing, None));
        };
        let item = MemcachedItem {
            flags: 0,
            cas: items.next_cas(),
            expires_ms: items.expiry(seconds),
            touched: items.now_s(),
            staleness: CLAIMED,
            value: b"",
        };
        let mut got = MetaGetResult::new(items, &item, wants_value);
        (got.marks, got.is_new) = (" W", true);
        return Ok((ItemChange::Put(encode_item(&item)), Some(got)));
    };
    let mut got = MetaGetResult::new(items, &item, wants_value);
    let left = items.seconds_left(item.expires_ms);
    let is_stale = item.staleness & STALE != 0;
    let is_late = recache.is_some_and(|seconds| left >= 0 && left < seconds);
    if item.staleness & CLAIMED != 0 {
        got.marks = if is_stale { " Z X" } else { " Z" };
    } else if is_stale || is_late {
        got.marks = if is_stale { " X W" } else { " W" };
        item.staleness |= CLAIMED;
    }
    if let Some(seconds) = touch {
        item.expires_ms = items.expiry(seconds);
        got.expires_ms = item.expires_ms;
    }
    item.touched = items.now_s();
    Ok((ItemChange::Put(encode_item(&item)), Some(got)))
}

pub(super) fn get(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counters: &ServerCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    let flags = MetaFlags::new(request, 2);
    flags.check()?;
    let key = meta_key(request, &flags)?;
    let changes = (flags.number(b'N')?, flags.number(b'R')?, flags.number(b'T')?);
    let found = if changes == (None, None, None) && !flags.has(b'l') && !flags.has(b'h') {
        let kept = items.get(&key)?;
        let item = kept.as_ref().map(ItemHandle::item).transpose()?;
        match item {
            // Record in the item that this client is asked to renew it, so that no other client is
            // asked. This requires the item's lock.
            Some(item) if item.staleness & STALE != 0 => {
                if !items.is_careful() {
                    return Ok(());
                }
                items.change(&key, |items, old| look(items, old, &flags, changes))?
            }
            Some(item) => {
                let mut got = MetaGetResult::new(items, &item, flags.has(b'v'));
                if item.staleness & CLAIMED != 0 {
                    got.marks = " Z";
                }
                Some(got)
            }
            None => None,
        }
    } else {
        items.change(&key, |items, old| look(items, old, &flags, changes))?
    };
    counters.items_got.fetch_add(1, Ordering::Relaxed);
    count(&counters.items.meta);
    if flags.has(b'T') {
        counters.items_touched.fetch_add(1, Ordering::Relaxed);
        counters.items.touched(found.is_some());
    }
    let Some(got) = found else {
        if !flags.has(b'q') {
            line(output, "EN", request, &flags, |_| None);
        }
        return Ok(());
    };
    counters.items_hit.fetch_add(1, Ordering::Relaxed);
    let code = match &got.value {
        Some(value) => format!("VA {}", value.len()),
        None => "HD".to_owned(),
    };
    output.extend_from_slice(code.as_bytes());
    echo(request, &flags, output, |letter| got.letter(items, letter));
    output.extend_from_slice(got.marks.as_bytes());
    output.extend_from_slice(b"\r\n");
    if let Some(value) = &got.value {
        output.extend_from_slice(value);
        output.extend_from_slice(b"\r\n");
    }
    Ok(())
}

/// A set command's decoded flags.
struct MetaSetFlags {
    wanted: Option<u64>,
    given: Option<u64>,
    seconds: i64,
    flags: u32,
    vivify: Option<i64>,
    mode: u8,
    invalidates: bool,
}

impl MetaSetFlags {
    fn new(flags: &MetaFlags<'_>) -> Result<MetaSetFlags, CommandError> {
        flags.check()?;
        let mode = flags
            .value(b'M')
            .and_then(|mode| mode.first().copied())
            .unwrap_or(b'S');
        let mode = mode.to_ascii_uppercase();
        if !b"EAPRS".contains(&mode) {
            return Err(CommandError::say("CLIENT_ERROR invalid mode for ms M token"));
        }
        Ok(MetaSetFlags {
            wanted: flags.number(b'C')?,
            given: flags.number(b'E')?,
            seconds: flags.number(b'T')?.unwrap_or(0),
            flags: flags.number::<u64>(b'F')?.unwrap_or(0) as u32,
            vivify: flags.number(b'N')?,
            mode,
            invalidates: flags.has(b'I'),
        })
    }

    fn joins(&self) -> bool {
        self.mode == b'A' || self.mode == b'P'
    }

    /// Checks whether the item may be set. Returns the new item's staleness flags, or the error
    /// code if it may not.
    fn verdict(&self, old: Option<&MemcachedItem<'_>>) -> Result<u8, &'static str> {
        let mut staleness = 0;
        match (self.wanted, old) {
            (None, _) => {}
            (Some(_), None) => return Err("NF"),
            (Some(wanted), Some(old)) if old.cas == wanted => {}
            (Some(wanted), Some(old)) if self.invalidates && wanted < old.cas => {
                staleness = STALE | old.staleness & CLAIMED;
            }
            (Some(_), Some(_)) => return Err("EX"),
        }
        let is_refused = match self.mode {
            b'E' => old.is_some(),
            b'R' => old.is_none(),
            _ => self.joins() && old.is_none() && self.vivify.is_none(),
        };
        if is_refused { Err("NS") } else { Ok(staleness) }
    }

    /// Returns the encoded new item.
    fn stored(
        &self,
        items: &impl ItemStore,
        old: Option<MemcachedItem<'_>>,
        block: &[u8],
        staleness: u8,
        cas: u64,
    ) -> Vec<u8> {
        match old {
            Some(old) if self.joins() => {
                let value = if self.mode == b'A' {
                    [old.value, block].concat()
                } else {
                    [block, old.value].concat()
                };
                let value = &value[..];
                let staleness = 0;
                encode_item(&MemcachedItem {
                    cas,
                    value,
                    staleness,
                    ..old
                })
            }
            // An item set as stale inherits the expiry time of the item that it replaces.
            Some(old) if staleness & STALE != 0 => encode_item(&MemcachedItem {
                flags: self.flags,
                cas,
                touched: items.now_s(),
                staleness,
                value: block,
                ..old
            }),
            _ => encode_item(&MemcachedItem {
                flags: self.flags,
                cas,
                expires_ms: items.expiry(self.vivify.filter(|_| self.joins()).unwrap_or(self.seconds)),
                touched: items.now_s(),
                staleness,
                value: block,
            }),
        }
    }
}

pub(super) fn set(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counters: &ServerCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    let flags = MetaFlags::new(request, 3);
    let setting = MetaSetFlags::new(&flags)?;
    let key = meta_key(request, &flags)?;
    counters.items_set.fetch_add(1, Ordering::Relaxed);
    count(&counters.items.meta);
    let (code, cas) = items.change(&key, |items, old| {
        let staleness = match setting.verdict(old.as_ref()) {
            Ok(staleness) => staleness,
            Err(code) => return Ok((ItemChange::Nothing, (code, 0))),
        };
        let cas = setting.given.unwrap_or_else(|| items.next_cas());
        let grown = old.as_ref().filter(|_| setting.joins());
        let _working = grown
            .map(|old| items.room_to_grow(old.value.len() + request.block.len()))
            .transpose()?;
        let stored = setting.stored(items, old, request.block, staleness, cas);
        Ok((ItemChange::Put(stored), ("HD", cas)))
    })?;
    if setting.wanted.is_some() {
        counters.items.compared(code != "NF", code == "HD");
    }
    if code == "HD" {
        count(&counters.items.stored);
    }
    if flags.has(b'q') && code == "HD" {
        return Ok(());
    }
    line(output, code, request, &flags, |letter| match letter {
        b'c' => Some(cas.to_string()),
        b's' => Some(request.block.len().to_string()),
        _ => None,
    });
    Ok(())
}

pub(super) fn delete(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counts: &ItemCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    let flags = MetaFlags::new(request, 2);
    flags.check_briefly()?;
    let key = meta_key(request, &flags)?;
    let wanted: Option<u64> = flags.number(b'C')?;
    let given: Option<u64> = flags.number(b'E')?;
    let seconds: Option<i64> = flags.number(b'T')?;
    let code = items.change(&key, |items, old| {
        let Some(old) = old else {
            return Ok((ItemChange::Nothing, "NF"));
        };
        if wanted.is_some_and(|wanted| wanted != old.cas) {
            return Ok((ItemChange::Nothing, "EX"));
        }
        if !flags.has(b'I') && !flags.has(b'x') {
            return Ok((ItemChange::Delete, "HD"));
        }
        let mut item = MemcachedItem {
            cas: given.unwrap_or_else(|| items.next_cas()),
            ..old
        };
        if flags.has(b'x') {
            (item.value, item.flags) = (b"", 0);
        }
        if flags.has(b'I') {
            // Clear the flag that a client was asked to renew the item, because that concerned the
            // previous value.
            item.staleness = STALE;
        }
        if let Some(seconds) = seconds {
            item.expires_ms = items.expiry(seconds);
        }
        Ok((ItemChange::Put(encode_item(&item)), "HD"))
    })?;
    count(&counts.meta);
    counts.deleted(code == "HD");
    if !(flags.has(b'q') && code == "HD") {
        line(output, code, request, &flags, |_| None);
    }
    Ok(())
}

pub(super) fn describe(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    output: &mut Vec<u8>,
) -> CommandResult {
    if request.words.len() < 2 {
        return Err(BAD_LINE);
    }
    let flags = MetaFlags::new(request, 2);
    let key = meta_key(request, &flags)?;
    let kept = items.get(&key)?;
    let Some(kept) = kept else {
        output.extend_from_slice(b"EN\r\n");
        return Ok(());
    };
    let item = kept.item()?;
    output.extend_from_slice(b"ME ");
    output.extend_from_slice(request.word(1));
    let text = format!(
        " exp={} la={} cas={} fetch=no cls=1 size={}\r\n",
        items.seconds_left(item.expires_ms),
        items.now_s().saturating_sub(item.touched),
        item.cas,
        item.value.len(),
    );
    output.extend_from_slice(text.as_bytes());
    Ok(())
}
