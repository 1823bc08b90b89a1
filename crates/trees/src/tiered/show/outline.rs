//! The shape of a tree as plain data: for drawing and measuring the tree, and for finding a run in
//! it.

use crate::run::{ExtentUse, RunSummary};
use crate::tiered::trunk::{
    CompactionState, JobTable, MapletGroup, StackEntry, TreeVersion, Trunk, TrunkNode,
};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::range::KeyRange;
use std::sync::Arc;

/// The shape of one version of a tree. It is a copy and pins nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    pub version: u64,
    /// The sequence number up to which the version contains every commit.
    pub cut: SequenceNumber,
    /// The root of the trunk, with all nodes below it.
    pub root: OutlineNode,
}

/// A node of the trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineNode {
    /// Number of levels below the node; 0 for a leaf.
    pub height: u8,
    /// The key range of the node.
    pub range: KeyRange,
    /// The node's bundles, oldest to newest.
    pub bundles: Vec<OutlineBundle>,
    /// The node's pivots in key order. A leaf has one pivot.
    pub pivots: Vec<OutlinePivot>,
}

/// The data that a node received in one flush. At least one of the node's pivots has neither
/// flushed nor compacted it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineBundle {
    /// The bundle's sequential number within the node.
    pub number: u64,
    pub runs: usize,
    /// Total weight in bytes of the bundle, counting only the ranges of pivots for which it is
    /// live.
    pub bytes: u64,
}

/// The key range of a child within its parent, or the key range of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlinePivot {
    /// The key range of the pivot.
    pub range: KeyRange,
    /// The parts that were compacted or adopted for this pivot, oldest to newest.
    pub own: Vec<OutlineLayer>,
    /// The parts that the node has received for this pivot but not compacted yet, oldest to newest.
    pub pending: Vec<OutlineLayer>,
    /// The progress of the pivot's compaction, if it has one.
    pub compaction: Option<CompactionState>,
    /// The child, or `None` in the pivot of a leaf.
    pub child: Option<Box<OutlineNode>>,
}

/// Runs with a common maplet, as far as a pivot's range makes them visible.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineLayer {
    /// The number of the group, which is unique in the store.
    pub group: u64,
    /// The number of the bundle that contains the runs; `None` for the pivot's own parts.
    pub bundle: Option<u64>,
    /// Indices in the group of the runs that overlap the pivot's range, oldest to newest.
    pub runs: Vec<usize>,
    /// Whether the runs are restricted to a key range, which may be smaller than the pivot's.
    pub is_clipped: bool,
    /// Estimated weight in bytes within the pivot's range.
    pub bytes: u64,
    /// Estimated number of records in the pivot's range.
    pub records: u64,
    /// Estimated number of deletes among these records.
    pub tombstones: u64,
}

/// A run and its extents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineRun {
    pub summary: RunSummary,
    /// Number of index levels above the run's leaves.
    pub height: u8,
    /// The smallest key of the run.
    pub low: Box<[u8]>,
    /// The largest key of the run.
    pub high: Box<[u8]>,
    /// The location of the run's footer.
    pub footer: String,
    /// The extents that the run uses: first its own, then those of earlier runs that contain its
    /// values.
    pub extents: Vec<ExtentUse>,
}

impl Outline {
    /// Returns the outline of the current version of a trunk.
    pub(crate) fn of(trunk: &Trunk) -> Outline {
        // Holding the lock keeps the listed compactions consistent with the version.
        let state = trunk.lock();
        let version = trunk.version();
        Outline {
            version: version.stamp.number,
            cut: version.stamp.cut,
            root: node(&version.root, &state.inflight),
        }
    }
}

impl OutlineRun {
    /// Returns the run at the given place of a group in a version, or `None` if the version does
    /// not contain it.
    pub(crate) fn of(version: &TreeVersion, group: u64, place: usize) -> Option<OutlineRun> {
        let group = find(&version.root, group)?;
        let run = group.runs.get(place)?.get()?;
        Some(OutlineRun {
            summary: *run.summary(),
            height: run.height(),
            low: run.low().into(),
            high: run.high().into(),
            footer: run.pointer().place().to_string(),
            extents: run.extents().to_vec(),
        })
    }
}

fn find(node: &TrunkNode, id: u64) -> Option<Arc<MapletGroup>> {
    let own = node.uses().find(|(part, _)| part.group.id == id);
    match own {
        Some((part, _)) => Some(Arc::clone(&part.group)),
        None => node.children().find_map(|child| find(child, id)),
    }
}

fn node(from: &TrunkNode, inflight: &JobTable) -> OutlineNode {
    let pivots: Vec<OutlinePivot> = (0..from.pivots.len())
        .map(|index| pivot(from, index, inflight))
        .collect();
    let bundles = from.bundles.iter().map(|bundle| {
        let of_it = pivots.iter().flat_map(|pivot| &pivot.pending);
        OutlineBundle {
            number: bundle.number,
            runs: bundle.parts.iter().map(|part| part.group.runs().count()).sum(),
            bytes: of_it
                .filter(|layer| layer.bundle == Some(bundle.number))
                .map(|layer| layer.bytes)
                .sum(),
        }
    });
    OutlineNode {
        height: from.height,
        range: from.range.clone(),
        bundles: bundles.collect(),
        pivots,
    }
}

fn pivot(from: &TrunkNode, index: usize, inflight: &JobTable) -> OutlinePivot {
    let pivot = &from.pivots[index];
    let range = from.pivot_range(index);
    let own = pivot.own.iter().map(|owned| {
        let layer = StackEntry {
            part: &owned.part,
            weight: owned.weight,
        };
        describe(layer, None, &range)
    });
    let bundles = from.live_bundles(index).iter();
    let numbers = bundles.flat_map(|bundle| bundle.parts.iter().map(|_| bundle.number));
    let pending = from.pending(index).zip(numbers);
    OutlinePivot {
        own: own.collect(),
        pending: pending
            .map(|(layer, number)| describe(layer, Some(number), &range))
            .collect(),
        compaction: inflight.underway(from.height, &pivot.low),
        child: pivot
            .child
            .as_deref()
            .map(|child| Box::new(node(child, inflight))),
        range,
    }
}

fn describe(layer: StackEntry<'_>, bundle: Option<u64>, range: &KeyRange) -> OutlineLayer {
    let within = layer.part.within(range);
    let runs = layer.part.group.runs();
    let touching = runs.filter(|(_, run)| within.overlaps(run.low(), run.high()));
    OutlineLayer {
        group: layer.part.group.id,
        bundle,
        runs: touching.map(|(place, _)| place).collect(),
        is_clipped: layer.part.clip.is_some(),
        bytes: layer.weight.bytes,
        records: layer.weight.records,
        tombstones: layer.weight.tombstones,
    }
}
