//! How much of a tree lies in a range: bytes on disk and records. All of it from sums that are kept
//! anyway; no leaf is read.

use crate::maplet::{Maplet, different_keys};
use crate::run::Weight;
use crate::tiered::trunk::{Node, Part, Trunk};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::DistinctKeys;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{Cache, Guard, Result};
use std::collections::BTreeMap;

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

/// What a range has in a tree, by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Bytes of leaves, and of values outside them.
    pub leaf_bytes: u64,
    /// Bytes of maplets and index nodes: what lookups need in memory to find their leaf without a
    /// read.
    pub guide_bytes: u64,
    /// Records, older versions and deletes included.
    pub records: u64,
    /// Deletes among them.
    pub tombstones: u64,
    /// Of the records, those of the oldest run of each leaf. No two of these have the same key,
    /// unless snapshots keep older versions.
    pub oldest_records: u64,
}

/// Returns what a range has in a tree.
///
/// # Errors
/// As [`weigh`].
pub(crate) fn holdings(trunk: &Trunk, range: &KeyRange) -> Result<Holdings> {
    let guard = trunk.store.epochs().pin();
    let from = (trunk.store.cache(), &guard);
    let version = trunk.peek();
    let (mut sum, mut parts) = (Holdings::default(), Vec::new());
    walk(&version.root, range, from, &mut |part, weight, age| {
        sum.leaf_bytes += weight.bytes;
        sum.records += weight.records;
        sum.tombstones += weight.tombstones;
        if age == Age::Oldest {
            sum.oldest_records += weight.records;
        }
        parts.push((part.clone(), weight.records));
    })?;
    for (part, records) in parts {
        let group = &part.group;
        let mut guides = group.maplet.bytes();
        for (_, run) in group.runs() {
            // The root of an index has the sums of all leaves: nothing is read.
            let leaves = run.weigh(&KeyRange::everything(), from.0, from.1, Purpose::Other)?;
            guides += run.summary().bytes.saturating_sub(leaves.bytes);
        }
        let share = u128::from(guides) * u128::from(records);
        sum.guide_bytes += (share / u128::from(group.maplet.entries().max(1))) as u64;
    }
    Ok(sum)
}

/// Returns about how many different keys a tree has on disk, deleted ones included.
///
/// # Errors
/// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
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

/// Whether a part is the oldest of its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Oldest,
    Newer,
}

/// Tells the weight of each part of each stack that a range has a share of.
fn add_up(
    node: &Node,
    range: &KeyRange,
    from: (&Cache, &Guard),
    tell: &mut dyn FnMut(&Part, Weight),
) -> Result<()> {
    walk(node, range, from, &mut |part, weight, _| tell(part, weight))
}

/// As [`add_up`], with the age of each part.
fn walk(
    node: &Node,
    range: &KeyRange,
    from: (&Cache, &Guard),
    tell: &mut dyn FnMut(&Part, Weight, Age),
) -> Result<()> {
    for index in node.pivot_for(&range.low)..node.pivots.len() {
        let pivot = node.pivot_range(index);
        let common = pivot.intersect(range);
        if range.ends_before(&pivot.low) || common.is_empty() {
            break;
        }
        let mut age = match node.is_leaf() {
            true => Age::Oldest,
            false => Age::Newer,
        };
        for layer in node.stack(index) {
            let weight = if common == pivot {
                layer.weight
            } else {
                layer.part.weigh(&common, from.0, from.1, Purpose::Other)?
            };
            tell(layer.part, weight, age);
            age = Age::Newer;
        }
        if let Some(child) = &node.pivots[index].child {
            walk(child, &common, from, tell)?;
        }
    }
    Ok(())
}
