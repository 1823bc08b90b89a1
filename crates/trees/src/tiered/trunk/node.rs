//! Trunk nodes. They are immutable, and several versions may share them. A change copies a node and
//! every node on the path to it from the root.
//!
//! ```text
//!             bundles   1   2   3   4   5      shared by all pivots, oldest to newest
//!   pivot a   own ─┐    ░   ░   ░   █   █      ░ flushed or compacted for this pivot   █ live
//!   pivot m   own ─┤    ░   █   █   █   █      stack of a pivot: its own parts, then live bundles' parts
//!   pivot t   own ─┘    ░   ░   ░   ░   █
//! ```

use super::checkpoint_location::CheckpointLocation;
use crate::maplet::Maplet;
use crate::run::{IndexedRun, RangeWeight};
use alluvium_base::Purpose;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::Extent;
use alluvium_storage::{EpochGuard, NodeCache, Result, TierFiles};
use std::sync::{Arc, OnceLock};

/// Runs that share one maplet. The maplet maps a key's fingerprint to indices into `runs`, which
/// identify the runs that may contain the key.
#[derive(Debug)]
pub(crate) struct MapletGroup {
    /// The group's number, which is unique in the store.
    pub id: u64,
    /// The runs, oldest to newest. The entries of runs that the trunk does not need stay empty when
    /// it is read from disk, because those runs may have been deleted.
    pub runs: Box<[OnceLock<IndexedRun>]>,
    /// The maplet, which contains all keys of all runs.
    pub maplet: Maplet,
}

impl MapletGroup {
    /// Creates a group of the given runs, ordered from oldest to newest.
    #[must_use]
    pub(crate) fn new(
        id: u64,
        runs: impl IntoIterator<Item = Option<IndexedRun>>,
        maplet: Maplet,
    ) -> MapletGroup {
        let slot = |run: Option<IndexedRun>| run.map_or_else(OnceLock::new, OnceLock::from);
        MapletGroup {
            id,
            runs: runs.into_iter().map(slot).collect(),
            maplet,
        }
    }

    /// Returns the runs that are present, each with its index in the group, oldest to newest.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = (usize, &IndexedRun)> {
        let runs = self.runs.iter().enumerate();
        runs.filter_map(|(place, run)| Some((place, run.get()?)))
    }
}

/// A pivot's reference to a group. It makes only records in the pivot's range visible, and if
/// `clip` is set, only those that are also in `clip`.
#[derive(Clone, Debug)]
pub(crate) struct TrunkPart {
    /// The group, which is shared by all parts that refer to it.
    pub group: Arc<MapletGroup>,
    /// The range that visible records are restricted to, if any. After two nodes are merged, the
    /// parts of each are restricted to that node's former range, because their records outside of
    /// it were compacted or deleted earlier and must not reappear. An adopted run is restricted to
    /// its own key range.
    pub clip: Option<Arc<KeyRange>>,
}

impl TrunkPart {
    /// Returns the subrange of `range` in which the part's records are visible.
    #[must_use]
    pub(crate) fn within(&self, range: &KeyRange) -> KeyRange {
        match &self.clip {
            Some(clip) => range.intersect(clip),
            None => range.clone(),
        }
    }

    /// Returns whether the part's records for `key` are visible. `key` must be in the pivot's
    /// range.
    #[must_use]
    pub(crate) fn counts_for(&self, key: &[u8]) -> bool {
        self.clip.as_ref().is_none_or(|clip| clip.contains(key))
    }

    /// Returns the number of runs whose visible key range overlaps `range`.
    #[must_use]
    pub(crate) fn runs_in(&self, range: &KeyRange) -> usize {
        let range = self.within(range);
        let touches = |(_, run): &(usize, &IndexedRun)| range.overlaps(run.low(), run.high());
        self.group.runs().filter(touches).count()
    }

    /// Returns whether the visible key range of any run overlaps `range`.
    #[must_use]
    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        self.runs_in(range) > 0
    }

    /// Returns whether any of the runs uses any of these extents, which must be sorted.
    pub(crate) fn lists(&self, extents: &[Extent]) -> bool {
        let mut uses = self.group.runs().flat_map(|(_, run)| run.extents());
        uses.any(|used| extents.binary_search(&used.extent).is_ok())
    }

    /// Returns whether any of the runs refers to values that another run wrote to one of these
    /// extents, which must be sorted.
    pub(crate) fn inherits(&self, extents: &[Extent]) -> bool {
        let mut uses = self.group.runs().flat_map(|(_, run)| run.extents());
        uses.any(|used| used.inherited && extents.binary_search(&used.extent).is_ok())
    }

    /// Returns whether the part has no clip and a range of weight `weight` has at least three
    /// quarters of the records in its runs. If so, the part's maplet is good enough for that range,
    /// although a maplet cannot be restricted to a range.
    #[must_use]
    pub(crate) fn is_mostly(&self, weight: &RangeWeight) -> bool {
        let records = self.group.runs().map(|(_, run)| run.summary().records);
        self.clip.is_none() && weight.records * 4 >= records.sum::<u64>() * 3
    }

    /// Returns whether a range of weight `weight` has at least half as many of the part's records
    /// as the part's maplet has entries. If so, merging the whole maplet for that range at most
    /// doubles the size of the result.
    #[must_use]
    pub(crate) fn is_half(&self, weight: &RangeWeight) -> bool {
        weight.records.saturating_mul(2) >= self.group.maplet.entries()
    }

    /// Returns whether any run or the maplet is on a storage tier that is currently unreadable.
    pub(crate) fn is_lost(&self, tiers: &TierFiles) -> bool {
        let runs = self.group.runs().flat_map(|(_, run)| run.extents());
        let mut of_runs = runs.map(|used| used.extent.tier);
        let mut of_maplet = self.group.maplet.extents().map(|(extent, _)| extent.tier);
        of_runs.any(|tier| tiers.is_unreadable(tier)) || of_maplet.any(|tier| tiers.is_unreadable(tier))
    }

    /// Returns the weight of the part's visible records in `range`.
    pub(crate) fn weigh(
        &self,
        range: &KeyRange,
        cache: &NodeCache,
        guard: &EpochGuard,
        purpose: Purpose,
    ) -> Result<RangeWeight> {
        let within = self.within(range);
        let mut sum = RangeWeight::default();
        for (_, run) in self.group.runs() {
            if within.overlaps(run.low(), run.high()) {
                sum = sum + run.weigh(&within, cache, guard, purpose)?;
            }
        }
        Ok(sum)
    }

    /// Returns a copy of the part that is further restricted to `range`.
    #[must_use]
    pub(super) fn clipped(&self, range: &KeyRange) -> TrunkPart {
        TrunkPart {
            group: Arc::clone(&self.group),
            clip: Some(Arc::new(self.within(range))),
        }
    }
}

/// The data that a node received in one flush, as parts from oldest to newest.
#[derive(Debug)]
pub(crate) struct TrunkBundle {
    /// The bundle's sequential number within the node.
    pub number: u64,
    /// The parts, oldest to newest.
    pub parts: Vec<TrunkPart>,
}

/// A part and its weight in a pivot's range.
#[derive(Clone, Debug)]
pub(crate) struct OwnedPart {
    pub part: TrunkPart,
    /// Estimated weight of the data that the part adds to the pivot.
    pub weight: RangeWeight,
    /// Approximate number of the part's records that supersede records in earlier parts, or 0 if
    /// unknown. This is not stored on disk.
    pub renews: u64,
}

/// The key range of a child within its parent node, and the data in this range that the parent has
/// not flushed yet.
#[derive(Clone, Debug)]
pub(crate) struct TrunkPivot {
    /// The smallest key of the pivot's range.
    pub low: Box<[u8]>,
    /// The child node, or `None` in the only pivot of a leaf.
    pub child: Option<Arc<TrunkNode>>,
    /// The parts that were compacted or adopted for this pivot, oldest to newest.
    pub own: Vec<OwnedPart>,
    /// The number of the first bundle that is live for this pivot.
    pub first: u64,
    /// For each live bundle, the weights of its parts in this pivot's range.
    pub live: Vec<Vec<RangeWeight>>,
}

/// A node of the trunk.
#[derive(Debug)]
pub(crate) struct TrunkNode {
    /// Number of levels below the node; 0 for a leaf.
    pub height: u8,
    /// The key range of the node.
    pub range: KeyRange,
    /// The pivots in key order. The first one starts at the start of `range`.
    pub pivots: Vec<TrunkPivot>,
    /// The bundles that are live for at least one pivot, oldest to newest, numbered without gaps.
    pub bundles: Vec<Arc<TrunkBundle>>,
    /// The number of the next bundle that the node receives.
    pub next: u64,
    /// Where a checkpoint has written the node.
    pub stored: CheckpointLocation,
    /// The depth of each pivot, computed on first use. The node must not change afterwards.
    pub depths: OnceLock<Box<[usize]>>,
}

/// One part in a pivot's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackEntry<'a> {
    pub part: &'a TrunkPart,
    /// The weight of the part in the pivot's range.
    pub weight: RangeWeight,
}

impl TrunkNode {
    /// Creates a leaf for a key range, with one pivot whose stack is empty.
    #[must_use]
    pub(crate) fn leaf(range: KeyRange) -> TrunkNode {
        let pivot = TrunkPivot::empty(range.low.clone(), None, 1);
        TrunkNode {
            height: 0,
            range,
            pivots: vec![pivot],
            bundles: Vec::new(),
            next: 1,
            stored: CheckpointLocation::default(),
            depths: OnceLock::new(),
        }
    }

    /// Returns a copy of the node that may be modified and is marked as not yet on disk.
    #[must_use]
    pub(crate) fn draft(&self) -> TrunkNode {
        debug_assert!(!self.pivots.is_empty(), "a node has a pivot");
        TrunkNode {
            height: self.height,
            range: self.range.clone(),
            pivots: self.pivots.clone(),
            bundles: self.bundles.clone(),
            next: self.next,
            stored: CheckpointLocation::default(),
            depths: OnceLock::new(),
        }
    }

    /// Returns whether any run in this node or its descendants overlaps `range`.
    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        let first = self.pivot_for(&range.low);
        let pivots = self.pivots.iter().enumerate().skip(first);
        let mut met = pivots.take_while(|(_, pivot)| !range.ends_before(&pivot.low));
        met.any(|(index, pivot)| {
            let child = pivot.child.as_ref();
            self.stack(index).any(|layer| layer.part.touches(range))
                || child.is_some_and(|child| child.touches(range))
        })
    }

    /// Returns whether the node is a leaf.
    #[must_use]
    pub(crate) fn is_leaf(&self) -> bool {
        self.height == 0
    }

    /// Returns the key range of a pivot.
    #[must_use]
    pub(crate) fn pivot_range(&self, index: usize) -> KeyRange {
        let high = match self.pivots.get(index + 1) {
            Some(next) => Some(next.low.clone()),
            None => self.range.high.clone(),
        };
        debug_assert!(
            high.as_deref().is_none_or(|high| *self.pivots[index].low < *high),
            "pivots ascend within the node"
        );
        KeyRange {
            low: self.pivots[index].low.clone(),
            high,
        }
    }

    /// Returns the index of the pivot whose range contains `key`, which must be in the node's
    /// range.
    #[must_use]
    pub(crate) fn pivot_for(&self, key: &[u8]) -> usize {
        self.pivots
            .partition_point(|pivot| *pivot.low <= *key)
            .saturating_sub(1)
    }

    /// Returns the bundles that are live for a pivot, oldest to newest.
    #[must_use]
    pub(crate) fn live_bundles(&self, pivot: usize) -> &[Arc<TrunkBundle>] {
        let count = self.pivots[pivot].live.len();
        assert!(
            count <= self.bundles.len(),
            "{count} live bundles of {}",
            self.bundles.len()
        );
        debug_assert_eq!(
            self.pivots[pivot].first + count as u64,
            self.next,
            "a pivot's live bundles are the newest (T1)"
        );
        &self.bundles[self.bundles.len() - count..]
    }

    /// Returns a pivot's stack, oldest to newest.
    pub(crate) fn stack(&self, pivot: usize) -> impl DoubleEndedIterator<Item = StackEntry<'_>> {
        self.own(pivot).chain(self.pending(pivot))
    }

    /// Returns the parts of a pivot's stack that were compacted or adopted for it, oldest to
    /// newest.
    pub(crate) fn own(&self, pivot: usize) -> impl DoubleEndedIterator<Item = StackEntry<'_>> {
        self.pivots[pivot].own.iter().map(|owned| StackEntry {
            part: &owned.part,
            weight: owned.weight,
        })
    }

    /// Returns the parts of the bundles that are live for a pivot, oldest to newest. They have not
    /// been compacted for the pivot yet.
    pub(crate) fn pending(&self, pivot: usize) -> impl DoubleEndedIterator<Item = StackEntry<'_>> {
        let bundles = self.live_bundles(pivot).iter().zip(&self.pivots[pivot].live);
        bundles.flat_map(|(bundle, weights)| {
            debug_assert_eq!(bundle.parts.len(), weights.len(), "a weight for each part");
            bundle
                .parts
                .iter()
                .zip(weights)
                .map(|(part, &weight)| StackEntry { part, weight })
        })
    }

    /// Returns the total weight of a pivot's stack.
    #[must_use]
    pub(crate) fn weight(&self, pivot: usize) -> RangeWeight {
        self.stack(pivot)
            .fold(RangeWeight::default(), |sum, layer| sum + layer.weight)
    }

    /// Returns the number of runs in a pivot's stack that overlap the pivot's range, whether or not
    /// they overlap each other.
    #[must_use]
    pub(crate) fn runs(&self, pivot: usize) -> usize {
        let range = self.pivot_range(pivot);
        self.stack(pivot).map(|layer| layer.part.runs_in(&range)).sum()
    }

    /// Returns each part in each pivot's stack, with the range in which the pivot makes its records
    /// visible. The range may be empty if the part's clip is outside of the pivot's range. Such a
    /// part is still in use: the node refers to its group, so the maplet must be kept.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (&TrunkPart, KeyRange)> {
        (0..self.pivots.len()).flat_map(move |pivot| {
            let range = self.pivot_range(pivot);
            self.stack(pivot)
                .map(move |layer| (layer.part, layer.part.within(&range)))
        })
    }

    /// Returns the number of leaves below the node, or 1 if the node is a leaf.
    #[must_use]
    pub(crate) fn leaves(&self) -> u64 {
        debug_assert!(
            self.children().all(|child| child.height + 1 == self.height),
            "heights fall by one"
        );
        if self.is_leaf() {
            return 1;
        }
        self.children().map(|child| child.leaves()).sum()
    }

    /// Returns the memory of the node in bytes, without its children. A bundle shared by several
    /// nodes is counted in each of them.
    #[must_use]
    pub(crate) fn memory_bytes(&self) -> u64 {
        let key = |key: &[u8]| 16 + key.len();
        let range = |range: &KeyRange| key(&range.low) + range.high.as_deref().map_or(0, key);
        let clip = |part: &TrunkPart| part.clip.as_deref().map_or(0, range);
        let part = |part: &TrunkPart| size_of::<TrunkPart>() + clip(part);
        let owned = |owned: &OwnedPart| size_of::<OwnedPart>() + clip(&owned.part);
        let live = |weights: &Vec<RangeWeight>| {
            size_of::<Vec<RangeWeight>>() + weights.len() * size_of::<RangeWeight>()
        };
        let pivot = |pivot: &TrunkPivot| {
            let own: usize = pivot.own.iter().map(owned).sum();
            let depth = size_of::<usize>();
            size_of::<TrunkPivot>()
                + depth
                + key(&pivot.low)
                + own
                + pivot.live.iter().map(live).sum::<usize>()
        };
        let bundle = |bundle: &Arc<TrunkBundle>| {
            size_of::<Arc<TrunkBundle>>()
                + size_of::<TrunkBundle>()
                + bundle.parts.iter().map(part).sum::<usize>()
        };
        let pivots: usize = self.pivots.iter().map(pivot).sum();
        let bundles: usize = self.bundles.iter().map(bundle).sum();
        (size_of::<TrunkNode>() + range(&self.range) + pivots + bundles) as u64
    }

    /// Returns the children in key order.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Arc<TrunkNode>> {
        self.pivots.iter().filter_map(|pivot| pivot.child.as_ref())
    }

    /// Returns whether the bundle numbers are consecutive and end just below `next`.
    pub(crate) fn is_numbered(&self) -> bool {
        let numbers = self.bundles.iter().rev().map(|bundle| bundle.number);
        numbers.zip(1..).all(|(number, back)| number + back == self.next)
    }

    /// Removes the bundles that are no longer live for any pivot.
    pub(crate) fn drop_dead_bundles(&mut self) {
        let most = self
            .pivots
            .iter()
            .map(|pivot| pivot.live.len())
            .max()
            .unwrap_or(0);
        assert!(
            most <= self.bundles.len(),
            "{most} live bundles of {}",
            self.bundles.len()
        );
        self.bundles.drain(..self.bundles.len() - most);
        debug_assert!(self.is_numbered(), "bundles are numbered without gaps");
    }
}

/// Returns whether the nodes' key ranges are adjacent and together cover exactly `range`.
pub(super) fn tile(nodes: &[TrunkNode], range: &KeyRange) -> bool {
    let meets = |pair: &[TrunkNode]| pair[0].range.high.as_ref() == Some(&pair[1].range.low);
    let begins = nodes.first().is_some_and(|first| first.range.low == range.low);
    let ends = nodes.last().is_some_and(|last| last.range.high == range.high);
    begins && ends && nodes.windows(2).all(meets)
}

impl TrunkPivot {
    /// Creates a pivot with an empty stack. `next` is the number of the node's next bundle.
    #[must_use]
    pub(crate) fn empty(low: Box<[u8]>, child: Option<Arc<TrunkNode>>, next: u64) -> TrunkPivot {
        debug_assert!(next > 0, "bundles are counted from 1");
        TrunkPivot {
            low,
            child,
            own: Vec::new(),
            first: next,
            live: Vec::new(),
        }
    }
}
