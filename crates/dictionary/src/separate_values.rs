//! Reads, in batches, the separately stored values that a scan batch refers to and that are not
//! loaded yet.

use crate::batch::{ScanBatch, UnloadedValue};
use crate::fetch::{BlockingFetch, FetchedNodes, NodeFetch, unwrap_ready};
use crate::value_log::value_in;
use alluvium_storage::Error;

/// Maximum total size, in bytes, of the nodes that are read together. They stay in memory until
/// their values have been copied.
const AT_ONCE: usize = 1 << 20;

/// Loads all values that a scan batch does not contain yet. If a value cannot be read, its record
/// and all later records are removed from the batch. The error then contains the key of that record
/// and the cause.
pub fn load_values(batch: &mut ScanBatch, from: &BlockingFetch<'_>) -> Result<(), (Vec<u8>, Error)> {
    let lacking = batch.take_lacking();
    let mut rest = &lacking[..];
    while !rest.is_empty() {
        let (some, behind) = rest.split_at(fitting(rest));
        let mut brought = FetchedNodes::default();
        // If the batched read fails, the values are read one by one. The values before the
        // unreadable one are therefore still loaded.
        let _ = brought.wait(*from, some.iter().map(|value| value.pointer.node).collect());
        for value in some {
            bring_one(batch, value, from, &brought).map_err(|error| (batch.cut(value), error))?;
        }
        debug_assert!(behind.len() < rest.len(), "each turn brings a value");
        rest = behind;
    }
    Ok(())
}

/// Returns the number of values to read together, counted from the first; it is at least one.
fn fitting(lacking: &[UnloadedValue]) -> usize {
    let mut bytes = 0;
    let fits = |value: &&UnloadedValue| {
        bytes += value.pointer.node.read_len();
        bytes <= AT_ONCE
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
