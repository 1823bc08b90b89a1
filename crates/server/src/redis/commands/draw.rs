//! Selects uniformly distributed random elements from hashes, sets and sorted sets.
//!
//! Elements are ordered by their hashes, which are uniformly distributed over 64 bits. The range of
//! hashes is divided into windows of equal width, with a few elements each on average. To select an
//! element, a random window and a random index are generated until the window has an element at
//! that index. All elements therefore have the same probability, and the expected cost does not
//! depend on the size of the collection. If a command requests a large part of a collection, the
//! collection is iterated once instead, and each element is selected with the probability that it
//! belongs to those still to be selected.

use crate::error::CommandError;
use crate::protocol::resp::ReplyWriter;
use crate::redis::args::check_room;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};
use crate::store::{CommandTransaction, OwnedPair, WalkDirection};
use std::collections::BTreeSet;

/// Average number of elements in a window, and an upper bound that is exceeded only with negligible
/// probability.
const EXPECTED: u64 = 16;
const MOST: u64 = 40;

/// Maximum size of a collection that is treated as a single window.
const SMALL: u64 = MOST;

/// Number of failed attempts after which the element that follows a random hash is returned
/// instead. Without this limit, a client could concentrate its elements' hashes in few windows and
/// make the search very long.
const TRIES: usize = 200;

/// Number of elements that can be iterated in about the time it takes to select one random element.
const WALKED: u64 = 256;

/// Returns the key range of a collection's elements or, for a sorted set, of its member keys.
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

/// Returns the smallest possible key of an element whose hash is at least `place`.
fn at(transaction: &CommandTransaction<'_>, collection: &CollectionHeader, place: u64) -> InnerKey {
    match collection.kind {
        CollectionKind::SortedSet => format::sorted_place_key(transaction.database, collection.number, place),
        _ => format::place_key(transaction.database, collection.number, place),
    }
}

/// Selects a random element, and returns its key and value. Successive calls may select the same
/// element.
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

/// Selects `count` random elements, possibly the same ones repeatedly, and calls `each` with each
/// of them.
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

/// Selects `count` distinct random elements, or all if there are fewer, and calls `each` with each
/// of them.
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
    // If a client has chosen the hashes, finding all elements by random selection could take too
    // long. In this case return fewer elements, and let the caller request the rest.
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

/// Returns an error if a reply of `count` elements would exceed the output limit even with empty
/// elements.
pub(super) fn check_count(reply: &ReplyWriter<'_>, count: u64) -> Result<(), CommandError> {
    /// Length in bytes of the shortest possible element of a reply.
    const LEAST: u64 = b"$0\r\n\r\n".len() as u64;
    if count.saturating_mul(LEAST) > reply.most() as u64 {
        return Err(crate::redis::args::too_long(reply.most()));
    }
    check_room(reply)
}
