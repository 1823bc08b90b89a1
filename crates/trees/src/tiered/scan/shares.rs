//! The runs that are visible in one trunk leaf's range.

use crate::segment_scan::RunShare;
use crate::tiered::trunk::{TreeVersion, TrunkNode};
use alluvium_dictionary::range::KeyRange;

/// Returns the runs on the path from the root to `leaf` that overlap `range`, newest first. `range`
/// must be within the leaf's range. Each run comes with the key range in which it is visible and
/// its estimated number of records for the leaf.
pub(super) fn shares(version: &TreeVersion, leaf: &TrunkNode, range: &KeyRange) -> Vec<RunShare> {
    let mut shares = Vec::new();
    let mut node: &TrunkNode = &version.root;
    loop {
        let pivot = node.pivot_for(&leaf.range.low);
        let shared_by = node.pivots[pivot].child.as_deref().map_or(1, TrunkNode::leaves);
        for layer in node.stack(pivot).rev() {
            let records = layer.weight.records as f64 / shared_by as f64 / layer.part.group.runs.len() as f64;
            let within = layer.part.within(range);
            for (_, run) in layer.part.group.runs().rev() {
                if within.overlaps(run.low(), run.high()) {
                    shares.push((run.clone(), within.clone(), records));
                }
            }
        }
        match node.pivots[pivot].child.as_deref() {
            Some(child) => node = child,
            None => return shares,
        }
    }
}
