//! Walks over all keys, and over the elements of hashes, sets and sorted sets.
//!
//! Both use an order that concurrent writes do not change, so every element that exists throughout
//! is returned: keys in byte order, or by hash if they are hashed; elements by hash. The cursor of
//! an element walk is the hash to continue at. The cursor of a key walk is a number that denotes a
//! key (`store/cursors.rs`).

use crate::access::glob;
use crate::error::CommandError;
use crate::net::wait_hooks;
use crate::protocol::resp::{Args, ReplyProgress, ReplyTail, ReplyWriter, number};
use crate::redis::args::{OptionParser, integer, is, too_long};
use crate::redis::pages::PAGE;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{RecordBytes, StringValue, TypedValue};
use crate::store::{CommandTransaction, OwnedPair, WalkDirection};
use alluvium::{Iter, Snapshot, UnorderedScan};

type CommandResult = Result<(), CommandError>;

/// The options MATCH, COUNT and TYPE.
pub(super) struct ScanOptions<'a> {
    pub(crate) pattern: Option<&'a [u8]>,
    pub(crate) count: usize,
    type_name: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Parses the options of a walk, starting at an argument.
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

/// Size of a reply in bytes at which a walk stops before COUNT elements.
const MOST_BYTES: usize = 1 << 20;

/// Parses a cursor: a decimal number without a sign.
pub(crate) fn cursor(text: &[u8]) -> Result<u64, CommandError> {
    let text = std::str::from_utf8(text).ok();
    let plain = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    plain
        .and_then(|text| text.parse().ok())
        .ok_or(CommandError::say("ERR invalid cursor"))
}

/// Writes a cursor and the number of elements.
pub(crate) fn begin(reply: &mut ReplyWriter<'_>, cursor: u64, count: usize) {
    reply.array(2);
    reply.bulk(cursor.to_string().as_bytes());
    reply.array(count);
}

/// Returns the range of records that may match a pattern.
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

/// Returns the shortest key that is greater than `last` and not greater than `next`.
fn separator<'k>(last: &[u8], next: &'k [u8]) -> &'k [u8] {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    &next[..next.len().min(common + 1)]
}

/// Largest number of keys that a walk looks up at once.
const LOOKED_UP: usize = 256;

/// SCAN over hashed keys. Looks up each key of the walk, which may read an old snapshot.
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

/// SCAN over hashed keys in a client's transaction. It returns all keys at once, because keys
/// written by the transaction have no position among the hashes.
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

/// Decodes a record from a walk over keys. An empty one stands for the long record of a string:
/// records of collections are short, and the store does not return expired ones.
pub(crate) fn read(value: &[u8], now_ms: u64) -> Result<Option<TypedValue<'_>>, CommandError> {
    if value.is_empty() {
        return Ok(Some(TypedValue::Text(StringValue::of(value, 0))));
    }
    Ok(TypedValue::read(RecordBytes::Borrowed(value), now_ms)?)
}

/// Calls `each` with every key that may match a pattern, until it asks to stop.
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
    // The number of keys must be known first: if they exceed a page, they are walked twice, to
    // count and to send them.
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

/// The keys of a snapshot that match a pattern.
struct MatchingKeys {
    pattern: Vec<u8>,
    now_ms: u64,
    walk: SnapshotRecordIter,
}

/// A walk over records in a snapshot.
enum SnapshotRecordIter {
    Ordered(Box<Iter>),
    /// `None` if the database never had records.
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

    /// Calls `each` with the next key. Returns whether there was one.
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

/// Keys to send after they were counted.
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
            // A key that has expired since it was counted is missing, but the length of the reply
            // has been sent. Repeat the previous key in its place.
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

/// Number of keys up to which a random key is drawn from all of them.
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

/// Returns a random key between two keys, as if keys were uniformly distributed.
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

/// Returns the first key after a random position between the first key and the last.
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

/// Returns at least `count` elements in hash order from a position on, if there are as many,
/// including all with the last hash; and the position to continue at, or 0.
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

/// Formats a score for replies without a type for floating-point numbers.
pub(crate) fn score_text(score: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    number::write_double(&mut text, score);
    text
}

/// Formats a score for ZSCAN: integers with all their digits.
pub(super) fn scanned_score(score: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    if score.trunc() == score && score.abs() <= LARGEST_PLAIN {
        number::write_integer(&mut text, score as i64);
    } else {
        number::write_double(&mut text, score);
    }
    text
}

/// Largest magnitude up to which Redis formats integers exactly.
const LARGEST_PLAIN: f64 = (i64::MAX / 2) as f64;
