//! Walks over all keys, and over the elements of hashes, sets and sorted sets.
//!
//! Both go in an order that does not depend on what others write meanwhile, so that every element
//! that is there all the time is met: keys in their own order, or in that of their hashes where
//! they have none of their own, elements in the order of their hashes. An element's cursor is the
//! hash to go on at; a key's is a number that stands for a key (`cursors.rs`).

use super::args::{Options, integer, is, too_long};
use super::pages::PAGE;
use crate::error::Failure;
use crate::glob;
use crate::model::format::{self, InnerKey};
use crate::model::{Entry, Found, Text};
use crate::resp::{Args, Progress, Reply, Tail, number};
use crate::store::{Direction, Pair, Transaction};
use crate::waits;
use alluvium::{Iter, Snapshot, Unordered};

type Done = Result<(), Failure>;

/// What MATCH, COUNT and TYPE say.
pub(super) struct Wish<'a> {
    pub(super) pattern: Option<&'a [u8]>,
    pub(super) count: usize,
    type_name: Option<&'a [u8]>,
}

impl<'a> Wish<'a> {
    /// Creates the options of a walk from an argument on.
    pub(super) fn new(args: Args<'a>, at: usize) -> Result<Wish<'a>, Failure> {
        let mut wish = Wish {
            pattern: None,
            count: 10,
            type_name: None,
        };
        let mut options = Options::new(args, at);
        while let Some(word) = options.next() {
            if is(word, "MATCH") {
                wish.pattern = Some(options.value()?);
            } else if is(word, "COUNT") {
                let count = integer(options.value()?)?;
                if count < 1 {
                    return Err(Failure::SYNTAX);
                }
                wish.count = count as usize;
            } else if is(word, "TYPE") && at == 2 {
                wish.type_name = Some(options.value()?);
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(wish)
    }

    fn wants(&self, entry: &Entry<'_>) -> bool {
        self.type_name.is_none_or(|wanted| is(wanted, entry.type_name()))
    }

    pub(super) fn fits(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::fits(pattern, name))
    }
}

/// A walk replies with fewer elements than COUNT says when they take more than this.
const MOST_BYTES: usize = 1 << 20;

/// Returns a cursor as it was sent.
pub(super) fn cursor(text: &[u8]) -> Result<u64, Failure> {
    let text = std::str::from_utf8(text).ok();
    let plain = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    plain
        .and_then(|text| text.parse().ok())
        .ok_or(Failure::say("ERR invalid cursor"))
}

/// A cursor and the head of what was found.
pub(super) fn begin(reply: &mut Reply<'_>, cursor: u64, count: usize) {
    reply.array(2);
    reply.bulk(cursor.to_string().as_bytes());
    reply.array(count);
}

/// Returns where the records begin and end that may fit a pattern.
fn bounds(database: u8, pattern: Option<&[u8]>) -> (InnerKey, InnerKey) {
    let (mut start, mut end) = format::records(database);
    let prefix = pattern.map_or(&[][..], glob::literal_prefix);
    if !prefix.is_empty() {
        start.extend_from_slice(prefix);
        end = format::behind(&start);
    }
    (start, end)
}

pub(super) fn scan(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let cursor = cursor(args.at(1))?;
    let wish = Wish::new(args, 2)?;
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
    let mut scan = transaction.scan_keys(start, end, Direction::Forward);
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

/// Returns the shortest key that is greater than the first of two and not greater than the second.
fn separator<'k>(last: &[u8], next: &'k [u8]) -> &'k [u8] {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    &next[..next.len().min(common + 1)]
}

/// How many keys that a walk has met are looked up at once, at most.
const LOOKED_UP: usize = 256;

/// The same where keys have no order of their own.
fn scan_hashed(
    transaction: &mut Transaction<'_>,
    cursor: u64,
    wish: &Wish<'_>,
    reply: &mut Reply<'_>,
) -> Done {
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

/// The same in the transaction of a client: it shows all keys at once, for those that the
/// transaction has written have no place among the hashes.
fn scan_all_hashed(transaction: &Transaction<'_>, wish: &Wish<'_>, reply: &mut Reply<'_>) -> Done {
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

/// Reads a record that a walk over keys has met. An empty one stands for the long record of a
/// string: those of collections are short, and the store hands out none that has expired.
pub(super) fn read(value: &[u8], now_ms: u64) -> Result<Option<Entry<'_>>, Failure> {
    if value.is_empty() {
        return Ok(Some(Entry::Text(Text::of(value, 0))));
    }
    Ok(Entry::read(Found::Borrowed(value), now_ms)?)
}

/// Calls `each` with every key that may fit a pattern, until it says stop.
fn each_key(
    transaction: &Transaction<'_>,
    pattern: Option<&[u8]>,
    mut each: impl FnMut(&[u8]) -> std::ops::ControlFlow<()>,
) -> Done {
    let (start, end) = bounds(transaction.database, pattern);
    let mut walk = transaction.walk_records(start, end)?;
    while let Some((key, record)) = walk.lend()? {
        if read(record, transaction.now_ms)?.is_some() && each(key).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) fn keys(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let pattern = args.at(1);
    let (mut listed, mut bytes, mut count) = (Vec::<Vec<u8>>::new(), 0, 0);
    if !reply.may_go_on() {
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
    // How many keys there are must be known first: where they are more than a page, they are looked
    // at once to be counted and once to be shown.
    let snapshot = transaction.store.db.snapshot();
    let mut keys = Keys::new(transaction, pattern, &snapshot);
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
        reply.go_on(Box::new(RestOfKeys {
            keys: Keys::new(transaction, pattern, &snapshot),
            left: count,
            last: Vec::new(),
        }));
    }
    Ok(())
}

/// Keys that fit a pattern, as they were at one moment.
struct Keys {
    pattern: Vec<u8>,
    now_ms: u64,
    walk: Walk,
}

/// A walk over records in a snapshot.
enum Walk {
    Ordered(Box<Iter>),
    /// None if the database has never had records.
    Hashed(Option<Box<Unordered>>),
}

impl Keys {
    fn new(transaction: &Transaction<'_>, pattern: &[u8], at: &Snapshot) -> Keys {
        let store = transaction.store;
        let walk = if store.records.are_hashed() {
            let space = store.records.existing(transaction.database);
            Walk::Hashed(space.map(|space| Box::new(at.unordered(space).without_long_values())))
        } else {
            let (start, end) = bounds(transaction.database, Some(pattern));
            let range = at.range(&store.data, &start[..]..&end[..]);
            Walk::Ordered(Box::new(range.without_long_values()))
        };
        Keys {
            pattern: pattern.to_vec(),
            now_ms: transaction.now_ms,
            walk,
        }
    }

    /// Calls `each` with the next key. Returns whether there was one.
    fn next(&mut self, each: impl FnOnce(&[u8])) -> Result<bool, Failure> {
        let _may_wait = waits::may_wait();
        let now_ms = self.now_ms;
        let is_wanted = |key: &[u8], value: &[u8]| -> Result<bool, Failure> {
            Ok(glob::fits(&self.pattern, key) && read(value, now_ms)?.is_some())
        };
        match &mut self.walk {
            Walk::Ordered(iter) => {
                while let Some((key, value)) = iter.lend()? {
                    let key = format::user_key(key);
                    if is_wanted(key, value)? {
                        each(key);
                        return Ok(true);
                    }
                }
            }
            Walk::Hashed(iter) => {
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

/// Keys that are shown after they were counted.
struct RestOfKeys {
    keys: Keys,
    left: usize,
    last: Vec<u8>,
}

impl Tail for RestOfKeys {
    fn begin(&mut self) {}

    fn write(&mut self, reply: &mut Reply<'_>) -> Result<Progress, Failure> {
        let began = reply.position();
        while self.left > 0 {
            if reply.position() - began > PAGE {
                return Ok(Progress::More);
            }
            let last = &mut self.last;
            // What has expired since it was counted is not there any more, but a reply was
            // announced: the key before stands for it once more.
            self.keys.next(|key| {
                last.clear();
                last.extend_from_slice(key);
            })?;
            reply.bulk(last);
            self.left -= 1;
        }
        Ok(Progress::Whole)
    }
}

pub(super) fn size(transaction: &mut Transaction<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let mut count = 0;
    each_key(transaction, None, |_| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    })?;
    reply.count(count);
    Ok(())
}

/// How many keys a database may have for all to be looked at when one is drawn.
const DRAWN_FROM: usize = 512;

pub(super) fn random_key(transaction: &mut Transaction<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Done {
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

/// Returns a place that is drawn between two keys, as if those between lay evenly.
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

/// Returns the first key behind a place that is drawn between the first and the last.
fn drawn(transaction: &mut Transaction<'_>, first: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
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
    let mut backward = transaction.scan_keys(start, end.clone(), Direction::Backward);
    let Some((last, _)) = backward.next()? else {
        return Ok(None);
    };
    let from = place_between(transaction.database, first, format::user_key(&last));
    let mut scan = transaction.scan_keys(from, end, Direction::Forward);
    while let Some((key, value)) = scan.next()? {
        if read(&value, transaction.now_ms)?.is_some() {
            return Ok(Some(format::user_key(&key).to_vec()));
        }
    }
    Ok(None)
}

/// Some elements of a collection that are in the order of their places, from a place on: at least
/// `count`, if there are as many, and all of the last place. Where to go on, or 0.
pub(super) fn some_elements(
    transaction: &Transaction<'_>,
    (start, end): (InnerKey, InnerKey),
    count: usize,
    split: fn(&[u8]) -> (u64, &[u8]),
) -> Result<(u64, Vec<Pair>), Failure> {
    let mut found: Vec<Pair> = Vec::new();
    let (mut last, mut bytes) = (0, 0);
    let mut scan = transaction.scan(start, end, Direction::Forward);
    while let Some((key, value)) = scan.next()? {
        let (place, member) = split(&key);
        if (found.len() >= count || bytes > MOST_BYTES) && place != last {
            return Ok((place, found));
        }
        last = place;
        bytes += member.len() + value.len() + size_of::<Pair>();
        found.push((member.to_vec(), value));
    }
    Ok((0, found))
}

/// Returns a score as it stands in replies that know no doubles.
pub(crate) fn score_text(score: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    number::write_double(&mut text, score);
    text
}

/// Returns a score as ZSCAN shows it: those that are integers with all their digits.
pub(super) fn scanned_score(score: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    if score.trunc() == score && score.abs() <= LARGEST_PLAIN {
        number::write_integer(&mut text, score as i64);
    } else {
        number::write_double(&mut text, score);
    }
    text
}

/// Up to here Redis keeps integers as such.
const LARGEST_PLAIN: f64 = (i64::MAX / 2) as f64;
