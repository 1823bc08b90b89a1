//! Simulates changes to the tree's shape: flushes, splits, and new roots.

use super::amounts::RunGroup;
use super::node::{SimulatedNode, SimulatedPivot, SizeModel};
use super::parameters::TreeShape;
use super::policy;

/// Whether a node is the root, which keeps its own bundles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodePosition {
    Root,
    Inner,
}

/// The parameters that shape changes depend on.
pub(super) struct ShapeSimulator<'s> {
    pub(super) shape: &'s TreeShape,
    pub(super) scale: &'s SizeModel,
}

impl ShapeSimulator<'_> {
    /// Flushes a node and its descendants until no flush is due, and splits nodes that have become
    /// too large. Returns the pieces of the given node, or the node itself if it was not split.
    pub(super) fn settle(&self, mut node: SimulatedNode, rank: NodePosition) -> Vec<SimulatedNode> {
        if !node.is_leaf() {
            while let Some(index) = self.victim(&node) {
                self.flush(&mut node, index);
            }
        }
        if rank == NodePosition::Inner {
            adopt(&mut node);
        }
        if node.is_leaf() {
            self.cut_leaf(node)
        } else {
            self.cut_index(node, rank)
        }
    }

    fn victim(&self, node: &SimulatedNode) -> Option<usize> {
        let child = |pivot: &SimulatedPivot| (self.scale.weight(pivot), pivot.runs());
        let children: Vec<(f64, usize)> = node.pivots.iter().map(child).collect();
        policy::flush(self.shape, &children)
    }

    fn flush(&self, node: &mut SimulatedNode, index: usize) {
        let pivot = &mut node.pivots[index];
        let groups: Vec<RunGroup> = pivot.own.drain(..).chain(pivot.live.drain(..)).collect();
        let mut child = *pivot.child.take().expect("an index node has children");
        child.receive(&groups);
        let pieces = self.settle(child, NodePosition::Inner);
        let pivots = pieces
            .into_iter()
            .map(|piece| SimulatedPivot::empty(piece.width, Some(Box::new(piece))));
        node.pivots.splice(index..=index, pivots);
    }

    fn cut_leaf(&self, node: SimulatedNode) -> Vec<SimulatedNode> {
        let pivot = &node.pivots[0];
        let bytes = self.scale.weight(pivot);
        let count = policy::pieces_of_leaf(self.shape, bytes, self.scale.stale(pivot));
        let piece = || {
            let mut piece = node.clone();
            piece.width /= count as f64;
            piece.pivots[0].width = piece.width;
            piece
        };
        if count == 1 {
            return vec![node];
        }
        // Data on both sides of a split stays in both pieces. If this applies to nearly all data,
        // do not split the leaf.
        let first = piece();
        if self.scale.weight(&first.pivots[0]) > bytes * 7.0 / 8.0 {
            return vec![node];
        }
        (0..count).map(|_| piece()).collect()
    }

    fn cut_index(&self, node: SimulatedNode, rank: NodePosition) -> Vec<SimulatedNode> {
        let count = policy::pieces_of_index(self.shape, node.pivots.len(), rank == NodePosition::Root);
        if count == 1 {
            return vec![node];
        }
        let (height, all) = (node.height, node.pivots.len());
        let mut pivots = node.pivots.into_iter();
        let piece = |piece: usize| {
            let here = (piece + 1) * all / count - piece * all / count;
            let pivots: Vec<SimulatedPivot> = pivots.by_ref().take(here).collect();
            SimulatedNode {
                height,
                width: pivots.iter().map(|pivot| pivot.width).sum(),
                pivots,
                is_changed: true,
            }
        };
        (0..count).map(piece).collect()
    }

    /// Adds roots above the nodes until a single node remains, and returns it.
    pub(super) fn add_roots(&self, mut nodes: Vec<SimulatedNode>) -> SimulatedNode {
        while nodes.len() > 1 {
            let root = SimulatedNode {
                height: nodes[0].height + 1,
                width: 1.0,
                pivots: nodes
                    .into_iter()
                    .map(|node| SimulatedPivot::empty(node.width, Some(Box::new(node))))
                    .collect(),
                is_changed: true,
            };
            nodes = self.cut_index(root, NodePosition::Root);
        }
        nodes.pop().expect("a trunk has a root")
    }
}

/// Marks a run as compacted if it is its pivot's only one. Keys are scattered, so two runs of a
/// pivot always overlap.
fn adopt(node: &mut SimulatedNode) {
    for pivot in &mut node.pivots {
        if pivot.live.len() == 1 && pivot.runs() == 1 {
            pivot.own.append(&mut pivot.live);
        }
    }
}
