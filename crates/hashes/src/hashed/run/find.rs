//! What a run says of a key.

use super::Run;
use crate::hashed::leaf::{Entries, Entry, KeyAt};
use alluvium_dictionary::fetch::Fetch;
use alluvium_dictionary::found::Room;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::record::Record;
use alluvium_dictionary::values::fetch_value;
use alluvium_storage::Result;
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// Returns whether an entry is about a key.
fn is_about<F: Fetch>(entry: &Entry<'_>, key: Key<'_>, fetch: &F) -> Poll<Result<bool>> {
    match entry.key {
        KeyAt::Here(bytes) => Poll::Ready(Ok(bytes == key.bytes())),
        KeyAt::Apart { hash, pointer } => {
            if hash != key.hash() || pointer.len as usize != key.bytes().len() {
                return Poll::Ready(Ok(false));
            }
            let mut bytes = Vec::new();
            let room = Room {
                bytes: &mut bytes,
                part: None,
            };
            ready!(fetch_value(fetch, &pointer, room))?;
            Poll::Ready(Ok(bytes == key.bytes()))
        }
    }
}

/// Hands the records of a key to `visit`, newest first, with their own sequence numbers, until it
/// has enough. Pending where a leaf is missing: it begins again then.
///
/// # Errors
/// As the device says; damage.
pub fn find<F: Fetch>(
    run: &Run,
    key: Key<'_>,
    fetch: &F,
    visit: &mut dyn FnMut(Record<'_>) -> Poll<Result<ControlFlow<()>>>,
) -> Poll<Result<()>> {
    let leaves = run.leaves_of(key.hash())?;
    let mut is_found = false;
    for number in leaves.clone() {
        let pointer = run.leaf(number)?;
        let node = ready!(fetch.node(&pointer))?;
        let place = || pointer.place();
        let mut entries = Entries::open(&node, place, run.page_size())?;
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
                let record = Record {
                    sequence: entry.record.sequence + run.base(),
                    ..entry.record
                };
                if ready!(visit(record))?.is_break() {
                    return Poll::Ready(Ok(()));
                }
            } else if is_found {
                return Poll::Ready(Ok(()));
            }
        }
        // Behind the key nothing of it follows.
        if number + 1 < leaves.end && last.is_none_or(|last| last.hash() > key.hash()) {
            return Poll::Ready(Ok(()));
        }
    }
    Poll::Ready(Ok(()))
}
