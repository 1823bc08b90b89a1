//! Repairs damaged leaves, index nodes and values. Such damage stops every compaction and scan that
//! reads the damaged node. The repair compacts the affected leaves of the trunk without the damaged
//! nodes, whose records are lost.

use super::reachable::{ReachableStructures, merged};
use crate::repair_result::RunRepairResult;
use crate::run::DamagedNode;
use crate::tiered::compact::Compactor;
use crate::tiered::trunk::{RunKey, Trunk, all_nodes, key_of};
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::Result;
use std::collections::BTreeMap;

/// Compacts every trunk leaf that refers to damaged leaves, index nodes or values, and omits the
/// damaged data. This reads the whole tree. The caller must prevent all other changes to the tree
/// until the call returns.
///
/// # Errors
/// I/O errors. Leaves repaired before the error stay repaired.
pub(crate) fn repair(trunk: &Trunk, compactor: &Compactor) -> Result<RunRepairResult> {
    let mut mended = RunRepairResult::default();
    let damaged = leave_out(trunk, &mut mended);
    let mut before = None;
    while let Some(key) = still_needed(trunk, &damaged) {
        if before.as_ref() == Some(&key) {
            // The damage is still there: the compaction never ran, because its data is on an
            // unreadable tier.
            let key = key.escape_ascii();
            mended.left = Some(format!("other data of the keys from \"{key}\" on cannot be read"));
            break;
        }
        let written = compactor.compact_fully(&key).and_then(|()| settle(compactor));
        if !mended.record_outcome(written)? {
            break;
        }
        before = Some(key);
    }
    Ok(mended)
}

/// Makes cursors skip damaged nodes. Returns the damaged nodes of each run.
fn leave_out(trunk: &Trunk, mended: &mut RunRepairResult) -> BTreeMap<RunKey, Vec<DamagedNode>> {
    let nodes = all_nodes(&trunk.version().root);
    let mut names = ReachableStructures::default();
    nodes.iter().for_each(|node| names.add_node(node));
    let mut damaged: BTreeMap<RunKey, Vec<DamagedNode>> = BTreeMap::new();
    let parts = nodes.iter().flat_map(|node| node.uses());
    for (_, run) in parts.flat_map(|(part, _)| part.group.runs()) {
        let key = key_of(run.pointer());
        let Some((_, needs)) = names.runs.get(&key) else {
            continue;
        };
        // A run may belong to several groups, but is checked only once.
        let of_run = damaged.entry(key).or_insert_with(|| {
            let within = merged(needs);
            let nodes = run.damaged_within(DataFiles::of(&trunk.store), &within);
            mended.note(&nodes, &within, &*trunk.options.schema);
            nodes
        });
        if !of_run.is_empty() {
            run.leave_out(of_run.iter().map(|node| node.pointer).collect());
        }
    }
    damaged.retain(|_, nodes| !nodes.is_empty());
    damaged
}

/// Returns a key whose readers still reach a damaged node, or `None` if there is no such key.
fn still_needed(trunk: &Trunk, damaged: &BTreeMap<RunKey, Vec<DamagedNode>>) -> Option<Box<[u8]>> {
    for node in all_nodes(&trunk.version().root) {
        for (part, range) in node.uses() {
            for (_, run) in part.group.runs() {
                let of_run = damaged.get(&key_of(run.pointer())).into_iter().flatten();
                let mut needed = of_run.filter(|node| {
                    range.overlaps(run.low(), run.high()) && range.overlaps(&node.range.low, &node.high)
                });
                if let Some(node) = needed.next() {
                    return Some(range.low.clone().max(node.range.low.clone()));
                }
            }
        }
    }
    None
}

/// Runs all due background steps to completion.
fn settle(compactor: &Compactor) -> Result<()> {
    while let Some(mut step) = compactor.next_step()? {
        while step.poll(usize::MAX)? != StepProgress::Done {}
    }
    Ok(())
}
