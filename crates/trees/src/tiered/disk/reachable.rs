//! The structures that an on-disk trunk refers to, found by reading the trunk without opening them.
//! Checks use this, and so does the reconstruction of the extent map.

use super::format::{StoredNode, StoredPart, TreeRoot};
use crate::maplet::Maplet;
use crate::run::IndexedRun;
use crate::tiered::trunk::{RunKey, TrunkNode, key_of};
use alluvium_base::Purpose;
use alluvium_dictionary::blob::extents_of;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};
use alluvium_dictionary::value_log::{self, ValuePointer};
use alluvium_storage::extents::{Extent, ReachableExtent};
use alluvium_storage::{DiskLocation, Error, NodePointer, OnDiskObject, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Returns a location to report for a tree's root in error messages. The root itself is stored by
/// the tree's caller.
pub(super) fn root_place() -> DiskLocation {
    DiskLocation::new(OnDiskObject::Node, "the root of a tree", 0)
}

/// A key range in which readers reach a run through a group, and the run's index in that group.
#[derive(Clone, Debug)]
pub(super) struct RunNeed {
    pub(crate) range: KeyRange,
    pub(crate) group: u64,
    pub(crate) place: usize,
}

/// Runs, maplets and trunk nodes, sorted by location.
#[derive(Debug, Default)]
pub(crate) struct ReachableStructures {
    /// For each run, the pointer to its footer and the key ranges in which readers need the run.
    pub(crate) runs: BTreeMap<RunKey, (NodePointer, Vec<RunNeed>)>,
    /// For each maplet, the pointer to its directory and the number of its group.
    pub(crate) maplets: BTreeMap<RunKey, (NodePointer, u64)>,
    /// The storage nodes that contain trunk nodes.
    pub(crate) trunk: BTreeMap<RunKey, NodePointer>,
    /// Trunk nodes that have already been read.
    seen: HashSet<ValuePointer>,
    /// Trunk nodes that could not be read.
    pub(crate) damaged: Vec<DamagedTrunkNode>,
}

/// A trunk node that could not be read, or a root that could not be decoded.
#[derive(Debug)]
pub(super) struct DamagedTrunkNode {
    /// The key range of the node.
    pub(crate) range: KeyRange,
    pub(crate) error: Error,
}

impl ReachableStructures {
    /// Adds everything reachable from the root of a tree. A damaged trunk node is added to
    /// `damaged`, and everything below it is omitted.
    pub(crate) fn read(&mut self, files: DataFiles<'_>, root: &[u8]) {
        match TreeRoot::decode(root, &root_place(), files.page_size) {
            Ok(root) => self.read_trunk(files, root.trunk),
            Err(error) => self.damaged.push(DamagedTrunkNode {
                range: KeyRange::everything(),
                error,
            }),
        }
    }

    fn read_trunk(&mut self, files: DataFiles<'_>, root: ValuePointer) {
        let mut pending = vec![(root, KeyRange::everything())];
        while let Some((pointer, range)) = pending.pop() {
            if !self.seen.insert(pointer) {
                continue;
            }
            match self.read_node(files, &pointer) {
                Ok(form) => {
                    self.add_form(&form);
                    let children = form.pivots.iter().enumerate();
                    pending.extend(
                        children.filter_map(|(index, pivot)| Some((pivot.child?, pivot_range(&form, index)))),
                    );
                }
                Err(error) => {
                    self.trunk.insert(key_of(&pointer.node), pointer.node);
                    self.damaged.push(DamagedTrunkNode { range, error });
                }
            }
        }
    }

    fn read_node(&mut self, files: DataFiles<'_>, pointer: &ValuePointer) -> Result<StoredNode> {
        let mut bytes = Vec::new();
        let nodes = value_log::read_apart(files, pointer, Purpose::Check, &mut bytes)?;
        self.trunk
            .extend(nodes.into_iter().map(|node| (key_of(&node), node)));
        StoredNode::decode(&bytes, &pointer.node.place(), files.page_size)
    }

    /// Reads the on-disk copy of a node of the current version to verify that it is intact, and
    /// adds the copy.
    pub(super) fn read_again(&mut self, files: DataFiles<'_>, pointer: &ValuePointer) {
        if self.seen.insert(*pointer)
            && let Err(error) = self.read_node(files, pointer)
        {
            self.damaged.push(DamagedTrunkNode {
                range: KeyRange::everything(),
                error,
            });
        }
    }

    /// Adds the structures that an in-memory node refers to.
    pub(super) fn add_node(&mut self, node: &TrunkNode) {
        for (part, range) in node.uses() {
            let group = &part.group;
            let maplet = *group.maplet.pointer();
            self.maplets.insert(key_of(&maplet), (maplet, group.id));
            for (place, run) in group.runs() {
                // A run outside of the range may already have been deleted, although its group
                // still exists.
                if range.overlaps(run.low(), run.high()) {
                    self.need(run.pointer(), &range, group.id, place);
                }
            }
        }
    }

    /// Adds the structures that an on-disk node refers to.
    fn add_form(&mut self, form: &StoredNode) {
        for group in &form.groups {
            self.maplets
                .insert(key_of(&group.maplet), (group.maplet, group.id));
        }
        for (index, pivot) in form.pivots.iter().enumerate() {
            let range = pivot_range(form, index);
            let live = form.bundles.len() - pivot.live.len().min(form.bundles.len());
            let own = pivot.own.iter().map(|(part, _)| part);
            for part in own.chain(form.bundles[live..].iter().flatten()) {
                self.add_part(form, part, &range);
            }
        }
    }

    fn add_part(&mut self, form: &StoredNode, part: &StoredPart, range: &KeyRange) {
        let within = match part.clip {
            Some(clip) => range.intersect(&form.clips[clip]),
            None => range.clone(),
        };
        let group = &form.groups[part.group];
        for (place, run) in group.runs.iter().enumerate() {
            if let Some(run) = run {
                self.need(&run.pointer, &within, group.id, place);
            }
        }
    }

    fn need(&mut self, pointer: &NodePointer, range: &KeyRange, group: u64, place: usize) {
        if range.is_empty() {
            return;
        }
        let (_, needs) = self
            .runs
            .entry(key_of(pointer))
            .or_insert_with(|| (*pointer, Vec::new()));
        let known = |need: &RunNeed| (need.group, need.place) == (group, place) && need.range.covers(range);
        if !needs.iter().any(known) {
            needs.push(RunNeed {
                range: range.clone(),
                group,
                place,
            });
        }
    }
}

fn pivot_range(form: &StoredNode, index: usize) -> KeyRange {
    let high = match form.pivots.get(index + 1) {
        Some(next) => Some(next.low.clone()),
        None => form.range.high.clone(),
    };
    KeyRange {
        low: form.pivots[index].low.clone(),
        high,
    }
}

/// Returns the key ranges of `needs` in ascending order, with overlapping and adjacent ranges
/// merged.
pub(crate) fn merged(needs: &[RunNeed]) -> Vec<KeyRange> {
    let mut ranges: Vec<KeyRange> = needs.iter().map(|need| need.range.clone()).collect();
    ranges.sort_unstable_by(|one, other| one.low.cmp(&other.low));
    let mut merged: Vec<KeyRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.high.as_ref().is_none_or(|high| range.low <= *high) => {
                let further = match (&last.high, &range.high) {
                    (Some(mine), Some(others)) => others > mine,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                if further {
                    last.high = range.high;
                }
            }
            _ => merged.push(range),
        }
    }
    debug_assert!(
        merged.is_sorted_by(|one, next| one.high.as_ref().is_some_and(|high| *high < next.low)),
        "ranges that touch are one"
    );
    merged
}

/// Returns every extent reachable from the root of a tree, with its reference count and its live
/// bytes. This reconstructs the extent map without reading it. Trunk nodes do not record their
/// extents, so the smallest possible extents are assumed for them.
///
/// # Errors
/// [`Error::Corrupt`] if a structure that lists extents is damaged; I/O errors.
pub fn reached(files: DataFiles<'_>, root: &[u8]) -> Result<Vec<ReachableExtent>> {
    let mut names = ReachableStructures::default();
    names.read(files, root);
    if let Some(damage) = names.damaged.pop() {
        return Err(damage.error);
    }
    let mut sums = ExtentSums::default();
    for (pointer, needs) in names.runs.values() {
        sums.add_run(&IndexedRun::open_from(files, pointer, Purpose::Recovery)?, needs);
    }
    for (pointer, _) in names.maplets.values() {
        sums.add_maplet(&Maplet::open_from(files, pointer, Purpose::Recovery)?);
    }
    sums.add_trunk(&names);
    Ok(sums.reached())
}

/// The reachable extents, with their reference counts and live bytes.
#[derive(Debug, Default)]
pub(crate) struct ExtentSums {
    extents: BTreeMap<Extent, (u32, u64)>,
}

impl ExtentSums {
    fn add(&mut self, extent: Extent, live: u64) {
        let (references, bytes) = self.extents.entry(extent).or_default();
        *references += 1;
        *bytes = (*bytes + live).min(extent.bytes());
    }

    pub(super) fn add_run(&mut self, run: &IndexedRun, needs: &[RunNeed]) {
        let mut needed = BTreeSet::new();
        for range in merged(needs) {
            needed.extend(run.extents_for(&range).map(|(index, _)| index));
        }
        for index in needed {
            let used = &run.extents()[index];
            self.add(used.extent, used.live);
        }
    }

    pub(super) fn add_maplet(&mut self, maplet: &Maplet) {
        maplet.extents().for_each(|(extent, live)| self.add(extent, live));
    }

    pub(super) fn add_trunk(&mut self, names: &ReachableStructures) {
        for (extent, live) in extents_of(names.trunk.values()) {
            self.add(extent, live);
        }
    }

    pub(crate) fn reached(self) -> Vec<ReachableExtent> {
        let reached = self
            .extents
            .into_iter()
            .map(|(extent, (references, live))| ReachableExtent {
                extent,
                references,
                live,
            });
        reached.collect()
    }
}

/// Moves the damaged trunk nodes to the errors of a check, and counts the trunk nodes that were
/// read.
pub(super) fn tell_damage(
    names: &mut ReachableStructures,
    found: &mut Vec<String>,
    read: &mut CheckReadTotals,
) {
    found.extend(
        names
            .damaged
            .drain(..)
            .map(|damaged| format!("trunk: {}", damaged.error)),
    );
    names.trunk.values().for_each(|node| read.trunk.add(node));
}
