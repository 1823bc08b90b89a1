//! Estimates the bytes on disk and the records in a key range from totals that the tree maintains
//! anyway, without reading leaves.

use crate::maplet::{Maplet, different_keys};
use crate::run::RangeWeight;
use crate::tiered::trunk::{Trunk, TrunkNode, TrunkPart};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::DistinctKeys;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{EpochGuard, NodeCache, Result};
use std::collections::BTreeMap;

/// Returns the approximate number of bytes, records and deletes in a key range, including
/// superseded versions. Each run contributes an error of at most one leaf at each end of the range.
/// Reads only index nodes.
///
/// # Errors
/// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
pub(crate) fn weigh(trunk: &Trunk, range: &KeyRange) -> Result<RangeWeight> {
    let guard = trunk.store.epochs().pin();
    let version = trunk.peek();
    let mut sum = RangeWeight::default();
    add_up(
        &version.root,
        range,
        (trunk.store.cache(), &guard),
        &mut |_, weight| sum = sum + weight,
    )?;
    Ok(sum)
}

/// Returns the approximate number of bytes on disk that a key range occupies, including a
/// proportional share of the maplets.
///
/// # Errors
/// See [`weigh`].
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

/// Returns the approximate number of keys in a range, which is the number of records that are not
/// deletes. A key with several retained versions or merge operands is counted once for each of
/// them.
///
/// # Errors
/// See [`weigh`].
pub(crate) fn approximate_len(trunk: &Trunk, range: &KeyRange) -> Result<u64> {
    let weight = weigh(trunk, range)?;
    Ok(weight.records.saturating_sub(weight.tombstones))
}

/// The approximate contents of a key range in a tree, grouped by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeHoldings {
    /// Number of bytes of leaves and of separately stored values.
    pub leaf_bytes: u64,
    /// Number of bytes of maplets and index nodes. With these in memory, a lookup can find the
    /// right leaf without a read.
    pub guide_bytes: u64,
    /// Number of records, including superseded versions and deletes.
    pub records: u64,
    /// Number of deletes among the records.
    pub tombstones: u64,
    /// Number of records in the oldest part of each leaf. Keys repeat among them only if the part
    /// has several runs, or if snapshots retain older versions.
    pub oldest_records: u64,
}

/// Returns the approximate contents of a key range in a tree.
///
/// # Errors
/// See [`weigh`].
pub(crate) fn holdings(trunk: &Trunk, range: &KeyRange) -> Result<RangeHoldings> {
    let guard = trunk.store.epochs().pin();
    let from = (trunk.store.cache(), &guard);
    let version = trunk.peek();
    let (mut sum, mut parts) = (RangeHoldings::default(), Vec::new());
    walk(&version.root, range, from, &mut |part, weight, age| {
        sum.leaf_bytes += weight.bytes;
        sum.records += weight.records;
        sum.tombstones += weight.tombstones;
        if age == PartAge::Oldest {
            sum.oldest_records += weight.records;
        }
        parts.push((part.clone(), weight.records));
    })?;
    for (part, records) in parts {
        let group = &part.group;
        let mut guides = group.maplet.bytes();
        for (_, run) in group.runs() {
            // The totals are in the root node of the run's index, so this reads nothing from the
            // device.
            let leaves = run.weigh(&KeyRange::everything(), from.0, from.1, Purpose::Other)?;
            guides += run.summary().bytes.saturating_sub(leaves.bytes);
        }
        let share = u128::from(guides) * u128::from(records);
        sum.guide_bytes += (share / u128::from(group.maplet.entries().max(1))) as u64;
    }
    Ok(sum)
}

/// Returns the approximate number of distinct keys in an on-disk tree, including deleted keys.
///
/// # Errors
/// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
pub(crate) fn distinct_keys(trunk: &Trunk) -> Result<DistinctKeys> {
    let guard = trunk.store.epochs().pin();
    let from = (trunk.store.cache(), &guard);
    let version = trunk.peek();
    let mut records = 0;
    let mut maplets: BTreeMap<u64, Maplet> = BTreeMap::new();
    walk(
        &version.root,
        &KeyRange::everything(),
        from,
        &mut |part, weight, _| {
            let maplet = || part.group.maplet.clone();
            maplets.entry(part.group.id).or_insert_with(maplet);
            records += weight.records;
        },
    )?;
    let maplets: Vec<Maplet> = maplets.into_values().collect();
    Ok(DistinctKeys {
        keys: different_keys(&maplets, trunk.store.tiers())?,
        records: records as f64,
    })
}

/// Whether a part is the oldest part of its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartAge {
    Oldest,
    Newer,
}

/// Calls `tell` with each part of each stack that overlaps the key range, and with the part's
/// weight in that range.
fn add_up(
    node: &TrunkNode,
    range: &KeyRange,
    from: (&NodeCache, &EpochGuard),
    tell: &mut dyn FnMut(&TrunkPart, RangeWeight),
) -> Result<()> {
    walk(node, range, from, &mut |part, weight, _| tell(part, weight))
}

/// Like [`add_up`], but also tells whether the part is the oldest one of its leaf.
fn walk(
    node: &TrunkNode,
    range: &KeyRange,
    from: (&NodeCache, &EpochGuard),
    tell: &mut dyn FnMut(&TrunkPart, RangeWeight, PartAge),
) -> Result<()> {
    for index in node.pivot_for(&range.low)..node.pivots.len() {
        let pivot = node.pivot_range(index);
        let common = pivot.intersect(range);
        if range.ends_before(&pivot.low) || common.is_empty() {
            break;
        }
        let mut age = match node.is_leaf() {
            true => PartAge::Oldest,
            false => PartAge::Newer,
        };
        for layer in node.stack(index) {
            let weight = if common == pivot {
                layer.weight
            } else {
                layer.part.weigh(&common, from.0, from.1, Purpose::Other)?
            };
            tell(layer.part, weight, age);
            age = PartAge::Newer;
        }
        if let Some(child) = &node.pivots[index].child {
            walk(child, &common, from, tell)?;
        }
    }
    Ok(())
}
