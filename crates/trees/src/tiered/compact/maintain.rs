//! Maintenance that writes do not trigger: full compactions of the leaves that benefit most.

use super::compactor::Compactor;
use super::scattered::is_scattered;
use crate::run::IndexedRun;
use crate::tiered::policy::{self, CompactionCandidate};
use crate::tiered::trunk::{
    CompactionState, LeafUses, NodeRank, TrunkNode, TrunkPart, leaf_for, replace, stale_percent,
};
use alluvium_base::{DeviceProfile, SequenceNumber};
use alluvium_dictionary::merge::OlderData;
use alluvium_storage::Result;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceLimits {
    /// Number of bytes that full compactions may still write.
    pub budget_bytes: u64,
    /// Whether all data fits into the cache. If it does, rewritten data need not be read again,
    /// because the cache keeps newly written nodes.
    pub fits_cache: bool,
    /// Whether there have been no writes for a while. Only then are leaves rewritten merely to
    /// bring values together, because further writes would scatter them again.
    pub is_idle: bool,
}

impl Compactor {
    /// Requests a full compaction of the leaf that benefits most. Returns `false` if no leaf is
    /// worth compacting or the budget is exhausted. The compaction itself runs as a later step.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn maintain(&self, maintenance: &mut MaintenanceLimits) -> Result<bool> {
        let Some((low, bytes)) = self.select_candidate(maintenance) else {
            return Ok(false);
        };
        debug_assert!(bytes <= maintenance.budget_bytes, "what fits is chosen");
        maintenance.budget_bytes -= bytes.min(maintenance.budget_bytes);
        self.compact_fully(&low)?;
        Ok(true)
    }

    /// Requests a full compaction of the leaf that contains `key`: flushes all data from the nodes
    /// above down to the leaf, and plans a compaction of the leaf into one run. The compaction
    /// itself runs as a later step.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn compact_fully(&self, key: &[u8]) -> Result<()> {
        self.trunk
            .usage
            .forget(&leaf_for(&self.trunk.version().root, key).range);
        self.trunk.change(None, |state, shaper, root| {
            let nodes = shaper.flush_path(root.draft(), key, NodeRank::Root)?;
            let root = shaper.add_root_levels(nodes);
            state.full.insert(leaf_for(&root, key).range.low.clone());
            // Replace the leaf with a copy even if nothing was flushed to it, because compactions
            // are planned only for new nodes.
            let leaf = leaf_for(&root, key).draft();
            Ok(Some(replace(&root, 0, key, leaf)))
        })?;
        Ok(())
    }

    /// Returns the low key of the leaf that benefits most within the budget, and the maximum number
    /// of bytes that its full compaction writes. Returns `None` if no leaf is worth compacting.
    fn select_candidate(&self, maintenance: &MaintenanceLimits) -> Option<(Box<[u8]>, u64)> {
        let version = self.trunk.version();
        let uses = self.trunk.usage.leaves();
        let writer = self.trunk.lock();
        let horizon = self.trunk.horizon.rule(OlderData::None).horizon;
        let is_scarce = self.trunk.is_scarce();
        let copied = writer.uses.sparsest(self.trunk.copied_bytes());
        let mut best: Option<(u64, Box<[u8]>, u64)> = None;
        walk(&version.root, &AncestorData::default(), &mut |leaf, above| {
            match writer.inflight.underway(0, &leaf.range.low) {
                None => {}
                // The queued compaction may not find enough space, whereas compacting the whole
                // leaf and all data above it would free some.
                Some(CompactionState::Queued)
                    if is_scarce && (above.runs > 0 || !writer.full.contains(&leaf.range.low)) => {}
                Some(_) => return,
            }
            let wish = CompactionCandidate {
                is_scarce,
                copies: leaf.pivots[0]
                    .own
                    .iter()
                    .any(|owned| owned.part.inherits(&copied)),
                fits_cache: maintenance.fits_cache,
                device: *self.trunk.store.device(),
                ..compaction_candidate(leaf, above, &uses, horizon)
            };
            let largest_run = above.largest_run.max(largest_run(leaf, 0));
            let wish = CompactionCandidate {
                is_scattered: maintenance.is_idle
                    && is_scattered(wish.runs, wish.bytes, largest_run)
                    && self.trunk.options.schema.gathers_values_in(&leaf.range),
                ..wish
            };
            let worth = policy::full_compaction(&wish);
            if worth > 0
                && wish.bytes <= maintenance.budget_bytes
                && best.as_ref().is_none_or(|(most, ..)| worth > *most)
            {
                best = Some((worth, leaf.range.low.clone(), wish.bytes));
            }
        });
        best.map(|(_, low, bytes)| (low, bytes))
    }
}

/// A leaf's estimated share of the data in the nodes above it.
#[derive(Clone, Copy, Debug, Default)]
struct AncestorData {
    bytes: u64,
    runs: usize,
    depth: usize,
    records: u64,
    tombstones: u64,
    range_deletes: u64,
    /// Sequence number of the newest message in this data.
    newest: SequenceNumber,
    /// Number of bytes of the largest run, of which the leaf may have a part.
    largest_run: u64,
}

fn walk(node: &TrunkNode, above: &AncestorData, visit: &mut dyn FnMut(&TrunkNode, &AncestorData)) {
    if node.is_leaf() {
        return visit(node, above);
    }
    for (index, pivot) in node.pivots.iter().enumerate() {
        let child = pivot.child.as_deref().expect("an index node has children");
        debug_assert_eq!(child.height + 1, node.height, "heights fall by one");
        let share = child.leaves();
        let weight = node.weight(index);
        let further = AncestorData {
            bytes: above.bytes + weight.bytes / share,
            runs: above.runs + node.runs(index),
            depth: above.depth + node.depth(index),
            records: above.records + weight.records.div_ceil(share),
            tombstones: above.tombstones + weight.tombstones.div_ceil(share),
            range_deletes: above.range_deletes + range_deletes(node, index),
            newest: above.newest.max(newest(node, index)),
            largest_run: above.largest_run.max(largest_run(node, index) / share),
        };
        walk(child, &further, visit);
    }
}

/// Returns the number of range deletes in a pivot's stack that overlap the pivot's range.
fn range_deletes(node: &TrunkNode, index: usize) -> u64 {
    let range = node.pivot_range(index);
    let of = |part: &TrunkPart| -> u64 {
        let within = part.within(&range);
        let count = |(_, run): (usize, &IndexedRun)| run.range_deletes().touching(&within) as u64;
        part.group.runs().map(count).sum()
    };
    node.stack(index).map(|layer| of(layer.part)).sum()
}

/// Returns the sequence number of the newest message in a pivot's stack, or an upper bound of it.
fn newest(node: &TrunkNode, index: usize) -> SequenceNumber {
    let runs = node.stack(index).flat_map(|layer| layer.part.group.runs());
    runs.map(|(_, run)| run.newest()).max().unwrap_or(0)
}

/// Returns an estimate of the bytes of the largest run in a pivot's stack.
fn largest_run(node: &TrunkNode, index: usize) -> u64 {
    let runs = |part: &TrunkPart| part.group.runs().count().max(1) as u64;
    let layers = node
        .stack(index)
        .map(|layer| layer.weight.bytes / runs(layer.part));
    layers.max().unwrap_or(0)
}

fn compaction_candidate(
    leaf: &TrunkNode,
    above: &AncestorData,
    uses: &LeafUses,
    horizon: SequenceNumber,
) -> CompactionCandidate {
    debug_assert!(leaf.is_leaf() && leaf.pivots.len() == 1, "a leaf has a pivot");
    let weight = leaf.weight(0);
    let used = uses.of(leaf);
    CompactionCandidate {
        bytes: above.bytes + weight.bytes,
        runs: above.runs + leaf.runs(0),
        depth: above.depth + leaf.depth(0),
        records: above.records + weight.records,
        tombstones: above.tombstones + weight.tombstones,
        range_deletes: above.range_deletes + range_deletes(leaf, 0),
        is_settled: above.newest.max(newest(leaf, 0)) <= horizon,
        stale_percent: stale_percent(&leaf.pivots[0].own),
        scans: used.scans,
        gets: used.gets,
        skipped_tombstones: uses.waded_in(&leaf.range),
        is_scarce: false,
        copies: false,
        is_scattered: false,
        fits_cache: false,
        device: DeviceProfile::default(),
    }
}
