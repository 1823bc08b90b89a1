//! Lookup of a key in a run, and of the keys whose hashes have the same prefix.

use super::HashRun;
use crate::hashed::leaf::{HashLeafEntry, KeyAt, LeafEntryIter};
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::pinned_value::ValueDestination;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::value_log::fetch_value;
use alluvium_storage::Result;
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// A key to look up, with its hash under the seed of the runs.
#[derive(Clone, Copy, Debug)]
pub struct RunLookupKey<'k> {
    pub bytes: &'k [u8],
    pub hash: u64,
}

/// The hashes with a common prefix, as an inclusive range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashPrefixRange {
    pub first: u64,
    pub last: u64,
}

/// Receives the records of a key, newest first, until it breaks.
type KeyRecordVisitor<'v> = &'v mut dyn FnMut(StoredRecord<'_>) -> Poll<Result<ControlFlow<()>>>;

/// Returns whether an entry belongs to a key.
fn is_about<F: NodeFetch>(entry: &HashLeafEntry<'_>, key: RunLookupKey<'_>, fetch: &F) -> Poll<Result<bool>> {
    match entry.key {
        KeyAt::Here(bytes) => Poll::Ready(Ok(bytes == key.bytes)),
        KeyAt::Apart { hash, pointer } => {
            if hash != key.hash || pointer.len as usize != key.bytes.len() {
                return Poll::Ready(Ok(false));
            }
            let mut bytes = Vec::new();
            let room = ValueDestination {
                bytes: &mut bytes,
                part: None,
            };
            ready!(fetch_value(fetch, &pointer, room))?;
            Poll::Ready(Ok(bytes == key.bytes))
        }
    }
}

/// Passes the records of a key to `visit`, newest first, with absolute sequence numbers, until it
/// breaks. If a leaf is missing, the search is pending, and a further call starts from the
/// beginning.
///
/// # Errors
/// I/O errors; damage.
pub fn find<F: NodeFetch>(
    run: &HashRun,
    key: RunLookupKey<'_>,
    fetch: &F,
    visit: KeyRecordVisitor<'_>,
) -> Poll<Result<()>> {
    let leaves = run.leaves_of(key.hash)?;
    let mut is_found = false;
    for number in leaves.clone() {
        let pointer = run.leaf(number)?;
        let node = ready!(fetch.node(&pointer))?;
        let place = || pointer.place();
        let mut entries = LeafEntryIter::open(&node, place, run.page_size())?;
        let (mut was_it, mut last) = (false, None);
        while let Some(entry) = entries.next(place)? {
            last = Some(entry.key);
            let is_it = match entry.is_same_key {
                true => was_it,
                false => ready!(is_about(&entry, key, fetch))?,
            };
            was_it = is_it;
            if is_it {
                is_found = true;
                if ready!(visit(numbered(run, &entry)))?.is_break() {
                    return Poll::Ready(Ok(()));
                }
            } else if is_found {
                return Poll::Ready(Ok(()));
            }
        }
        // After a greater hash there are no records of the key.
        if number + 1 < leaves.end && last.is_none_or(|last| last.hash(run.seed()) > key.hash) {
            return Poll::Ready(Ok(()));
        }
    }
    Poll::Ready(Ok(()))
}

/// As [`find`], but also returns the earlier run named by the records of the key's group, if there
/// are any. All of these are in the leaves between those of the group's first and last hash (U6).
/// If `visit` breaks, it returns `None`.
///
/// # Errors
/// I/O errors; damage.
pub fn find_in_group<F: NodeFetch>(
    run: &HashRun,
    key: RunLookupKey<'_>,
    group: HashPrefixRange,
    fetch: &F,
    visit: KeyRecordVisitor<'_>,
) -> Poll<Result<Option<Option<u8>>>> {
    debug_assert!(
        (group.first..=group.last).contains(&key.hash),
        "a key is of its group"
    );
    let mut previous = None;
    for number in run.leaves_of(group.first)?.start..run.leaves_of(group.last)?.end {
        let pointer = run.leaf(number)?;
        let node = ready!(fetch.node(&pointer))?;
        let place = || pointer.place();
        let mut entries = LeafEntryIter::open(&node, place, run.page_size())?;
        let mut was_it = false;
        while let Some(entry) = entries.next(place)? {
            let is_it = match entry.is_same_key {
                true => was_it,
                false => ready!(is_about(&entry, key, fetch))?,
            };
            was_it = is_it;
            if is_it {
                previous = Some(entry.previous);
                if ready!(visit(numbered(run, &entry)))?.is_break() {
                    return Poll::Ready(Ok(None));
                }
                continue;
            }
            let hash = entry.key.hash(run.seed());
            if hash > group.last {
                return Poll::Ready(Ok(previous));
            }
            if hash >= group.first {
                previous = Some(entry.previous);
            }
        }
    }
    Poll::Ready(Ok(previous))
}

/// Returns a record with its absolute sequence number.
fn numbered<'l>(run: &HashRun, entry: &HashLeafEntry<'l>) -> StoredRecord<'l> {
    StoredRecord {
        sequence: entry.record.sequence + run.base(),
        ..entry.record
    }
}
