//! The storage tiers that hold the runs of a tree.

use crate::run_locations::{RunName, RunPlace};
use crate::tiered::trunk::{MapletGroup, TreeVersion, TrunkNode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the name and tier of each run in a version.
pub(in crate::tiered) fn places(version: &TreeVersion) -> Vec<RunPlace> {
    let mut groups = BTreeMap::new();
    collect(&version.root, &mut groups);
    let mut places = Vec::new();
    for group in groups.values() {
        for (index, (place, run)) in group.runs().enumerate() {
            let name = RunName::Tree {
                group: group.id,
                place,
            };
            let filter = (index == 0).then_some(&group.maplet);
            places.push(RunPlace::of(name, run, filter));
        }
    }
    places
}

fn collect(node: &TrunkNode, groups: &mut BTreeMap<u64, Arc<MapletGroup>>) {
    for (part, _) in node.uses() {
        groups
            .entry(part.group.id)
            .or_insert_with(|| Arc::clone(&part.group));
    }
    node.children().for_each(|child| collect(child, groups));
}
