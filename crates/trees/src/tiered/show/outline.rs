//! The tree's shape as plain data: to draw it, measure it, or look for a run in it.

use crate::run::{Summary, Use};
use crate::tiered::trunk::{Group, Inflight, Layer, Node, Trunk, Underway, Version};
use alluvium_base::Sequence;
use alluvium_dictionary::range::KeyRange;
use std::sync::Arc;

/// The shape of one version of a tree. It holds copies, so it may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    /// The version's number.
    pub version: u64,
    /// It holds every commit up to this one.
    pub cut: Sequence,
    /// The root, and everything below it.
    pub root: OutlineNode,
}

/// A node of the trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineNode {
    /// Leaves are at 0.
    pub height: u8,
    /// The keys that it is responsible for.
    pub range: KeyRange,
    /// Its bundles, oldest to newest.
    pub bundles: Vec<OutlineBundle>,
    /// Its pivots, in the order of their keys. A leaf has one.
    pub pivots: Vec<OutlinePivot>,
}

/// What a node has received at once, and some of its pivots have not passed on yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineBundle {
    /// Its number in the node.
    pub number: u64,
    /// The runs in it.
    pub runs: usize,
    /// What it weighs for the pivots that it is live for, in bytes.
    pub bytes: u64,
}

/// A child's range in its parent, or a leaf's own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlinePivot {
    /// The keys of it.
    pub range: KeyRange,
    /// What was compacted for it, oldest to newest.
    pub own: Vec<OutlineLayer>,
    /// What its node has received for it and not compacted, oldest to newest.
    pub pending: Vec<OutlineLayer>,
    /// A compaction of what is pending.
    pub compaction: Option<Underway>,
    /// The child; a leaf's pivot has none.
    pub child: Option<Box<OutlineNode>>,
}

/// Runs with a common maplet, as a pivot uses them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineLayer {
    /// The number of the group, unique in the store.
    pub group: u64,
    /// The bundle that it is of, unless it is the pivot's own.
    pub bundle: Option<u64>,
    /// The places of its runs in the group, oldest to newest.
    pub runs: Vec<usize>,
    /// Whether only a part of the pivot's range counts.
    pub is_clipped: bool,
    /// What it weighs in the pivot's range, in bytes: an estimate.
    pub bytes: u64,
    /// Records of that.
    pub records: u64,
    /// Deletes among them.
    pub tombstones: u64,
}

/// A run, and the extents that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineRun {
    /// What it comes to.
    pub summary: Summary,
    /// Levels of index nodes above its leaves.
    pub height: u8,
    /// The smallest key that it touches.
    pub low: Box<[u8]>,
    /// The largest key that it touches.
    pub high: Box<[u8]>,
    /// Where its footer is.
    pub footer: String,
    /// What it needs of the data files: its own extents, then those of runs before it that hold
    /// values.
    pub extents: Vec<Use>,
}

impl Outline {
    /// Returns the current shape of a trunk.
    pub(crate) fn of(trunk: &Trunk) -> Outline {
        // Under the lock, what is under way belongs to the version.
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
    /// Returns a run of a version, by the number of its group and its place in that.
    pub(crate) fn of(version: &Version, group: u64, place: usize) -> Option<OutlineRun> {
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

fn find(node: &Node, id: u64) -> Option<Arc<Group>> {
    let own = node.uses().find(|(part, _)| part.group.id == id);
    match own {
        Some((part, _)) => Some(Arc::clone(&part.group)),
        None => node.children().find_map(|child| find(child, id)),
    }
}

fn node(from: &Node, inflight: &Inflight) -> OutlineNode {
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

fn pivot(from: &Node, index: usize, inflight: &Inflight) -> OutlinePivot {
    let pivot = &from.pivots[index];
    let range = from.pivot_range(index);
    let own = pivot.own.iter().map(|owned| {
        let layer = Layer {
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

fn describe(layer: Layer<'_>, bundle: Option<u64>, range: &KeyRange) -> OutlineLayer {
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
