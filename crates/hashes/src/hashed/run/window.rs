//! Reads a few leaves of a run through the cache.

use super::cursor::{LongKey, read_entries};
use super::{HashRun, OwnedHashRecord};
use crate::hashed::leaf::{KeyAt, LeafEntryIter};
use alluvium_base::Purpose;
use alluvium_dictionary::nodes::{CachedNodeReader, NodeReader};
use alluvium_dictionary::value_log::read_from;
use alluvium_storage::store::Store;
use alluvium_storage::{CacheRetention, Result};
use std::ops::ControlFlow;

/// Returns the last hash in a window of `leaves` leaves, which starts at the leaf with the first
/// record of hash `first`. Returns `u64::MAX` if the run ends within the window. Records with the
/// returned hash may continue in the next leaf.
///
/// # Errors
/// I/O errors; damaged data.
pub fn window_end(run: &HashRun, first: u64, leaves: u64, nodes: &dyn NodeReader) -> Result<u64> {
    assert!(leaves > 0, "a window has leaves");
    for number in run.leaves_of(first)?.start + leaves - 1..run.leaves() {
        let pointer = run.leaf(number)?;
        let mut last = 0;
        nodes.each(&[pointer], &mut |leaf| {
            let place = || pointer.place();
            let mut entries = LeafEntryIter::open(leaf, place, run.page_size())?;
            let mut key = None;
            while let Some(entry) = entries.next(place)? {
                key = Some(entry.key);
            }
            last = key.map_or(0, |key| key.hash(run.seed()));
            Ok(())
        })?;
        if last >= first {
            return Ok(last);
        }
    }
    Ok(u64::MAX)
}

/// Maximum number of leaves per batch.
const TOGETHER: u64 = 64;

/// Passes all records with hashes from `hashes.0` to `hashes.1` to `visit`, in order, until it
/// breaks. Reads leaves in batches, and does not load separately stored values.
///
/// # Errors
/// I/O errors; damaged data.
pub fn read_window(
    run: &HashRun,
    hashes: (u64, u64),
    nodes: &dyn NodeReader,
    visit: &mut dyn FnMut(OwnedHashRecord) -> ControlFlow<()>,
) -> Result<()> {
    let mut is_over = false;
    let mut next = run.leaves_of(hashes.0)?.start;
    let expected = run.leaves_of(hashes.1)?.end;
    while next < run.leaves() && !is_over {
        let end = expected.clamp(next + 1, next + TOGETHER).min(run.leaves());
        let pointers = (next..end).map(|number| run.leaf(number));
        let pointers = pointers.collect::<Result<Vec<_>>>()?;
        let mut each = pointers.iter();
        nodes.each(&pointers, &mut |leaf| {
            let pointer = each.next().expect("a leaf for each pointer");
            if is_over {
                return Ok(());
            }
            let mut long = LongKey::default();
            read_entries(run, pointer, leaf, &mut |record, key_apart| {
                is_over |= record.hash > hashes.1;
                if record.hash >= hashes.0 && !is_over {
                    let record = long.complete(record, key_apart.as_ref(), nodes)?;
                    is_over = visit(record.to_owned()).is_break();
                }
                Ok(())
            })
        })?;
        next = end;
    }
    Ok(())
}

/// Passes the key of each record of a leaf to `visit`.
///
/// # Errors
/// I/O errors; damaged data.
pub fn read_keys(store: &Store, run: &HashRun, leaf: u64, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
    let guard = store.epochs().pin();
    let nodes = CachedNodeReader {
        cache: store.cache(),
        guard: &guard,
        purpose: Purpose::Other,
        residence: CacheRetention::PassThrough,
    };
    let pointer = run.leaf(leaf)?;
    nodes.each(&[pointer], &mut |leaf| {
        let place = || pointer.place();
        let mut entries = LeafEntryIter::open(leaf, place, run.page_size())?;
        while let Some(entry) = entries.next(place)? {
            match entry.key {
                KeyAt::Here(key) => visit(key),
                KeyAt::Apart { pointer, .. } => {
                    let mut key = Vec::new();
                    read_from(&nodes, &pointer, &mut key)?;
                    visit(&key);
                }
            }
        }
        Ok(())
    })
}
