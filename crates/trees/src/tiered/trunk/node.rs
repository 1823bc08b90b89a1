//! Trunk nodes: immutable shared values. A change is a new node and a new path to it from the root.
//!
//! ```text
//!             bundles   1   2   3   4   5      shared by all pivots, oldest to newest
//!   pivot a   own ─┐    ░   ░   ░   █   █      ░ flushed or compacted for this pivot   █ live
//!   pivot m   own ─┤    ░   █   █   █   █      stack of a pivot: its own parts, then live bundles' parts
//!   pivot t   own ─┘    ░   ░   ░   ░   █
//! ```

use super::stored::Stored;
use crate::maplet::Maplet;
use crate::run::{Run, Weight};
use alluvium_base::Purpose;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Cache, Guard, Result, Tiers};
use std::sync::{Arc, OnceLock};

/// Several runs and the one maplet that says which of them may hold a key: its values are places in
/// `runs`.
#[derive(Debug)]
pub(crate) struct Group {
    /// Unique in the store.
    pub id: u64,
    /// Oldest to newest. A run that is not needed any more is missing in a trunk that was read from
    /// disk: it may be gone.
    pub runs: Box<[OnceLock<Run>]>,
    /// Over all keys of all runs.
    pub maplet: Maplet,
}

impl Group {
    /// A group of these runs, oldest to newest.
    #[must_use]
    pub(crate) fn new(id: u64, runs: impl IntoIterator<Item = Option<Run>>, maplet: Maplet) -> Group {
        let slot = |run: Option<Run>| run.map_or_else(OnceLock::new, OnceLock::from);
        Group {
            id,
            runs: runs.into_iter().map(slot).collect(),
            maplet,
        }
    }

    /// The runs that are there, oldest to newest, with their places.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = (usize, &Run)> {
        let runs = self.runs.iter().enumerate();
        runs.filter_map(|(place, run)| Some((place, run.get()?)))
    }
}

/// A group as one place of the trunk uses it: only what lies in the pivot's range, and in `clip`
/// where there is one.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The group, shared by all its users.
    pub group: Arc<Group>,
    /// Where two nodes became one, what came from each counts in that node's range only: what lies
    /// outside was compacted or deleted there, and must not come back. An adopted run is clipped to
    /// its own key range.
    pub clip: Option<Arc<KeyRange>>,
}

impl Part {
    /// The part of `range` in which this part counts.
    #[must_use]
    pub(crate) fn within(&self, range: &KeyRange) -> KeyRange {
        match &self.clip {
            Some(clip) => range.intersect(clip),
            None => range.clone(),
        }
    }

    /// Whether this part counts for a key of the pivot's range.
    #[must_use]
    pub(crate) fn counts_for(&self, key: &[u8]) -> bool {
        self.clip.as_ref().is_none_or(|clip| clip.contains(key))
    }

    /// How many of its runs touch a key of `range`.
    #[must_use]
    pub(crate) fn runs_in(&self, range: &KeyRange) -> usize {
        let range = self.within(range);
        let touches = |(_, run): &(usize, &Run)| range.overlaps(run.low(), run.high());
        self.group.runs().filter(touches).count()
    }

    /// Whether any of its runs touches a key of `range`.
    #[must_use]
    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        self.runs_in(range) > 0
    }

    /// Returns whether one of its runs has anything in some extents, which are in order.
    pub(crate) fn lists(&self, extents: &[Extent]) -> bool {
        let mut uses = self.group.runs().flat_map(|(_, run)| run.extents());
        uses.any(|used| extents.binary_search(&used.extent).is_ok())
    }

    /// Returns whether one of its runs points to values in some extents, which are in order, that
    /// another run wrote there.
    pub(crate) fn inherits(&self, extents: &[Extent]) -> bool {
        let mut uses = self.group.runs().flat_map(|(_, run)| run.extents());
        uses.any(|used| used.inherited && extents.binary_search(&used.extent).is_ok())
    }

    /// Returns whether what it weighs somewhere is most of what its runs have: its maplet, which
    /// has no keys, may count for that place.
    #[must_use]
    pub(crate) fn is_mostly(&self, weight: &Weight) -> bool {
        let records = self.group.runs().map(|(_, run)| run.summary().records);
        self.clip.is_none() && weight.records * 4 >= records.sum::<u64>() * 3
    }

    /// Returns whether what it weighs somewhere is half of what its maplet has, at least: merged
    /// as a whole for that place, it is no more than twice as large as it would have to be.
    #[must_use]
    pub(crate) fn is_half(&self, weight: &Weight) -> bool {
        weight.records.saturating_mul(2) >= self.group.maplet.entries()
    }

    /// Returns whether it lies, or its maplet does, on a tier of which reads fail for now.
    pub(crate) fn is_lost(&self, tiers: &Tiers) -> bool {
        let runs = self.group.runs().flat_map(|(_, run)| run.extents());
        let mut of_runs = runs.map(|used| used.extent.tier);
        let mut of_maplet = self.group.maplet.extents().map(|(extent, _)| extent.tier);
        of_runs.any(|tier| tiers.is_unreadable(tier)) || of_maplet.any(|tier| tiers.is_unreadable(tier))
    }

    /// What it weighs in a range.
    pub(crate) fn weigh(
        &self,
        range: &KeyRange,
        cache: &Cache,
        guard: &Guard,
        purpose: Purpose,
    ) -> Result<Weight> {
        let within = self.within(range);
        let mut sum = Weight::default();
        for (_, run) in self.group.runs() {
            if within.overlaps(run.low(), run.high()) {
                sum = sum + run.weigh(&within, cache, guard, purpose)?;
            }
        }
        Ok(sum)
    }

    /// The same part, counting in `range` only.
    #[must_use]
    pub(super) fn clipped(&self, range: &KeyRange) -> Part {
        Part {
            group: Arc::clone(&self.group),
            clip: Some(Arc::new(self.within(range))),
        }
    }
}

/// What a node received at once: parts, oldest to newest.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// Its number in the node.
    pub number: u64,
    /// Oldest to newest.
    pub parts: Vec<Part>,
}

/// A part and what it weighs in a pivot's range.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    /// The part.
    pub part: Part,
    /// An estimate.
    pub weight: Weight,
    /// How many of its records are newer versions of what the parts before it hold, about; 0 if it
    /// is not known. It is not written to disk.
    pub renews: u64,
}

/// A child's range in its parent, and what the parent holds for it.
#[derive(Clone, Debug)]
pub(crate) struct Pivot {
    /// The smallest key of the range.
    pub low: Box<[u8]>,
    /// The child; a leaf's only pivot has none.
    pub child: Option<Arc<Node>>,
    /// What was compacted or adopted for this pivot, oldest to newest.
    pub own: Vec<Owned>,
    /// The number of the first live bundle.
    pub first: u64,
    /// What the parts of each live bundle weigh in this pivot's range.
    pub live: Vec<Vec<Weight>>,
}

/// A node of the trunk.
#[derive(Debug)]
pub(crate) struct Node {
    /// Leaves are at 0.
    pub height: u8,
    /// The keys that it is responsible for.
    pub range: KeyRange,
    /// In the order of their keys; the first begins where the range does.
    pub pivots: Vec<Pivot>,
    /// Those that are live for any pivot, oldest to newest, numbered without gaps.
    pub bundles: Vec<Arc<Bundle>>,
    /// The number of the next bundle.
    pub next: u64,
    /// Where a checkpoint has written it.
    pub stored: Stored,
    /// Of each pivot, computed at the first question: from then on the node does not change any
    /// more.
    pub depths: OnceLock<Box<[usize]>>,
}

/// One entry of a pivot's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer<'a> {
    /// The part.
    pub part: &'a Part,
    /// What it weighs in the pivot's range.
    pub weight: Weight,
}

impl Node {
    /// An empty leaf.
    #[must_use]
    pub(crate) fn leaf(range: KeyRange) -> Node {
        let pivot = Pivot::empty(range.low.clone(), None, 1);
        Node {
            height: 0,
            range,
            pivots: vec![pivot],
            bundles: Vec::new(),
            next: 1,
            stored: Stored::default(),
            depths: OnceLock::new(),
        }
    }

    /// The same node as a value to change: it is not stored yet.
    #[must_use]
    pub(crate) fn draft(&self) -> Node {
        debug_assert!(!self.pivots.is_empty(), "a node has a pivot");
        Node {
            height: self.height,
            range: self.range.clone(),
            pivots: self.pivots.clone(),
            bundles: self.bundles.clone(),
            next: self.next,
            stored: Stored::default(),
            depths: OnceLock::new(),
        }
    }

    /// Whether any run, here or below, may say anything of a key of a range.
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

    /// Whether it has no children.
    #[must_use]
    pub(crate) fn is_leaf(&self) -> bool {
        self.height == 0
    }

    /// The range of a pivot.
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

    /// The pivot that a key of the node's range belongs to.
    #[must_use]
    pub(crate) fn pivot_for(&self, key: &[u8]) -> usize {
        self.pivots
            .partition_point(|pivot| *pivot.low <= *key)
            .saturating_sub(1)
    }

    /// The bundles that are live for a pivot, oldest to newest.
    #[must_use]
    pub(crate) fn live_bundles(&self, pivot: usize) -> &[Arc<Bundle>] {
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

    /// A pivot's stack, oldest to newest.
    pub(crate) fn stack(&self, pivot: usize) -> impl DoubleEndedIterator<Item = Layer<'_>> {
        self.own(pivot).chain(self.pending(pivot))
    }

    /// The part of a pivot's stack that is its own, oldest to newest.
    pub(crate) fn own(&self, pivot: usize) -> impl DoubleEndedIterator<Item = Layer<'_>> {
        self.pivots[pivot].own.iter().map(|owned| Layer {
            part: &owned.part,
            weight: owned.weight,
        })
    }

    /// The part of a pivot's stack that is not compacted for it yet, oldest to newest.
    pub(crate) fn pending(&self, pivot: usize) -> impl DoubleEndedIterator<Item = Layer<'_>> {
        let bundles = self.live_bundles(pivot).iter().zip(&self.pivots[pivot].live);
        bundles.flat_map(|(bundle, weights)| {
            debug_assert_eq!(bundle.parts.len(), weights.len(), "a weight for each part");
            bundle
                .parts
                .iter()
                .zip(weights)
                .map(|(part, &weight)| Layer { part, weight })
        })
    }

    /// What a pivot's stack weighs.
    #[must_use]
    pub(crate) fn weight(&self, pivot: usize) -> Weight {
        self.stack(pivot)
            .fold(Weight::default(), |sum, layer| sum + layer.weight)
    }

    /// How many runs have something of a pivot's range, those that lie side by side as well.
    #[must_use]
    pub(crate) fn runs(&self, pivot: usize) -> usize {
        let range = self.pivot_range(pivot);
        self.stack(pivot).map(|layer| layer.part.runs_in(&range)).sum()
    }

    /// Every use of a part: for each pivot, the parts of its stack and the range that they count
    /// in. That may be empty, where a clip lies outside of the pivot's range: the node names the
    /// part's group all the same, so its maplet must stay.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (&Part, KeyRange)> {
        (0..self.pivots.len()).flat_map(move |pivot| {
            let range = self.pivot_range(pivot);
            self.stack(pivot)
                .map(move |layer| (layer.part, layer.part.within(&range)))
        })
    }

    /// How many leaves there are below it; one for a leaf.
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

    /// Bytes of memory that it takes, without its children. A bundle that pieces of a node share
    /// counts for each of them.
    #[must_use]
    pub(crate) fn memory_bytes(&self) -> u64 {
        let key = |key: &[u8]| 16 + key.len();
        let range = |range: &KeyRange| key(&range.low) + range.high.as_deref().map_or(0, key);
        let clip = |part: &Part| part.clip.as_deref().map_or(0, range);
        let part = |part: &Part| size_of::<Part>() + clip(part);
        let owned = |owned: &Owned| size_of::<Owned>() + clip(&owned.part);
        let live = |weights: &Vec<Weight>| size_of::<Vec<Weight>>() + weights.len() * size_of::<Weight>();
        let pivot = |pivot: &Pivot| {
            let own: usize = pivot.own.iter().map(owned).sum();
            let depth = size_of::<usize>();
            size_of::<Pivot>() + depth + key(&pivot.low) + own + pivot.live.iter().map(live).sum::<usize>()
        };
        let bundle = |bundle: &Arc<Bundle>| {
            size_of::<Arc<Bundle>>() + size_of::<Bundle>() + bundle.parts.iter().map(part).sum::<usize>()
        };
        let pivots: usize = self.pivots.iter().map(pivot).sum();
        let bundles: usize = self.bundles.iter().map(bundle).sum();
        (size_of::<Node>() + range(&self.range) + pivots + bundles) as u64
    }

    /// The children, in the order of their keys.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.pivots.iter().filter_map(|pivot| pivot.child.as_ref())
    }

    /// Returns whether its bundles are numbered without gaps up to the next one's number.
    pub(crate) fn is_numbered(&self) -> bool {
        let numbers = self.bundles.iter().rev().map(|bundle| bundle.number);
        numbers.zip(1..).all(|(number, back)| number + back == self.next)
    }

    /// Drops the bundles that are live for no pivot.
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

/// Returns whether nodes lie side by side and have together the keys of `range`.
pub(super) fn tile(nodes: &[Node], range: &KeyRange) -> bool {
    let meets = |pair: &[Node]| pair[0].range.high.as_ref() == Some(&pair[1].range.low);
    let begins = nodes.first().is_some_and(|first| first.range.low == range.low);
    let ends = nodes.last().is_some_and(|last| last.range.high == range.high);
    begins && ends && nodes.windows(2).all(meets)
}

impl Pivot {
    /// A pivot for which there is nothing in a node whose next bundle has the number `next`.
    #[must_use]
    pub(crate) fn empty(low: Box<[u8]>, child: Option<Arc<Node>>, next: u64) -> Pivot {
        debug_assert!(next > 0, "bundles are counted from 1");
        Pivot {
            low,
            child,
            own: Vec::new(),
            first: next,
            live: Vec::new(),
        }
    }
}
