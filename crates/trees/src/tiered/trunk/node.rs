//! Trunk nodes: immutable and shared. A change creates a new node and a new path to it from the
//! root.
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

/// Several runs and one maplet over all of them. The maplet's values are indices into `runs` and
/// identify the runs that may hold a key.
#[derive(Debug)]
pub(crate) struct MapletGroup {
    /// The group's number, unique in the store.
    pub id: u64,
    /// Oldest to newest. In a trunk that was read from disk, slots of unneeded runs are empty,
    /// because those runs may have been deleted.
    pub runs: Box<[OnceLock<IndexedRun>]>,
    /// Covers all keys of all runs.
    pub maplet: Maplet,
}

impl MapletGroup {
    /// Creates a group of these runs, oldest to newest.
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

    /// Returns the present runs with their places, oldest to newest.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = (usize, &IndexedRun)> {
        let runs = self.runs.iter().enumerate();
        runs.filter_map(|(place, run)| Some((place, run.get()?)))
    }
}

/// A reference from the trunk to a group. Only records in the pivot's range count, and only those
/// in `clip` if it is set.
#[derive(Clone, Debug)]
pub(crate) struct TrunkPart {
    /// The group, shared by all parts that refer to it.
    pub group: Arc<MapletGroup>,
    /// After a merge of two nodes, parts of either node count only in that node's range: their
    /// records outside of it were compacted or deleted there and must not reappear. An adopted run
    /// is clipped to its own key range.
    pub clip: Option<Arc<KeyRange>>,
}

impl TrunkPart {
    /// Returns the subrange of `range` in which this part counts.
    #[must_use]
    pub(crate) fn within(&self, range: &KeyRange) -> KeyRange {
        match &self.clip {
            Some(clip) => range.intersect(clip),
            None => range.clone(),
        }
    }

    /// Returns whether this part counts for `key`, which must be in the pivot's range.
    #[must_use]
    pub(crate) fn counts_for(&self, key: &[u8]) -> bool {
        self.clip.as_ref().is_none_or(|clip| clip.contains(key))
    }

    /// Returns the number of runs that overlap `range`.
    #[must_use]
    pub(crate) fn runs_in(&self, range: &KeyRange) -> usize {
        let range = self.within(range);
        let touches = |(_, run): &(usize, &IndexedRun)| range.overlaps(run.low(), run.high());
        self.group.runs().filter(touches).count()
    }

    /// Returns whether any run overlaps `range`.
    #[must_use]
    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        self.runs_in(range) > 0
    }

    /// Returns whether one of the runs uses any of these extents, which must be sorted.
    pub(crate) fn lists(&self, extents: &[Extent]) -> bool {
        let mut uses = self.group.runs().flat_map(|(_, run)| run.extents());
        uses.any(|used| extents.binary_search(&used.extent).is_ok())
    }

    /// Returns whether one of the runs points to values that another run wrote into any of these
    /// extents, which must be sorted.
    pub(crate) fn inherits(&self, extents: &[Extent]) -> bool {
        let mut uses = self.group.runs().flat_map(|(_, run)| run.extents());
        uses.any(|used| used.inherited && extents.binary_search(&used.extent).is_ok())
    }

    /// Returns whether `weight`, the part's weight in some range, is most of its runs' records. If
    /// so, its maplet, which cannot be restricted to a range, may represent the part in that range.
    #[must_use]
    pub(crate) fn is_mostly(&self, weight: &RangeWeight) -> bool {
        let records = self.group.runs().map(|(_, run)| run.summary().records);
        self.clip.is_none() && weight.records * 4 >= records.sum::<u64>() * 3
    }

    /// Returns whether `weight`, the part's weight in some range, is at least half of its maplet's
    /// entries. Merging the whole maplet for that range then at most doubles the necessary size.
    #[must_use]
    pub(crate) fn is_half(&self, weight: &RangeWeight) -> bool {
        weight.records.saturating_mul(2) >= self.group.maplet.entries()
    }

    /// Returns whether a run or the maplet is on a tier that is currently unreadable.
    pub(crate) fn is_lost(&self, tiers: &TierFiles) -> bool {
        let runs = self.group.runs().flat_map(|(_, run)| run.extents());
        let mut of_runs = runs.map(|used| used.extent.tier);
        let mut of_maplet = self.group.maplet.extents().map(|(extent, _)| extent.tier);
        of_runs.any(|tier| tiers.is_unreadable(tier)) || of_maplet.any(|tier| tiers.is_unreadable(tier))
    }

    /// Returns the part's weight in `range`.
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

    /// Returns the same part, restricted to `range`.
    #[must_use]
    pub(super) fn clipped(&self, range: &KeyRange) -> TrunkPart {
        TrunkPart {
            group: Arc::clone(&self.group),
            clip: Some(Arc::new(self.within(range))),
        }
    }
}

/// The data that a node received in one flush: parts, oldest to newest.
#[derive(Debug)]
pub(crate) struct TrunkBundle {
    /// Sequential number within the node.
    pub number: u64,
    /// Oldest to newest.
    pub parts: Vec<TrunkPart>,
}

/// A part and its weight in a pivot's range.
#[derive(Clone, Debug)]
pub(crate) struct OwnedPart {
    pub part: TrunkPart,
    /// Estimate of the data that the part adds to the pivot.
    pub weight: RangeWeight,
    /// Approximate number of its records that supersede records of the parts before it; 0 if
    /// unknown. Not stored on disk.
    pub renews: u64,
}

/// A child's range in its parent, and the data that the parent holds for it.
#[derive(Clone, Debug)]
pub(crate) struct TrunkPivot {
    /// The smallest key of the range.
    pub low: Box<[u8]>,
    /// The child; a leaf's only pivot has none.
    pub child: Option<Arc<TrunkNode>>,
    /// Parts that were compacted or adopted for this pivot, oldest to newest.
    pub own: Vec<OwnedPart>,
    /// The number of the first live bundle.
    pub first: u64,
    /// Weights of the parts of each live bundle in this pivot's range.
    pub live: Vec<Vec<RangeWeight>>,
}

/// A node of the trunk.
#[derive(Debug)]
pub(crate) struct TrunkNode {
    /// Number of levels below the node; zero for a leaf.
    pub height: u8,
    /// The key range of the node.
    pub range: KeyRange,
    /// Sorted by key; the first starts at the start of `range`.
    pub pivots: Vec<TrunkPivot>,
    /// Bundles that are live for any pivot, oldest to newest, numbered without gaps.
    pub bundles: Vec<Arc<TrunkBundle>>,
    /// The number of the next bundle.
    pub next: u64,
    /// The node's location in a checkpoint.
    pub stored: CheckpointLocation,
    /// Depth of each pivot, computed on first use. The node must not change afterwards.
    pub depths: OnceLock<Box<[usize]>>,
}

/// An entry of a pivot's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackEntry<'a> {
    pub part: &'a TrunkPart,
    /// The part's weight in the pivot's range.
    pub weight: RangeWeight,
}

impl TrunkNode {
    /// Creates a leaf with one empty pivot.
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

    /// Returns a modifiable copy of the node, which is not stored yet.
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

    /// Returns whether any run in this node or below overlaps `range`.
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

    /// Returns the index of the pivot for `key`, which must be in the node's range.
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

    /// Returns a pivot's own parts, oldest to newest.
    pub(crate) fn own(&self, pivot: usize) -> impl DoubleEndedIterator<Item = StackEntry<'_>> {
        self.pivots[pivot].own.iter().map(|owned| StackEntry {
            part: &owned.part,
            weight: owned.weight,
        })
    }

    /// Returns the parts of a pivot's live bundles, which are not compacted for it yet, oldest to
    /// newest.
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

    /// Returns the number of runs that overlap a pivot's range, including those side by side.
    #[must_use]
    pub(crate) fn runs(&self, pivot: usize) -> usize {
        let range = self.pivot_range(pivot);
        self.stack(pivot).map(|layer| layer.part.runs_in(&range)).sum()
    }

    /// Returns every use of a part: for each pivot, the parts of its stack and the range in which
    /// they count. The range may be empty if a clip lies outside of the pivot's range. The part
    /// still counts as used, because the node refers to its group, and its maplet must stay.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (&TrunkPart, KeyRange)> {
        (0..self.pivots.len()).flat_map(move |pivot| {
            let range = self.pivot_range(pivot);
            self.stack(pivot)
                .map(move |layer| (layer.part, layer.part.within(&range)))
        })
    }

    /// Returns the number of leaves below the node; one for a leaf.
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

    /// Returns the node's memory in bytes, without its children. A bundle shared by several nodes
    /// counts for each of them.
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

    /// Returns whether the bundles are numbered without gaps up to `next`.
    pub(crate) fn is_numbered(&self) -> bool {
        let numbers = self.bundles.iter().rev().map(|bundle| bundle.number);
        numbers.zip(1..).all(|(number, back)| number + back == self.next)
    }

    /// Removes bundles that are live for no pivot.
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

/// Returns whether the nodes are adjacent and together cover exactly `range`.
pub(super) fn tile(nodes: &[TrunkNode], range: &KeyRange) -> bool {
    let meets = |pair: &[TrunkNode]| pair[0].range.high.as_ref() == Some(&pair[1].range.low);
    let begins = nodes.first().is_some_and(|first| first.range.low == range.low);
    let ends = nodes.last().is_some_and(|last| last.range.high == range.high);
    begins && ends && nodes.windows(2).all(meets)
}

impl TrunkPivot {
    /// Creates a pivot with an empty stack, in a node whose next bundle has the number `next`.
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
