//! Changes to the trunk's shape: bundles received from above, flushes, splits and merges. Each
//! function takes nodes and returns new ones. No reader can see the new nodes before they are
//! published.

use super::node::{OwnedPart, StackEntry, TrunkBundle, TrunkNode, TrunkPart, TrunkPivot, tile};
use super::span;
use crate::run::RangeWeight;
use crate::tiered::policy::{self, ChildView, LeafAction, LeafView, TrunkShape, VictimPolicy};
use alluvium_base::Purpose;
use alluvium_base::checksum::seeded;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{EpochGuard, NodeCache, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of key intervals per resulting piece at which a leaf split determines the weight of the
/// leaf's runs.
const GRAIN: usize = 8;
const _: () = assert!(GRAIN > 1, "a leaf is weighed more finely than it is cut");

/// The context in which nodes are changed, and a record of the changes.
pub(crate) struct TrunkShaper<'a> {
    pub(crate) shape: TrunkShape,
    pub(crate) victim: VictimPolicy,
    pub(crate) cache: &'a NodeCache,
    pub(crate) guard: &'a EpochGuard,
    /// Returns whether the pivot with the given height and low key has a job.
    pub(crate) is_busy: &'a dyn Fn(u8, &[u8]) -> bool,
    /// Number of flushes so far. Determines whose turn it is under round robin, and seeds random
    /// choices.
    pub(crate) flush_count: u64,
    /// The flushed pivots, as pairs of height and key range.
    pub(super) flushed: Vec<(u8, KeyRange)>,
    pub(crate) counts: ReshapeCounts,
}

/// Number of changes of each kind to the trunk's shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReshapeCounts {
    /// Number of flushes of a pivot to its child.
    pub flushes: u64,
    pub leaf_splits: u64,
    /// Number of index nodes that were split.
    pub index_splits: u64,
    /// Number of times that two nodes were merged.
    pub merges: u64,
    /// Number of bundle parts that were adopted without being read.
    pub adoptions: u64,
    /// Number of new roots added above the previous root.
    pub growths: u64,
    /// Number of roots that were replaced by their only child.
    pub collapses: u64,
}

impl ReshapeCounts {
    pub(crate) fn add(&mut self, other: &ReshapeCounts) {
        self.flushes += other.flushes;
        self.leaf_splits += other.leaf_splits;
        self.index_splits += other.index_splits;
        self.merges += other.merges;
        self.adoptions += other.adoptions;
        self.growths += other.growths;
        self.collapses += other.collapses;
    }
}

/// Whether a node is the root, which may have twice as many children as other nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeRank {
    Root,
    Inner,
}

impl TrunkShaper<'_> {
    /// Returns a part's weight in a range.
    pub(crate) fn weigh(&self, part: &TrunkPart, range: &KeyRange) -> Result<RangeWeight> {
        part.weigh(range, self.cache, self.guard, Purpose::Compact)
    }

    /// Returns a copy of the node with these parts added as its newest bundle.
    pub(crate) fn receive(&self, node: &TrunkNode, parts: Vec<TrunkPart>) -> Result<TrunkNode> {
        debug_assert!(!parts.is_empty(), "a bundle has parts");
        let mut draft = node.draft();
        for index in 0..draft.pivots.len() {
            let range = draft.pivot_range(index);
            let weights = parts.iter().map(|part| self.weigh(part, &range));
            let weights = weights.collect::<Result<Vec<_>>>()?;
            draft.pivots[index].live.push(weights);
        }
        let number = draft.next;
        debug_assert!(draft.bundles.last().is_none_or(|last| last.number < number));
        draft.bundles.push(Arc::new(TrunkBundle { number, parts }));
        draft.next += 1;
        debug_assert!(
            (0..draft.pivots.len()).all(|index| !draft.live_bundles(index).is_empty()),
            "what is received is live for every pivot"
        );
        Ok(draft)
    }

    /// Flushes a node and its descendants until no flush is due. Then adopts the parts that need no
    /// compaction, and splits nodes that are too large. Returns the resulting node, or the pieces
    /// into which it was split, in key order.
    pub(crate) fn flush_and_split(&mut self, mut node: TrunkNode, rank: NodeRank) -> Result<Vec<TrunkNode>> {
        if !node.is_leaf() {
            while let Some(index) = self.victim_of(&node) {
                self.flush(&mut node, index, &mut |shaper, child| {
                    shaper.flush_and_split(child, NodeRank::Inner)
                })?;
            }
        }
        if rank == NodeRank::Inner {
            self.adopt(&mut node);
        }
        node.drop_dead_bundles();
        let mut pieces = if node.is_leaf() {
            self.cut_leaf(node)?
        } else {
            self.cut_index(node, rank)
        };
        if rank == NodeRank::Root && pieces.len() > 1 {
            pieces.iter_mut().for_each(|piece| self.adopt(piece));
        }
        Ok(pieces)
    }

    fn victim_of(&self, node: &TrunkNode) -> Option<usize> {
        let child = |index| ChildView {
            bytes: node.weight(index).bytes,
            runs: node.runs(index),
        };
        let children: Vec<ChildView> = (0..node.pivots.len()).map(child).collect();
        let draw = seeded(self.flush_count, b"a message at random");
        policy::flush(&self.shape, self.victim, &children, draw, self.flush_count)
    }

    /// Moves the whole stack of a pivot to its child as one bundle. This reads index nodes to
    /// determine the weights, but no leaves, and writes nothing. Passes the child with the new
    /// bundle to `then`, and replaces the child with the nodes that `then` returns.
    pub(crate) fn flush(
        &mut self,
        node: &mut TrunkNode,
        index: usize,
        then: &mut dyn FnMut(&mut Self, TrunkNode) -> Result<Vec<TrunkNode>>,
    ) -> Result<()> {
        let range = node.pivot_range(index);
        let parts: Vec<TrunkPart> = node
            .stack(index)
            .filter(|layer| layer.part.touches(&range))
            .map(|layer| layer.part.clone())
            .collect();
        let child = node.pivots[index]
            .child
            .as_ref()
            .expect("an index node has children");
        self.flush_count += 1;
        debug_assert!(node.height > 0, "only index nodes flush");
        debug_assert_eq!(child.height + 1, node.height, "heights fall by one");
        self.counts.flushes += 1;
        self.flushed.push((node.height, range.clone()));
        let received = if parts.is_empty() {
            child.draft()
        } else {
            self.receive(child, parts)?
        };
        let children = then(self, received)?;
        debug_assert!(tile(&children, &range), "children have what the pivot had");
        let next = node.next;
        let pivots = children
            .into_iter()
            .map(|child| TrunkPivot::empty(child.range.low.clone(), Some(Arc::new(child)), next));
        node.pivots.splice(index..=index, pivots);
        Ok(())
    }

    /// Adopts each pivot's oldest pending parts, as long as none of their runs overlaps another run
    /// of the stack. Compacting such parts would only produce the same records again. Adopted parts
    /// are restricted to their own key ranges, so that lookups of other keys skip them.
    fn adopt(&mut self, node: &mut TrunkNode) {
        for index in 0..node.pivots.len() {
            let range = node.pivot_range(index);
            while !node.pivots[index].live.is_empty()
                && !(self.is_busy)(node.height, &node.pivots[index].low)
                && self.may_adopt(node, index)
            {
                let bundle = Arc::clone(&node.live_bundles(index)[0]);
                let reach = |layer: StackEntry<'_>| {
                    let spans = node.spans(index, std::iter::once(layer));
                    span::hull(&spans).map(|hull| hull.range())
                };
                let reaches: Vec<Option<KeyRange>> =
                    node.pending(index).take(bundle.parts.len()).map(reach).collect();
                debug_assert_eq!(reaches.len(), bundle.parts.len(), "a reach for each part");
                let weights = node.pivots[index].live.remove(0);
                let pivot = &mut node.pivots[index];
                pivot.first += 1;
                let parts = bundle.parts.iter().zip(weights).zip(reaches);
                for ((part, weight), reach) in parts {
                    if let Some(reach) = reach {
                        debug_assert!(range.covers(&reach), "an adopted part is the pivot's");
                        self.counts.adoptions += 1;
                        pivot.own.push(OwnedPart {
                            part: part.clipped(&reach),
                            weight,
                            renews: 0,
                        });
                    }
                }
            }
        }
        node.drop_dead_bundles();
    }

    fn may_adopt(&self, node: &TrunkNode, index: usize) -> bool {
        let oldest = node.live_bundles(index)[0].parts.len();
        let own_runs = node.spans(index, node.own(index)).len();
        let mine = node.spans(index, node.pending(index).take(oldest));
        let stack = node.spans(index, node.stack(index));
        // The bundle's runs are themselves part of the stack, so each one overlaps at least itself.
        let overlaps = mine
            .iter()
            .any(|one| stack.iter().filter(|other| one.meets(other)).count() > 1);
        let bytes: u64 = node.pivots[index].live[0].iter().map(|weight| weight.bytes).sum();
        mine.is_empty() || policy::adopts(&self.shape, overlaps, bytes, mine.len(), own_runs)
    }

    fn cut_index(&mut self, node: TrunkNode, rank: NodeRank) -> Vec<TrunkNode> {
        let count = policy::pieces(&self.shape, node.pivots.len(), rank == NodeRank::Root);
        if count <= 1 {
            return vec![node];
        }
        self.counts.index_splits += 1;
        let mut pieces = Vec::with_capacity(count);
        for piece in 0..count {
            debug_assert!(count <= node.pivots.len(), "each piece has a pivot");
            let from = piece * node.pivots.len() / count;
            let to = (piece + 1) * node.pivots.len() / count;
            let high = match node.pivots.get(to) {
                Some(next) => Some(next.low.clone()),
                None => node.range.high.clone(),
            };
            let mut cut = node.draft();
            cut.pivots = node.pivots[from..to].to_vec();
            cut.range = KeyRange {
                low: node.pivots[from].low.clone(),
                high,
            };
            cut.drop_dead_bundles();
            pieces.push(cut);
        }
        debug_assert!(tile(&pieces, &node.range), "no key is lost at a cut");
        pieces
    }

    /// Splits a leaf that is too large into pieces of about equal weight, and returns the pieces.
    /// Pieces on both sides of a boundary share the run leaves that overlap it. If this makes the
    /// pieces hardly smaller than the leaf, the leaf is not split.
    fn cut_leaf(&mut self, node: TrunkNode) -> Result<Vec<TrunkNode>> {
        let LeafAction::Split(count) = policy::leaf(&self.shape, &leaf_view(&node)) else {
            return Ok(vec![node]);
        };
        let cuts = self.cuts(&node, count)?;
        if cuts.is_empty() {
            return Ok(vec![node]);
        }
        let lows = std::iter::once(node.range.low.clone()).chain(cuts.iter().cloned());
        let highs = cuts.iter().cloned().map(Some).chain([node.range.high.clone()]);
        let mut pieces = Vec::new();
        for (low, high) in lows.zip(highs) {
            pieces.push(self.piece(&node, KeyRange { low, high })?);
        }
        let heaviest = pieces.iter().map(|piece| piece.weight(0).bytes).max();
        if !policy::cuts_well(node.weight(0).bytes, heaviest.unwrap_or(0)) {
            return Ok(vec![node]);
        }
        debug_assert_eq!(pieces.len(), cuts.len() + 1, "a piece behind each cut");
        debug_assert!(tile(&pieces, &node.range), "no key is lost at a cut");
        self.counts.leaf_splits += 1;
        Ok(pieces)
    }

    /// Returns a leaf with the part of `leaf` within `range`.
    fn piece(&self, leaf: &TrunkNode, range: KeyRange) -> Result<TrunkNode> {
        debug_assert!(
            leaf.is_leaf() && leaf.range.covers(&range),
            "a piece of a leaf lies in it"
        );
        let mut piece = leaf.draft();
        let pivot = &mut piece.pivots[0];
        pivot.low.clone_from(&range.low);
        let own = std::mem::take(&mut pivot.own);
        for owned in own.into_iter().filter(|owned| owned.part.touches(&range)) {
            let weight = self.weigh(&owned.part, &range)?;
            let before = owned.weight.records.max(1);
            pivot.own.push(OwnedPart {
                renews: owned.renews.saturating_mul(weight.records) / before,
                weight,
                part: owned.part,
            });
        }
        for (bundle, weights) in leaf.live_bundles(0).iter().zip(&mut pivot.live) {
            for (part, weight) in bundle.parts.iter().zip(weights) {
                *weight = self.weigh(part, &range)?;
            }
        }
        piece.range = range;
        Ok(piece)
    }

    /// Returns the keys at which to split a leaf into `count` pieces of about equal weight. Returns
    /// fewer keys if the weights do not allow for that number of pieces.
    fn cuts(&self, leaf: &TrunkNode, count: usize) -> Result<Vec<Box<[u8]>>> {
        let mut marks: BTreeMap<Box<[u8]>, u64> = BTreeMap::new();
        for layer in leaf.stack(0) {
            let within = layer.part.within(&leaf.range);
            for (_, run) in layer.part.group.runs() {
                if !within.overlaps(run.low(), run.high()) {
                    continue;
                }
                let wanted = GRAIN * count;
                for piece in run.separators(&within, wanted, self.cache, self.guard, Purpose::Compact)? {
                    // A run has no records below its lowest key.
                    let low = if *piece.low < *run.low() {
                        run.low().into()
                    } else {
                        piece.low
                    };
                    *marks.entry(low).or_default() += piece.bytes;
                }
            }
        }
        let total: u64 = marks.values().sum();
        let mut cuts: Vec<Box<[u8]>> = Vec::new();
        let mut below = 0;
        for (low, bytes) in marks {
            let due = (cuts.len() as u64 + 1) * total / count as u64;
            let inside = *low > *leaf.range.low && !leaf.range.ends_before(&low);
            if below >= due && inside && cuts.len() + 1 < count {
                cuts.push(low);
            }
            below += bytes;
        }
        debug_assert!(cuts.is_sorted() && cuts.len() < count.max(1), "cuts ascend");
        Ok(cuts)
    }

    /// Adds levels of index nodes above the given nodes until there is a single root, and returns
    /// that root.
    pub(crate) fn add_root_levels(&mut self, mut nodes: Vec<TrunkNode>) -> TrunkNode {
        while nodes.len() > 1 {
            self.counts.growths += 1;
            let height = nodes[0].height + 1;
            debug_assert!(nodes.iter().all(|node| node.height + 1 == height), "level");
            debug_assert!(tile(&nodes, &KeyRange::everything()), "a root has every key");
            let pivots = nodes
                .into_iter()
                .map(|node| TrunkPivot::empty(node.range.low.clone(), Some(Arc::new(node)), 1))
                .collect();
            let root = TrunkNode {
                height,
                pivots,
                ..TrunkNode::leaf(KeyRange::everything())
            };
            nodes = self.cut_index(root, NodeRank::Root);
        }
        nodes.pop().expect("a trunk has a root")
    }

    /// Merges the two children of `node` at `left` and `left + 1`. First flushes the data that
    /// `node` has for them. In the merged child, the data of each original child is visible only in
    /// that child's former range.
    pub(crate) fn merge(&mut self, node: &mut TrunkNode, left: usize) -> Result<()> {
        for index in [left, left + 1] {
            self.flush(node, index, &mut |_, child| Ok(vec![child]))?;
        }
        let child = |index: usize| {
            node.pivots[index]
                .child
                .as_ref()
                .expect("an index node has children")
        };
        assert!(left + 1 < node.pivots.len(), "neighbours");
        let merged = join(child(left), child(left + 1));
        let range = merged.range.clone();
        self.counts.merges += 1;
        let children = self.flush_and_split(merged, NodeRank::Inner)?;
        debug_assert!(tile(&children, &range), "a merge keeps the keys of both");
        let next = node.next;
        let pivots = children
            .into_iter()
            .map(|child| TrunkPivot::empty(child.range.low.clone(), Some(Arc::new(child)), next));
        node.pivots.splice(left..=left + 1, pivots);
        Ok(())
    }

    /// Flushes all data for the leaf that contains `key` from the nodes above down to the leaf.
    /// Then flushes or splits every node on the path that has become too large.
    pub(crate) fn flush_path(
        &mut self,
        mut node: TrunkNode,
        key: &[u8],
        rank: NodeRank,
    ) -> Result<Vec<TrunkNode>> {
        debug_assert!(node.range.contains(key), "a path leads to the key's leaf");
        if !node.is_leaf() {
            let index = node.pivot_for(key);
            self.flush(&mut node, index, &mut |shaper, child| {
                shaper.flush_path(child, key, NodeRank::Inner)
            })?;
        }
        self.flush_and_split(node, rank)
    }

    /// Replaces a root that has only one child with that child, until the root is a leaf or has
    /// several children.
    pub(crate) fn collapse(&mut self, mut root: TrunkNode) -> Result<TrunkNode> {
        while !root.is_leaf() && root.pivots.len() == 1 {
            self.flush(&mut root, 0, &mut |_, child| Ok(vec![child]))?;
            let child = root.pivots[0].child.as_ref().expect("an index node has children");
            let child = child.draft();
            self.counts.collapses += 1;
            let settled = self.flush_and_split(child, NodeRank::Root)?;
            root = self.add_root_levels(settled);
        }
        Ok(root)
    }
}

/// Returns the properties of a leaf that determine whether it is split or rewritten.
pub(super) fn leaf_view(leaf: &TrunkNode) -> LeafView {
    LeafView {
        bytes: leaf.weight(0).bytes,
        stale_percent: stale_percent(&leaf.pivots[0].own),
    }
}

/// Returns the estimated percentage of superseded records in a leaf: the larger of two estimates.
/// The first is based on the maplets, which have one entry for each run that contains a key. The
/// second is based on the number of superseding records found when each run was written.
pub(crate) fn stale_percent(own: &[OwnedPart]) -> u64 {
    let (mut entries, mut keys) = (0, 0);
    let (mut records, mut renews) = (0, 0);
    for OwnedPart {
        part,
        weight,
        renews: of_part,
    } in own
    {
        entries += part.group.maplet.entries();
        keys += part.group.maplet.fingerprints();
        records += weight.records;
        renews += of_part;
    }
    let known = 100 * (entries - keys.min(entries)) / entries.max(1);
    known.max(100 * renews.min(records) / records.max(1))
}

/// Merges two neighbouring nodes into one, and returns it.
fn join(left: &TrunkNode, right: &TrunkNode) -> TrunkNode {
    debug_assert_eq!(left.height, right.height, "neighbours of one level");
    debug_assert_eq!(left.range.high.as_ref(), Some(&right.range.low), "neighbours");
    let mut joined = left.draft();
    joined.range = KeyRange {
        low: left.range.low.clone(),
        high: right.range.high.clone(),
    };
    let clipped = |node: &TrunkNode, bundle: &Arc<TrunkBundle>| -> Vec<TrunkPart> {
        bundle
            .parts
            .iter()
            .map(|part| part.clipped(&node.range))
            .collect()
    };
    let lists = [left, right].map(|node| node.bundles.iter().map(move |bundle| clipped(node, bundle)));
    joined.bundles = lists
        .into_iter()
        .flatten()
        .zip(1..)
        .map(|(parts, number)| Arc::new(TrunkBundle { number, parts }))
        .collect();
    joined.next = joined.bundles.len() as u64 + 1;
    let nothing = |bundles: &[Arc<TrunkBundle>]| -> Vec<Vec<RangeWeight>> {
        bundles
            .iter()
            .map(|bundle| vec![RangeWeight::default(); bundle.parts.len()])
            .collect()
    };
    // A pivot's live bundles must be the newest ones of its node. The right node's bundles are
    // placed after the left node's, so they become live for the left node's pivots too, with weight
    // zero.
    let of_left = left.pivots.iter().map(|pivot| TrunkPivot {
        live: [pivot.live.clone(), nothing(&right.bundles)].concat(),
        ..pivot.clone()
    });
    let of_right = right.pivots.iter().cloned();
    joined.pivots = of_left.chain(of_right).collect();
    if joined.is_leaf() {
        joined.pivots = vec![join_leaves(left, right)];
    }
    for pivot in &mut joined.pivots {
        assert!(pivot.live.len() <= joined.bundles.len(), "live bundles");
        pivot.first = joined.next - pivot.live.len() as u64;
    }
    debug_assert!(
        joined.pivots.is_sorted_by(|one, next| one.low < next.low),
        "pivots ascend within the node"
    );
    joined
}

fn join_leaves(left: &TrunkNode, right: &TrunkNode) -> TrunkPivot {
    debug_assert!(
        left.pivots.len() == 1 && right.pivots.len() == 1,
        "a leaf has one pivot"
    );
    let own = |leaf: &TrunkNode| -> Vec<OwnedPart> {
        let clipped = |owned: &OwnedPart| OwnedPart {
            part: owned.part.clipped(&leaf.range),
            weight: owned.weight,
            renews: owned.renews,
        };
        leaf.pivots[0].own.iter().map(clipped).collect()
    };
    // A leaf has a single pivot, so all of its bundles are live for it.
    TrunkPivot {
        low: left.range.low.clone(),
        child: None,
        own: [own(left), own(right)].concat(),
        first: 0,
        live: [left.pivots[0].live.clone(), right.pivots[0].live.clone()].concat(),
    }
}

/// Returns the index of the first of two adjacent children that should be merged, or `None` if
/// there are no such children.
pub(crate) fn neighbours(shape: &TrunkShape, node: &TrunkNode) -> Option<usize> {
    debug_assert!(!node.is_leaf(), "a leaf has no children");
    let child = |index: usize| -> ChildView {
        let child = node.pivots[index]
            .child
            .as_ref()
            .expect("an index node has children");
        let below = (0..child.pivots.len()).map(|pivot| child.weight(pivot).bytes);
        ChildView {
            bytes: node.weight(index).bytes + below.sum::<u64>(),
            runs: node.runs(index)
                + (0..child.pivots.len())
                    .map(|pivot| child.runs(pivot))
                    .max()
                    .unwrap_or(0),
        }
    };
    let children = |index: usize| {
        let child = node.pivots[index]
            .child
            .as_ref()
            .expect("an index node has children");
        child.pivots.len()
    };
    (1..node.pivots.len())
        .find(|&right| {
            let left = right - 1;
            let together = children(left) + children(right);
            policy::merges(shape, node.height - 1, &child(left), &child(right), together)
        })
        .map(|right| right - 1)
}
