//! Reads the separate values that a scan batch refers to but has not loaded yet, several at a time.

use crate::batch::{ScanBatch, UnloadedValue};
use crate::fetch::{BlockingFetch, FetchedNodes, NodeFetch, unwrap_ready};
use crate::value_log::value_in;
use alluvium_storage::Error;

/// Maximum total size, in bytes, of the nodes read at once, unless the batch itself is larger. They
/// stay in memory until their values have been copied.
const AT_ONCE: usize = 1 << 20;

/// Loads all values that are missing from a scan batch. If a value cannot be read, removes its
/// record and all later records from the batch, and returns the record's key and the cause as the
/// error.
pub fn load_values(batch: &mut ScanBatch, from: &BlockingFetch<'_>) -> Result<(), (Vec<u8>, Error)> {
    let lacking = batch.take_lacking();
    let at_once = AT_ONCE.max(batch.most_bytes_apart());
    let mut rest = &lacking[..];
    while !rest.is_empty() {
        let (some, behind) = rest.split_at(fitting(rest, at_once));
        let mut brought = FetchedNodes::default();
        // If the batched read fails, the values are read one by one, so that those before the
        // unreadable one are still loaded.
        let _ = brought.wait(*from, some.iter().map(|value| value.pointer.node).collect());
        for value in some {
            bring_one(batch, value, from, &brought).map_err(|error| (batch.cut(value), error))?;
        }
        debug_assert!(behind.len() < rest.len(), "each turn brings a value");
        rest = behind;
    }
    Ok(())
}

/// Returns how many of the first values to read at once, which is at least one.
fn fitting(lacking: &[UnloadedValue], at_once: usize) -> usize {
    let mut bytes = 0;
    let fits = |value: &&UnloadedValue| {
        bytes += value.pointer.node.read_len();
        bytes <= at_once
    };
    lacking.iter().take_while(fits).count().max(1)
}

fn bring_one(
    batch: &mut ScanBatch,
    value: &UnloadedValue,
    from: &BlockingFetch<'_>,
    brought: &FetchedNodes<'_>,
) -> Result<(), Error> {
    let node = match brought.get(&value.pointer.node) {
        Some(node) => node,
        None => unwrap_ready(from.node(&value.pointer.node))?,
    };
    batch.fill_value(value, value_in(&node, &value.pointer)?);
    Ok(())
}
