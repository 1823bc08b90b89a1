//! Commands that iterate over all keys, or over the elements of hashes, sets and sorted sets.
//!
//! Keys are iterated in byte order or, if they are hashed, in hash order. Elements are iterated in
//! hash order. Concurrent writes do not change these orders, so a scan returns everything that
//! exists throughout the scan. A cursor over elements is the hash at which the scan continues. A
//! cursor over keys is a number that stands for a key (`store/cursors.rs`).

use crate::access::glob;
use crate::error::{CommandError, CommandResult};
use crate::net::wait_hooks;
use crate::protocol::resp::{Args, ReplyProgress, ReplyTail, ReplyWriter, number};
use crate::redis::args::{OptionParser, integer, is, too_long};
use crate::redis::pages::PAGE;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{RecordBytes, StringValue, TypedValue};
use crate::store::{CommandTransaction, OwnedPair, WalkDirection};
use alluvium::{Iter, Snapshot, UnorderedScan};

/// The MATCH, COUNT and TYPE options of a scan.
pub(super) struct ScanOptions<'a> {
    pub(crate) pattern: Option<&'a [u8]>,
    pub(crate) count: usize,
    type_name: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Parses the scan options, which begin with the argument at index `at`.
    pub(crate) fn new(args: Args<'a>, at: usize) -> Result<ScanOptions<'a>, CommandError> {
        let mut wish = ScanOptions {
            pattern: None,
            count: 10,
            type_name: None,
        };
        let mut options = OptionParser::new(args, at);
        while let Some(word) = options.next() {
            if is(word, "MATCH") {
                wish.pattern = Some(options.value()?);
            } else if is(word, "COUNT") {
                let count = integer(options.value()?)?;
                if count < 1 {
                    return Err(CommandError::SYNTAX);
                }
                wish.count = count as usize;
            } else if is(word, "TYPE") && at == 2 {
                wish.type_name = Some(options.value()?);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(wish)
    }

    fn wants(&self, entry: &TypedValue<'_>) -> bool {
        self.type_name.is_none_or(|wanted| is(wanted, entry.type_name()))
    }

    pub(crate) fn fits(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::fits(pattern, name))
    }
}

/// Reply size in bytes beyond which a scan returns fewer than COUNT elements.
const MOST_BYTES: usize = 1 << 20;

/// Parses a cursor, which must be a decimal number without a sign.
pub(crate) fn cursor(text: &[u8]) -> Result<u64, CommandError> {
    let text = std::str::from_utf8(text).ok();
    let plain = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    plain
        .and_then(|text| text.parse().ok())
        .ok_or(CommandError::say("ERR invalid cursor"))
}

/// Writes the beginning of a scan's reply: the cursor, and the number of elements after it.
pub(crate) fn begin(reply: &mut ReplyWriter<'_>, cursor: u64, count: usize) {
    reply.array(2);
    reply.bulk(cursor.to_string().as_bytes());
    reply.array(count);
}

/// Returns the range of record keys that a pattern can match. The pattern's literal prefix narrows
/// the range.
fn bounds(database: u8, pattern: Option<&[u8]>) -> (InnerKey, InnerKey) {
    let (mut start, mut end) = format::records(database);
    let prefix = pattern.map_or(&[][..], glob::literal_prefix);
    if !prefix.is_empty() {
        start.extend_from_slice(prefix);
        end = format::behind(&start);
    }
    (start, end)
}

pub(crate) fn scan(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let cursor = cursor(args.at(1))?;
    let wish = ScanOptions::new(args, 2)?;
    let (database, now_ms, store) = (transaction.database, transaction.now_ms, transaction.store);
    if store.records.are_hashed() {
        return scan_hashed(transaction, cursor, &wish, reply);
    }
    let (mut start, end) = bounds(database, wish.pattern);
    if cursor != 0 {
        let place = transaction.cursor_place(cursor)?;
        start = start.max(format::record_key(database, &place));
    }
    let mut found = Vec::new();
    let (mut looked_at, mut bytes) = (0, 0);
    let mut next = 0;
    let mut last = InnerKey::new();
    let mut scan = transaction.scan_keys(start, end, WalkDirection::Forward);
    while let Some((key, value)) = scan.lend()? {
        let name = format::user_key(key);
        if looked_at == wish.count || bytes > MOST_BYTES {
            next = transaction.cursor_at(separator(&last, name));
            break;
        }
        looked_at += 1;
        last.clear();
        last.extend_from_slice(name);
        if let Some(entry) = read(value, now_ms)?
            && wish.wants(&entry)
            && wish.fits(name)
        {
            bytes += name.len() + size_of::<Vec<u8>>();
            found.push(name.to_vec());
        }
    }
    begin(reply, next, found.len());
    found.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// Returns the shortest key greater than `last` and not greater than `next`.
fn separator<'k>(last: &[u8], next: &'k [u8]) -> &'k [u8] {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    &next[..next.len().min(common + 1)]
}

/// Maximum number of a scan's keys in one lookup.
const LOOKED_UP: usize = 256;

/// Executes SCAN over hashed keys. Looks up each key again, because the iterator may read an old
/// snapshot.
fn scan_hashed(
    transaction: &mut CommandTransaction<'_>,
    cursor: u64,
    wish: &ScanOptions<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if transaction.is_within() {
        return scan_all_hashed(transaction, wish, reply);
    }
    let page = transaction.some_keys(cursor, wish.count, MOST_BYTES)?;
    let names: Vec<Vec<u8>> = page.keys.into_iter().filter(|name| wish.fits(name)).collect();
    let mut found = Vec::new();
    for names in names.chunks(LOOKED_UP) {
        for (name, record) in names.iter().zip(transaction.short_records(names)?) {
            let Some(record) = record else { continue };
            if read(&record, transaction.now_ms)?.is_some_and(|entry| wish.wants(&entry)) {
                found.push(name);
            }
        }
    }
    begin(reply, page.next, found.len());
    found.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// Executes SCAN over hashed keys in a client's transaction. Returns all keys in one reply, because
/// the keys that the transaction has written have no position in the hash order.
fn scan_all_hashed(
    transaction: &CommandTransaction<'_>,
    wish: &ScanOptions<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (start, end) = format::records(transaction.database);
    let mut found = Vec::new();
    let mut walk = transaction.walk_records(start, end)?;
    while let Some((name, record)) = walk.lend()? {
        if wish.fits(name) && read(record, transaction.now_ms)?.is_some_and(|entry| wish.wants(&entry)) {
            found.push(name.to_vec());
        }
    }
    begin(reply, 0, found.len());
    found.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// Decodes a record from an iteration that may replace long values by empty ones. An empty value
/// stands for a string's long record, because collections have short records and the store does not
/// return expired records. Returns `None` if the record has expired.
pub(crate) fn read(value: &[u8], now_ms: u64) -> Result<Option<TypedValue<'_>>, CommandError> {
    if value.is_empty() {
        return Ok(Some(TypedValue::Text(StringValue::of(value, 0))));
    }
    Ok(TypedValue::read(RecordBytes::Borrowed(value), now_ms)?)
}

/// Calls `each` with every existing key that may match a pattern, until `each` asks to stop.
fn each_key(
    transaction: &CommandTransaction<'_>,
    pattern: Option<&[u8]>,
    mut each: impl FnMut(&[u8]) -> std::ops::ControlFlow<()>,
) -> CommandResult {
    let (start, end) = bounds(transaction.database, pattern);
    let mut walk = transaction.walk_records(start, end)?;
    while let Some((key, record)) = walk.lend()? {
        if read(record, transaction.now_ms)?.is_some() && each(key).is_break() {
            break;
        }
    }
    Ok(())
}

pub(crate) fn keys(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let pattern = args.at(1);
    let (mut listed, mut bytes, mut count) = (Vec::<Vec<u8>>::new(), 0, 0);
    if !reply.accepts_tail() {
        let most = reply.most();
        each_key(transaction, Some(pattern), |key| {
            if glob::fits(pattern, key) {
                bytes += key.len() + size_of::<Vec<u8>>();
                listed.push(key.to_vec());
            }
            if bytes > most {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        })?;
        if bytes > most {
            return Err(too_long(most));
        }
        reply.array(listed.len());
        listed.iter().for_each(|key| reply.bulk(key));
        return Ok(());
    }
    // The reply must begin with the number of keys. Keys that do not fit into a page are therefore
    // iterated twice: once to count them, and once to send them.
    let snapshot = transaction.store.db.snapshot();
    let mut keys = MatchingKeys::new(transaction, pattern, &snapshot);
    while keys.next(|key| {
        count += 1;
        bytes += key.len() + size_of::<Vec<u8>>();
        if bytes <= PAGE {
            listed.push(key.to_vec());
        }
    })? {}
    reply.array(count);
    if listed.len() == count {
        listed.iter().for_each(|key| reply.bulk(key));
    } else {
        reply.set_tail(Box::new(RestOfKeys {
            keys: MatchingKeys::new(transaction, pattern, &snapshot),
            left: count,
            last: Vec::new(),
        }));
    }
    Ok(())
}

/// An iterator over a snapshot's keys that match a pattern.
struct MatchingKeys {
    pattern: Vec<u8>,
    now_ms: u64,
    walk: SnapshotRecordIter,
}

/// An iterator over a database's records in a snapshot.
enum SnapshotRecordIter {
    Ordered(Box<Iter>),
    /// Hashed records, or `None` if no hashed record has ever been written to the database.
    Hashed(Option<Box<UnorderedScan>>),
}

impl MatchingKeys {
    fn new(transaction: &CommandTransaction<'_>, pattern: &[u8], at: &Snapshot) -> MatchingKeys {
        let store = transaction.store;
        let walk = if store.records.are_hashed() {
            let space = store.records.existing(transaction.database);
            SnapshotRecordIter::Hashed(space.map(|space| Box::new(at.unordered(space).without_long_values())))
        } else {
            let (start, end) = bounds(transaction.database, Some(pattern));
            let range = at.range(&store.data, &start[..]..&end[..]);
            SnapshotRecordIter::Ordered(Box::new(range.without_long_values()))
        };
        MatchingKeys {
            pattern: pattern.to_vec(),
            now_ms: transaction.now_ms,
            walk,
        }
    }

    /// Calls `each` with the next key. Returns false if there is none.
    fn next(&mut self, each: impl FnOnce(&[u8])) -> Result<bool, CommandError> {
        let _may_wait = wait_hooks::may_wait();
        let now_ms = self.now_ms;
        let is_wanted = |key: &[u8], value: &[u8]| -> Result<bool, CommandError> {
            Ok(glob::fits(&self.pattern, key) && read(value, now_ms)?.is_some())
        };
        match &mut self.walk {
            SnapshotRecordIter::Ordered(iter) => {
                while let Some((key, value)) = iter.lend()? {
                    let key = format::user_key(key);
                    if is_wanted(key, value)? {
                        each(key);
                        return Ok(true);
                    }
                }
            }
            SnapshotRecordIter::Hashed(iter) => {
                for pair in iter.iter_mut().flatten() {
                    let (key, value) = pair?;
                    if is_wanted(&key, &value)? {
                        each(&key);
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

/// The rest of a KEYS reply, after all keys have been counted.
struct RestOfKeys {
    keys: MatchingKeys,
    left: usize,
    last: Vec<u8>,
}

impl ReplyTail for RestOfKeys {
    fn begin(&mut self) {}

    fn write(&mut self, reply: &mut ReplyWriter<'_>) -> Result<ReplyProgress, CommandError> {
        let began = reply.position();
        while self.left > 0 {
            if reply.position() - began > PAGE {
                return Ok(ReplyProgress::More);
            }
            let last = &mut self.last;
            // If keys have expired since they were counted, there are fewer than the reply has
            // announced. Repeat the last key in place of each missing one.
            self.keys.next(|key| {
                last.clear();
                last.extend_from_slice(key);
            })?;
            reply.bulk(last);
            self.left -= 1;
        }
        Ok(ReplyProgress::Whole)
    }
}

pub(crate) fn size(
    transaction: &mut CommandTransaction<'_>,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let mut count = 0;
    each_key(transaction, None, |_| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    })?;
    reply.count(count);
    Ok(())
}

/// Maximum number of keys in a database for which RANDOMKEY selects uniformly from all of them.
const DRAWN_FROM: usize = 512;

pub(crate) fn random_key(
    transaction: &mut CommandTransaction<'_>,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let mut first: Vec<Vec<u8>> = Vec::new();
    each_key(transaction, None, |key| {
        first.push(key.to_vec());
        if first.len() > DRAWN_FROM {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        }
    })?;
    if first.is_empty() {
        reply.null();
    } else if first.len() <= DRAWN_FROM {
        reply.bulk(&first[fastrand::usize(..first.len())]);
    } else {
        let drawn = drawn(transaction, &first[0])?;
        reply.bulk(drawn.as_deref().unwrap_or(&first[0]));
    }
    Ok(())
}

/// Returns a random position between two keys by interpolation, as if keys were uniformly
/// distributed.
pub(super) fn place_between(database: u8, first: &[u8], last: &[u8]) -> InnerKey {
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let part = |key: &[u8]| {
        let bytes = (common..common + 8).map(|at| u64::from(key.get(at).copied().unwrap_or(0)));
        bytes.fold(0u64, |all, byte| all << 8 | byte)
    };
    let place = fastrand::u64(part(first)..=part(last).max(part(first)));
    let mut from = format::record_key(database, &first[..common]);
    from.extend((0..8).map(|at| (place >> (56 - 8 * at)) as u8));
    from
}

/// Returns the first key after a random position in the database, or `None` if there is none.
fn drawn(transaction: &mut CommandTransaction<'_>, first: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
    if transaction.store.records.are_hashed() {
        let mut random = [0; 16];
        fastrand::fill(&mut random);
        let Some(key) = transaction.draw_hashed(random)? else {
            return Ok(None);
        };
        let is_there = transaction.entry(&key)?.is_some();
        return Ok(is_there.then_some(key));
    }
    let (start, end) = format::records(transaction.database);
    let mut backward = transaction.scan_keys(start, end.clone(), WalkDirection::Backward);
    let Some((last, _)) = backward.next()? else {
        return Ok(None);
    };
    let from = place_between(transaction.database, first, format::user_key(&last));
    let mut scan = transaction.scan_keys(from, end, WalkDirection::Forward);
    while let Some((key, value)) = scan.next()? {
        if read(&value, transaction.now_ms)?.is_some() {
            return Ok(Some(format::user_key(&key).to_vec()));
        }
    }
    Ok(None)
}

/// Returns about `count` elements of a range in hash order, and the hash at which the scan
/// continues, or 0 at the end of the range. There may be more elements than requested, because
/// elements with equal hashes are never separated, and fewer if they are long.
pub(super) fn some_elements(
    transaction: &CommandTransaction<'_>,
    (start, end): (InnerKey, InnerKey),
    count: usize,
    split: fn(&[u8]) -> (u64, &[u8]),
) -> Result<(u64, Vec<OwnedPair>), CommandError> {
    let mut found: Vec<OwnedPair> = Vec::new();
    let (mut last, mut bytes) = (0, 0);
    let mut scan = transaction.scan(start, end, WalkDirection::Forward);
    while let Some((key, value)) = scan.next()? {
        let (place, member) = split(&key);
        if (found.len() >= count || bytes > MOST_BYTES) && place != last {
            return Ok((place, found));
        }
        last = place;
        bytes += member.len() + value.len() + size_of::<OwnedPair>();
        found.push((member.to_vec(), value));
    }
    Ok((0, found))
}

/// Formats a score for replies that do not send scores as floating-point numbers.
pub(crate) fn score_text(score: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    number::write_double(&mut text, score);
    text
}

/// Formats a score for ZSCAN, writing integers with all their digits.
pub(super) fn scanned_score(score: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    if score.trunc() == score && score.abs() <= LARGEST_PLAIN {
        number::write_integer(&mut text, score as i64);
    } else {
        number::write_double(&mut text, score);
    }
    text
}

/// The largest absolute value at which Redis still writes an integral score with all its digits.
const LARGEST_PLAIN: f64 = (i64::MAX / 2) as f64;
