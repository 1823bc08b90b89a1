//! How much of a tree lies in a range: bytes on disk and records. All of it from sums that are kept
//! anyway; no leaf is read.

use crate::run::Weight;
use crate::tiered::trunk::{Node, Part, Trunk};
use alluvium_base::Purpose;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{Cache, Guard, Result};

/// Returns about how much there is of a range: bytes, records and deletes among them, older
/// versions included. Exact but for a leaf's worth at each end of each run; only index nodes
/// are read.
///
/// # Errors
/// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
pub(crate) fn weigh(trunk: &Trunk, range: &KeyRange) -> Result<Weight> {
    let guard = trunk.store.epochs().pin();
    let version = trunk.peek();
    let mut sum = Weight::default();
    add_up(
        &version.root,
        range,
        (trunk.store.cache(), &guard),
        &mut |_, weight| sum = sum + weight,
    )?;
    Ok(sum)
}

/// Returns about how many bytes a range takes on disk, its share of maplets included.
///
/// # Errors
/// As [`weigh`].
pub(crate) fn size_on_disk(trunk: &Trunk, range: &KeyRange) -> Result<u64> {
    let guard = trunk.store.epochs().pin();
    let version = trunk.peek();
    let mut bytes = 0;
    add_up(
        &version.root,
        range,
        (trunk.store.cache(), &guard),
        &mut |part, weight| {
            let maplet = &part.group.maplet;
            let share = u128::from(maplet.bytes()) * u128::from(weight.records);
            bytes += weight.bytes + (share / u128::from(maplet.entries().max(1))) as u64;
        },
    )?;
    Ok(bytes)
}

/// Returns about how many keys a range has: records that are no deletes. A key of which several
/// versions or merges are left counts several times.
///
/// # Errors
/// As [`weigh`].
pub(crate) fn approximate_len(trunk: &Trunk, range: &KeyRange) -> Result<u64> {
    let weight = weigh(trunk, range)?;
    Ok(weight.records.saturating_sub(weight.tombstones))
}

/// Tells the weight of each part of each stack that a range has a share of.
fn add_up(
    node: &Node,
    range: &KeyRange,
    from: (&Cache, &Guard),
    tell: &mut dyn FnMut(&Part, Weight),
) -> Result<()> {
    for index in node.pivot_for(&range.low)..node.pivots.len() {
        let pivot = node.pivot_range(index);
        let common = pivot.intersect(range);
        if range.ends_before(&pivot.low) || common.is_empty() {
            break;
        }
        for layer in node.stack(index) {
            let weight = if common == pivot {
                layer.weight
            } else {
                layer.part.weigh(&common, from.0, from.1, Purpose::Other)?
            };
            tell(layer.part, weight);
        }
        if let Some(child) = &node.pivots[index].child {
            add_up(child, &common, from, tell)?;
        }
    }
    Ok(())
}
