//! Elements of hashes, sets and sorted sets that are drawn at random, each with the same chance.
//!
//! Elements lie in the order of their hashes, which are spread evenly over 64 bits. That range is
//! cut into windows that hold some elements on average. A window is drawn, and a number: if the
//! window has an element of that number it is the one, otherwise both are drawn again. So all
//! elements have the same chance, and as many are looked at whether there are a thousand or a
//! billion. Where a good part of all is wanted, all are walked through once, and each is taken with
//! the chance that it has of being among those that are still wanted.

use super::args::check_room;
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::model::{Collection, Kind};
use crate::resp::Reply;
use crate::store::{Direction, Pair, Transaction};
use std::collections::BTreeSet;

/// How many elements a window holds on average, and how many it practically never exceeds.
const EXPECTED: u64 = 16;
const MOST: u64 = 40;

/// Collections up to this size are one window.
const SMALL: u64 = MOST;

/// How often windows are drawn before the next element behind any place is taken: hashes that a
/// client has chosen may all lie in few windows.
const TRIES: usize = 200;

/// To draw one element takes as long as to walk over this number of elements.
const WALKED: u64 = 256;

/// Where the elements that are drawn lie: those of a sorted set that have the scores.
fn whole(transaction: &Transaction<'_>, collection: &Collection) -> (InnerKey, InnerKey) {
    let (database, number) = (transaction.database, collection.number);
    if collection.kind == Kind::SortedSet {
        let start = format::sorted_place_key(database, number, 0);
        return (start, format::sorted_members_end(database, number));
    }
    let start = format::elements(database, number);
    let end = format::behind(&start);
    (start, end)
}

/// The first key that an element of a place can have.
fn at(transaction: &Transaction<'_>, collection: &Collection, place: u64) -> InnerKey {
    match collection.kind {
        Kind::SortedSet => format::sorted_place_key(transaction.database, collection.number, place),
        _ => format::place_key(transaction.database, collection.number, place),
    }
}

/// Draws one element, which may be drawn again: its key and its value.
fn one(transaction: &Transaction<'_>, collection: &Collection) -> Result<Option<Pair>, Failure> {
    let (whole, end) = whole(transaction, collection);
    let at = |place| at(transaction, collection, place);
    if collection.count <= SMALL {
        let mut scan = transaction.scan(whole, end, Direction::Forward);
        for _ in 0..fastrand::u64(..collection.count.max(1)) {
            scan.next()?;
        }
        return scan.next();
    }
    let windows = collection.count / EXPECTED;
    let width = u64::MAX / windows;
    for _ in 0..TRIES {
        let window = fastrand::u64(..windows);
        let start = window * width;
        let end = if window + 1 == windows {
            end.clone()
        } else {
            at(start + width)
        };
        let mut scan = transaction.scan(at(start), end, Direction::Forward);
        let mut next = scan.next()?;
        for _ in 0..fastrand::u64(..MOST) {
            if next.is_none() {
                break;
            }
            next = scan.next()?;
        }
        if next.is_some() {
            return Ok(next);
        }
    }
    let mut behind = transaction.scan(at(fastrand::u64(..)), end.clone(), Direction::Forward);
    match behind.next()? {
        Some(pair) => Ok(Some(pair)),
        None => transaction.scan(whole, end, Direction::Forward).next(),
    }
}

/// Calls `each` with `count` elements, of which some may come more than once.
pub(super) fn with_repetitions(
    transaction: &Transaction<'_>,
    collection: &Collection,
    count: u64,
    mut each: impl FnMut(&Pair) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if count > 1 && collection.count <= SMALL {
        let all = all(transaction, collection)?;
        for _ in 0..count {
            let Some(pair) = all.get(fastrand::usize(..all.len().max(1))) else {
                return Ok(());
            };
            each(pair)?;
        }
        return Ok(());
    }
    for _ in 0..count {
        if let Some(pair) = one(transaction, collection)? {
            each(&pair)?;
        }
    }
    Ok(())
}

fn all(transaction: &Transaction<'_>, collection: &Collection) -> Result<Vec<Pair>, Failure> {
    let mut all = Vec::new();
    walk(transaction, collection, |pair| {
        all.push(pair);
        Ok(())
    })?;
    Ok(all)
}

fn walk(
    transaction: &Transaction<'_>,
    collection: &Collection,
    mut each: impl FnMut(Pair) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (start, end) = whole(transaction, collection);
    let mut scan = transaction.scan(start, end, Direction::Forward);
    while let Some(pair) = scan.next()? {
        each(pair)?;
    }
    Ok(())
}

/// Calls `each` with `count` different elements, or with all if there are fewer.
pub(super) fn different(
    transaction: &Transaction<'_>,
    collection: &Collection,
    count: u64,
    mut each: impl FnMut(&Pair) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut wanted = count.min(collection.count);
    if wanted == 1 {
        return with_repetitions(transaction, collection, 1, each);
    }
    if wanted > collection.count / WALKED {
        let mut left = collection.count;
        return walk(transaction, collection, |pair| {
            if fastrand::u64(..left.max(1)) < wanted {
                wanted -= 1;
                each(&pair)?;
            }
            left = left.saturating_sub(1);
            Ok(())
        });
    }
    let mut seen = BTreeSet::new();
    // Where hashes are what a client has chosen it may take for ever to draw all: then some are
    // missing, which the caller asks for again.
    let mut tries = wanted.saturating_mul(TRIES as u64);
    while (seen.len() as u64) < wanted && tries > 0 {
        tries -= 1;
        let Some(pair) = one(transaction, collection)? else {
            break;
        };
        if !seen.contains(&pair.0) {
            each(&pair)?;
            seen.insert(pair.0);
        }
    }
    Ok(())
}

/// Fails before much is drawn for a reply that is too long in any case.
pub(super) fn check_count(reply: &Reply<'_>, count: u64) -> Result<(), Failure> {
    /// No bytes at all, as a reply.
    const LEAST: u64 = b"$0\r\n\r\n".len() as u64;
    if count.saturating_mul(LEAST) > reply.most() as u64 {
        return Err(super::args::too_long(reply.most()));
    }
    check_room(reply)
}
