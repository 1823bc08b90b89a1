//! Lookups of a key in a run, optionally including all keys with the same hash prefix.

use super::HashRun;
use crate::hashed::leaf::{HashLeafEntry, KeyAt, LeafEntryIter};
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::pinned_value::ValueDestination;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::value_log::fetch_value;
use alluvium_storage::Result;
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// A key to look up, and its hash under the seed of the runs.
#[derive(Clone, Copy, Debug)]
pub struct RunLookupKey<'k> {
    pub bytes: &'k [u8],
    pub hash: u64,
}

/// All hashes with a common prefix, as an inclusive range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashPrefixRange {
    pub first: u64,
    pub last: u64,
}

/// Callback that receives the records of a key, newest first, until it returns `Break`.
type KeyRecordVisitor<'v> = &'v mut dyn FnMut(StoredRecord<'_>) -> Poll<Result<ControlFlow<()>>>;

/// Returns whether a leaf entry belongs to a key. Pending if the entry's key is stored separately
/// and must be read first.
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

/// Passes the records of a key to `visit`, newest first, until it breaks. Their sequence numbers
/// are absolute. If a node must be read from the device first, the search is pending, and the next
/// call starts from the beginning.
///
/// # Errors
/// I/O errors; damaged data.
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
        // If this leaf ends with a greater hash, the next one cannot contain records of the key.
        if number + 1 < leaves.end && last.is_none_or(|last| last.hash(run.seed()) > key.hash) {
            return Poll::Ready(Ok(()));
        }
    }
    Poll::Ready(Ok(()))
}

/// Searches like [`find`], and also returns the earlier run that the records of `group` name:
/// `Some(None)` if they name no run, and `None` if the run has no records of the group or `visit`
/// breaks. All records of the group are between the leaves of its first hash and those of its last
/// (U6).
///
/// # Errors
/// I/O errors; damaged data.
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

/// Returns an entry's record with its absolute sequence number.
fn numbered<'l>(run: &HashRun, entry: &HashLeafEntry<'l>) -> StoredRecord<'l> {
    StoredRecord {
        sequence: entry.record.sequence + run.base(),
        ..entry.record
    }
}
