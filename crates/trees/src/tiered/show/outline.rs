//! The tree's shape as plain data, for drawing, measuring, and finding a run.

use crate::run::{ExtentUse, RunSummary};
use crate::tiered::trunk::{
    CompactionState, JobTable, MapletGroup, StackEntry, TreeVersion, Trunk, TrunkNode,
};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::range::KeyRange;
use std::sync::Arc;

/// The shape of one version of a tree. It contains copies and pins nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    pub version: u64,
    /// The version contains every commit up to this one.
    pub cut: SequenceNumber,
    /// The root and everything below it.
    pub root: OutlineNode,
}

/// A node of the trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineNode {
    /// Number of levels below the node; zero for a leaf.
    pub height: u8,
    /// The key range of the node.
    pub range: KeyRange,
    /// Its bundles, oldest to newest.
    pub bundles: Vec<OutlineBundle>,
    /// Pivots in key order. A leaf has one.
    pub pivots: Vec<OutlinePivot>,
}

/// The data that a node received in one flush and that some of its pivots have not passed on yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineBundle {
    /// Sequential number within the node.
    pub number: u64,
    pub runs: usize,
    /// Weight in bytes for the pivots for which the bundle is live.
    pub bytes: u64,
}

/// A child's range in its parent, or a leaf's own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlinePivot {
    /// The key range of the pivot.
    pub range: KeyRange,
    /// Parts compacted for this pivot, oldest to newest.
    pub own: Vec<OutlineLayer>,
    /// Parts that the node received for this pivot and has not compacted, oldest to newest.
    pub pending: Vec<OutlineLayer>,
    /// Progress of the pivot's compaction, if it has one.
    pub compaction: Option<CompactionState>,
    /// The child; a leaf's pivot has none.
    pub child: Option<Box<OutlineNode>>,
}

/// Runs with a common maplet, as seen by a pivot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineLayer {
    /// The number of the group, unique in the store.
    pub group: u64,
    /// Number of the containing bundle; `None` for the pivot's own parts.
    pub bundle: Option<u64>,
    /// The places of its runs in the group, oldest to newest.
    pub runs: Vec<usize>,
    /// Whether the runs count only in part of the pivot's range.
    pub is_clipped: bool,
    /// Estimated weight in the pivot's range, in bytes.
    pub bytes: u64,
    /// Estimated number of records in the pivot's range.
    pub records: u64,
    /// Estimated number of deletes among them.
    pub tombstones: u64,
}

/// A run and its extents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineRun {
    pub summary: RunSummary,
    /// Number of index levels above the leaves.
    pub height: u8,
    /// The smallest key of the run.
    pub low: Box<[u8]>,
    /// The largest key of the run.
    pub high: Box<[u8]>,
    /// Location of the footer.
    pub footer: String,
    /// Extents that the run uses: its own, then those of earlier runs that hold its values.
    pub extents: Vec<ExtentUse>,
}

impl Outline {
    /// Returns the current shape of a trunk.
    pub(crate) fn of(trunk: &Trunk) -> Outline {
        // Under the lock, the compactions in progress match the version.
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
    /// Returns a run of a version, by its group's number and its place in the group.
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
