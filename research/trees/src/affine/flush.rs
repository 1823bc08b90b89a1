//! Flushing messages down the tree: whole nodes are read, changed and written to new locations.
//!
//! A flush removes the messages for one child from a node in memory, reads the child, adds the
//! messages to it, flushes the buffers there that exceed their limit, and writes the child once.
//! Each flush therefore costs one read and one write of a node, 2(1 + αB) setups for the B/F
//! messages it moves (Theorem 9).

use super::counters::{AffineCounters, RequestCause};
use super::error::{Error, Result};
use super::node::{
    BoxedBytes, BufferedChild, InnerNode, LeafPair, NodeBody, TreeMessage, apply_messages, leaf_bytes,
};
use super::options::AffineVariant;
use super::space::NodeSpace;
use super::tree::AffineTree;

impl<S: NodeSpace> AffineTree<S> {
    /// Flushes one child of the root, and grows or shrinks the root as necessary.
    pub(super) fn flush_root(&mut self, at: usize) -> Result<()> {
        assert!(at < self.root.children.len(), "the child is one of the root");
        let mut root = self.take_root();
        self.flush_child(&mut root, at)?;
        self.restore_root(root)
    }

    /// Removes the root from the dictionary for modification.
    pub(super) fn take_root(&mut self) -> InnerNode {
        let empty = InnerNode {
            height: 1,
            children: Vec::new(),
        };
        std::mem::replace(&mut self.root, empty)
    }

    /// Puts the root back after adjusting its height.
    pub(super) fn restore_root(&mut self, mut root: InnerNode) -> Result<()> {
        loop {
            self.flush_overfull_children(&mut root)?;
            if self.options.variant == AffineVariant::WeightBalanced {
                if self.root_fits(&root) {
                    break;
                }
                root = self.rebuild_root(root)?;
            } else if self.is_large(&root) {
                root = self.raise_root(root)?;
            } else if root.height > 1 && root.children.len() == 1 {
                root = self.lower_root(root)?;
            } else {
                break;
            }
        }
        assert_eq!(self.levels[usize::from(root.height)], 1, "there is one root");
        self.root = root;
        self.levels.truncate(usize::from(self.root.height) + 1);
        self.choose_resident()
    }

    /// Splits an overfull root and makes a new root above the halves.
    fn raise_root(&mut self, root: InnerNode) -> Result<InnerNode> {
        let height = root.height + 1;
        let children = self.split_and_place(BoxedBytes::default(), root)?;
        assert!(children.len() > 1, "a root that is too large is split");
        self.levels.resize(usize::from(height) + 1, 0);
        self.levels[usize::from(height)] = 1;
        // The old root was counted at its height, and its halves were counted again.
        self.levels[usize::from(height) - 1] -= 1;
        Ok(InnerNode { height, children })
    }

    /// Replaces the root by its only child.
    fn lower_root(&mut self, mut root: InnerNode) -> Result<InnerNode> {
        assert_eq!(root.children.len(), 1, "the root has one child");
        let mut child = root.children.pop().expect("a root has a child");
        let messages = child.buffer.take();
        let NodeBody::Inner(mut inner) = self.take(&mut child, root.height - 1, RequestCause::Flush)? else {
            unreachable!("a child of a root above height 1 has children");
        };
        inner.deliver(&*self.operator, messages);
        self.levels.truncate(usize::from(root.height));
        self.levels[usize::from(inner.height)] = 1;
        Ok(inner)
    }

    /// Flushes until no segment of a node exceeds its limit (AF1), and balances the weights below
    /// the node (AF3).
    pub(super) fn flush_overfull_children(&mut self, node: &mut InnerNode) -> Result<()> {
        while let Some(at) = self.find_overfull_child(node) {
            self.flush_child(node, at)?;
        }
        debug_assert!(!node.children.is_empty(), "a node keeps a child");
        Ok(())
    }

    /// Moves the messages for a child into it, and replaces the child with the resulting nodes.
    pub(super) fn flush_child(&mut self, node: &mut InnerNode, at: usize) -> Result<()> {
        assert!(node.height > 0, "a leaf has no children");
        let below = node.height - 1;
        let child = &mut node.children[at];
        AffineCounters::add(&self.figures.flushes, 1);
        AffineCounters::add(&self.figures.moved, child.buffer.messages().len() as u64);
        match below {
            0 => self.flush_leaf(node, at),
            _ => self.flush_inner(node, at),
        }
    }

    fn flush_leaf(&mut self, node: &mut InnerNode, at: usize) -> Result<()> {
        let mut at = at;
        let from = node.children[at].from.clone();
        let mut pairs = self.drain_leaf(&mut node.children[at])?;
        let mut from = from;
        let least = self.options.node_bytes as usize / 4;
        while leaf_bytes(&pairs) < least && node.children.len() > 1 {
            let other = if at + 1 < node.children.len() {
                at + 1
            } else {
                at - 1
            };
            let more = self.drain_leaf(&mut node.children[other])?;
            let (first, second) = if other > at { (pairs, more) } else { (more, pairs) };
            pairs = first;
            pairs.extend(second);
            at = at.min(other);
            from = node.children[at].from.clone();
            node.children.remove(at + 1);
            AffineCounters::add(&self.figures.merges, 1);
        }
        let made = self.write_leaves(from, &pairs, RequestCause::Flush)?;
        AffineCounters::add(&self.figures.splits, made.len() as u64 - 1);
        node.children.splice(at..=at, made);
        Ok(())
    }

    /// Reads a leaf and applies the messages for it.
    fn drain_leaf(&mut self, child: &mut BufferedChild) -> Result<Vec<LeafPair>> {
        let messages = child.buffer.take();
        match self.take(child, 0, RequestCause::Flush)? {
            NodeBody::Leaf(pairs) => self.apply_to_leaf(pairs, messages),
            NodeBody::Inner(_) => unreachable!("what is read at height 0 is a leaf"),
        }
    }

    /// Applies messages to the pairs of a leaf.
    ///
    /// Fails if updates have made a value too long for a sub-block (AF1), since no part can store
    /// it.
    pub(super) fn apply_to_leaf(
        &self,
        pairs: Vec<LeafPair>,
        messages: Vec<TreeMessage>,
    ) -> Result<Vec<LeafPair>> {
        let pairs = apply_messages(&*self.operator, pairs, messages);
        let limit = self.options.pair_limit();
        match pairs.iter().map(LeafPair::bytes).find(|len| *len > limit) {
            Some(len) => Err(Error::TooLong { len, limit }),
            None => Ok(pairs),
        }
    }

    fn flush_inner(&mut self, node: &mut InnerNode, at: usize) -> Result<()> {
        let (below, mut at) = (node.height - 1, at);
        let mut from = node.children[at].from.clone();
        let mut inner = self.drain_inner(&mut node.children[at], below)?;
        self.flush_overfull_children(&mut inner)?;
        while self.is_small(&inner) && node.children.len() > 1 {
            let other = if at + 1 < node.children.len() {
                at + 1
            } else {
                at - 1
            };
            let more = self.drain_inner(&mut node.children[other], below)?;
            let (mut first, second) = if other > at { (inner, more) } else { (more, inner) };
            first.children.extend(second.children);
            inner = first;
            at = at.min(other);
            from = node.children[at].from.clone();
            node.children.remove(at + 1);
            AffineCounters::add(&self.figures.merges, 1);
            self.flush_overfull_children(&mut inner)?;
        }
        if self.options.variant == AffineVariant::WeightBalanced && self.must_rebuild(&inner) {
            inner = self.rebuild(inner)?;
        }
        let made = self.split_and_place(from, inner)?;
        AffineCounters::add(&self.figures.splits, made.len() as u64 - 1);
        node.children.splice(at..=at, made);
        Ok(())
    }

    fn drain_inner(&mut self, child: &mut BufferedChild, height: u8) -> Result<InnerNode> {
        let messages = child.buffer.take();
        match self.take(child, height, RequestCause::Flush)? {
            NodeBody::Inner(mut inner) => {
                inner.deliver(&*self.operator, messages);
                Ok(inner)
            }
            NodeBody::Leaf(_) => unreachable!("what is read above height 0 has children"),
        }
    }

    /// Removes a child from memory or reads it from disk. It must be written again.
    pub(super) fn take(
        &mut self,
        child: &mut BufferedChild,
        height: u8,
        cause: RequestCause,
    ) -> Result<NodeBody> {
        assert!(self.levels[usize::from(height)] > 0, "nodes are counted");
        assert!(child.buffer.bytes() == 0, "the messages for a node go with it");
        let link = child.link.take();
        self.levels[usize::from(height)] -= 1;
        let body = match (child.node.take(), &link) {
            (Some(node), _) => NodeBody::Inner(*node),
            (None, Some(link)) => self.load(cause, link, height)?,
            (None, None) => unreachable!("a child is in memory or on the disk"),
        };
        if let Some(link) = link {
            self.free(link.extent);
        }
        Ok(body)
    }

    /// Returns whether a node has too many children, in variants without weight balance.
    pub(super) fn is_large(&self, node: &InnerNode) -> bool {
        self.pieces(node) > 1
    }

    /// Returns the number of nodes that a node is split into.
    fn pieces(&self, node: &InnerNode) -> usize {
        match self.options.variant {
            AffineVariant::WeightBalanced => 1,
            AffineVariant::BTree => self.pivot_bytes(node).div_ceil(self.options.node_bytes as usize),
            _ => node.children.len().div_ceil(self.options.most_children()),
        }
    }

    /// Returns whether a node has too few children and must be merged with its neighbour.
    fn is_small(&self, node: &InnerNode) -> bool {
        match self.options.variant {
            AffineVariant::WeightBalanced => false,
            AffineVariant::BTree => {
                node.children.len() < 2 || self.pivot_bytes(node) < self.options.node_bytes as usize / 4
            }
            _ => node.children.len() < (self.options.most_children() / 4).max(2),
        }
    }

    /// Returns the size of a node's index in bytes. A B-tree node consists of its index only.
    fn pivot_bytes(&self, node: &InnerNode) -> usize {
        use super::format::{FRONT_PART, INDEX_HEAD, SEGMENT_HEAD};
        let parts = node.children.iter();
        let bytes: usize = parts
            .map(|child| FRONT_PART + SEGMENT_HEAD + child.from.len())
            .sum();
        INDEX_HEAD + bytes
    }

    /// Writes pairs as leaves of at most B bytes each, and returns the leaves.
    pub(super) fn write_leaves(
        &mut self,
        from: BoxedBytes,
        pairs: &[LeafPair],
        cause: RequestCause,
    ) -> Result<Vec<BufferedChild>> {
        let (node_bytes, total) = (self.options.node_bytes as usize, leaf_bytes(pairs));
        if total <= node_bytes {
            return Ok(vec![self.write_leaf_for(from, pairs, cause)?]);
        }
        // Pairs are indivisible, so a leaf may exceed its share by one pair.
        let count = total.div_ceil(node_bytes - self.options.pair_limit());
        let (mut made, mut rest, mut from) = (Vec::with_capacity(count), pairs, from);
        let mut before = 0;
        while !rest.is_empty() {
            let target = total * (made.len() + 1) / count;
            let end = rest.iter().position(|pair| {
                let is_full = before + pair.bytes() / 2 > target;
                before += if is_full { 0 } else { pair.bytes() };
                is_full
            });
            let (leaf, others) = rest.split_at(end.unwrap_or(rest.len()).max(1));
            made.push(self.write_leaf_for(from, leaf, cause)?);
            rest = others;
            from = rest.first().map(|pair| pair.key.clone()).unwrap_or_default();
        }
        Ok(made)
    }

    pub(super) fn write_leaf(&mut self, from: BoxedBytes, pairs: &[LeafPair]) -> Result<BufferedChild> {
        self.write_leaf_for(from, pairs, RequestCause::Flush)
    }

    pub(super) fn write_leaf_for(
        &mut self,
        from: BoxedBytes,
        pairs: &[LeafPair],
        cause: RequestCause,
    ) -> Result<BufferedChild> {
        debug_assert!(
            pairs.first().is_none_or(|pair| pair.key >= from),
            "pairs are the leaf's"
        );
        let link = self.store_leaf(cause, pairs)?;
        self.levels[0] += 1;
        Ok(BufferedChild::new(from, 1, Some(link), None))
    }

    /// Stores a node, in memory or on disk, split into as many pieces as necessary.
    pub(super) fn split_and_place(
        &mut self,
        from: BoxedBytes,
        mut node: InnerNode,
    ) -> Result<Vec<BufferedChild>> {
        let count = self.pieces(&node);
        let mut made = Vec::with_capacity(count);
        for left in (2..=count).rev() {
            let rest = node.children.split_off(node.children.len().div_ceil(left));
            let piece = std::mem::replace(&mut node.children, rest);
            let height = node.height;
            let from = if made.is_empty() {
                from.clone()
            } else {
                piece[0].from.clone()
            };
            made.push(self.place_node(
                from,
                InnerNode {
                    height,
                    children: piece,
                },
                RequestCause::Flush,
            )?);
        }
        let from = if made.is_empty() {
            from
        } else {
            node.children[0].from.clone()
        };
        made.push(self.place_node(from, node, RequestCause::Flush)?);
        Ok(made)
    }

    /// Keeps a node in memory if nodes at its height are resident, and writes it otherwise.
    pub(super) fn place_node(
        &mut self,
        from: BoxedBytes,
        mut node: InnerNode,
        cause: RequestCause,
    ) -> Result<BufferedChild> {
        let (weight, height) = (node.weight(), usize::from(node.height));
        assert!(weight > 0, "a node has leaves below it");
        if self.levels.len() <= height {
            self.levels.resize(height + 1, 0);
        }
        self.levels[height] += 1;
        let (link, node) = match node.height >= self.resident_height {
            true => (None, Some(Box::new(node))),
            false => {
                self.store_dirty(&mut node)?;
                (Some(self.store_inner(cause, &node)?), None)
            }
        };
        Ok(BufferedChild::new(from, weight, link, node))
    }
}
