//! Uniform random sampling of elements of hashes, sets and sorted sets.
//!
//! Elements are ordered by hash, and hashes are uniform over 64 bits. The range of hashes is
//! divided into windows that contain a few elements on average. A window and an index are drawn. If
//! the window has an element at that index, it is the result; otherwise both are drawn again. All
//! elements therefore have the same probability, and the expected work does not depend on the size
//! of the collection. If a large part of a collection is wanted, it is walked once, and each
//! element is selected with its probability of being among those still wanted.

use crate::error::CommandError;
use crate::protocol::resp::ReplyWriter;
use crate::redis::args::check_room;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};
use crate::store::{CommandTransaction, OwnedPair, WalkDirection};
use std::collections::BTreeSet;

/// Average number of elements in a window, and a bound that is practically never exceeded.
const EXPECTED: u64 = 16;
const MOST: u64 = 40;

/// Collections up to this size are one window.
const SMALL: u64 = MOST;

/// Failed draws after which the next element after a random position is returned: hashes chosen by
/// a client may be concentrated in few windows.
const TRIES: usize = 200;

/// Number of walked elements that take as long as one draw.
const WALKED: u64 = 256;

/// Returns the key range of the elements to draw from. For a sorted set these are its member keys.
fn whole(transaction: &CommandTransaction<'_>, collection: &CollectionHeader) -> (InnerKey, InnerKey) {
    let (database, number) = (transaction.database, collection.number);
    if collection.kind == CollectionKind::SortedSet {
        let start = format::sorted_place_key(database, number, 0);
        return (start, format::sorted_members_end(database, number));
    }
    let start = format::elements(database, number);
    let end = format::behind(&start);
    (start, end)
}

/// Returns the smallest key of elements with this hash or a larger one.
fn at(transaction: &CommandTransaction<'_>, collection: &CollectionHeader, place: u64) -> InnerKey {
    match collection.kind {
        CollectionKind::SortedSet => format::sorted_place_key(transaction.database, collection.number, place),
        _ => format::place_key(transaction.database, collection.number, place),
    }
}

/// Draws one element, possibly one that was drawn before. Returns its key and value.
fn one(
    transaction: &CommandTransaction<'_>,
    collection: &CollectionHeader,
) -> Result<Option<OwnedPair>, CommandError> {
    let (whole, end) = whole(transaction, collection);
    let at = |place| at(transaction, collection, place);
    if collection.count <= SMALL {
        let mut scan = transaction.scan(whole, end, WalkDirection::Forward);
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
        let mut scan = transaction.scan(at(start), end, WalkDirection::Forward);
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
    let mut behind = transaction.scan(at(fastrand::u64(..)), end.clone(), WalkDirection::Forward);
    match behind.next()? {
        Some(pair) => Ok(Some(pair)),
        None => transaction.scan(whole, end, WalkDirection::Forward).next(),
    }
}

/// Calls `each` with `count` elements, with repetitions.
pub(super) fn with_repetitions(
    transaction: &CommandTransaction<'_>,
    collection: &CollectionHeader,
    count: u64,
    mut each: impl FnMut(&OwnedPair) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
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

fn all(
    transaction: &CommandTransaction<'_>,
    collection: &CollectionHeader,
) -> Result<Vec<OwnedPair>, CommandError> {
    let mut all = Vec::new();
    walk(transaction, collection, |pair| {
        all.push(pair);
        Ok(())
    })?;
    Ok(all)
}

fn walk(
    transaction: &CommandTransaction<'_>,
    collection: &CollectionHeader,
    mut each: impl FnMut(OwnedPair) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let (start, end) = whole(transaction, collection);
    let mut scan = transaction.scan(start, end, WalkDirection::Forward);
    while let Some(pair) = scan.next()? {
        each(pair)?;
    }
    Ok(())
}

/// Calls `each` with `count` distinct elements, or with all if there are fewer.
pub(crate) fn different(
    transaction: &CommandTransaction<'_>,
    collection: &CollectionHeader,
    count: u64,
    mut each: impl FnMut(&OwnedPair) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
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
    // With hashes chosen by a client, drawing every element could take too long. Then fewer are
    // returned, and the caller asks for the rest.
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

/// Fails early if a reply of this many elements would be too long in any case.
pub(super) fn check_count(reply: &ReplyWriter<'_>, count: u64) -> Result<(), CommandError> {
    /// The shortest element of a reply.
    const LEAST: u64 = b"$0\r\n\r\n".len() as u64;
    if count.saturating_mul(LEAST) > reply.most() as u64 {
        return Err(crate::redis::args::too_long(reply.most()));
    }
    check_room(reply)
}
