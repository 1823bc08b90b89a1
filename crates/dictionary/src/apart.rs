//! Values that a scan's batch refers to but does not hold yet: read together, as many as there are.

use crate::batch::{Apart, Batch};
use crate::fetch::{Blocking, Brought, Fetch, found};
use crate::values::value_in;
use alluvium_storage::Error;

/// Bytes of the nodes that are read together, and stay until their values are copied.
const AT_ONCE: usize = 1 << 20;

/// Reads all values that are still missing from a batch. If one cannot be read, the batch ends
/// before it; the error names its key and the cause.
pub fn bring(batch: &mut Batch, from: &Blocking<'_>) -> Result<(), (Vec<u8>, Error)> {
    let lacking = batch.take_lacking();
    let mut rest = &lacking[..];
    while !rest.is_empty() {
        let (some, behind) = rest.split_at(fitting(rest));
        let mut brought = Brought::default();
        // Where that fails, those before the one that cannot be read are good all the same: they
        // are read one by one.
        let _ = brought.wait(*from, some.iter().map(|value| value.pointer.node).collect());
        for value in some {
            bring_one(batch, value, from, &brought).map_err(|error| (batch.cut(value), error))?;
        }
        debug_assert!(behind.len() < rest.len(), "each turn brings a value");
        rest = behind;
    }
    Ok(())
}

/// Returns how many of the first values are read together.
fn fitting(lacking: &[Apart]) -> usize {
    let mut bytes = 0;
    let fits = |value: &&Apart| {
        bytes += value.pointer.node.read_len();
        bytes <= AT_ONCE
    };
    lacking.iter().take_while(fits).count().max(1)
}

fn bring_one(
    batch: &mut Batch,
    value: &Apart,
    from: &Blocking<'_>,
    brought: &Brought<'_>,
) -> Result<(), Error> {
    let node = match brought.get(&value.pointer.node) {
        Some(node) => node,
        None => found(from.node(&value.pointer.node))?,
    };
    batch.bring(value, value_in(&node, &value.pointer)?);
    Ok(())
}
