//! Range queries: leaves in key order, with their pending messages applied.
//!
//! A node costs one read for each of its segments in the range; a leaf costs one read for its
//! sub-blocks in the range. Variants that read whole nodes read each node once.

use super::counters::RequestCause;
use super::error::Result;
use super::format::decode_pairs;
use super::node::{BufferedChild, InnerNode, NodeLink, TreeMessage, apply_messages, merge_messages};
use super::space::NodeSpace;
use super::tree::AffineTree;
use std::ops::ControlFlow;

/// The visitor of pairs, which determines whether the scan continues.
pub type PairVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The range and the visitor.
struct RangeScan<'a, 'v> {
    from: &'a [u8],
    to: Option<&'a [u8]>,
    visit: &'a mut PairVisitor<'v>,
}

impl RangeScan<'_, '_> {
    /// Returns whether the range may contain keys from `first` up to `next`, exclusive.
    fn overlaps_range(&self, first: &[u8], next: Option<&[u8]>) -> bool {
        self.to.is_none_or(|to| first < to) && next.is_none_or(|next| next > self.from)
    }

    fn has(&self, key: &[u8]) -> bool {
        key >= self.from && self.to.is_none_or(|to| key < to)
    }
}

impl<S: NodeSpace> AffineTree<S> {
    /// Visits the pairs from one key up to another, exclusive, in key order, until the visitor
    /// breaks.
    ///
    /// ```
    /// use research_trees::affine::{AffineOptions, AffineTree, MemorySpace};
    /// use alluvium_trees::paged::node::ReplaceOperator;
    /// use std::ops::ControlFlow;
    /// use std::sync::Arc;
    /// let space = MemorySpace::new(1 << 24);
    /// let mut tree = AffineTree::create(space, AffineOptions::default(), Arc::new(ReplaceOperator))?;
    /// for river in ["Elbe", "Oder", "Rhine"] {
    ///     tree.insert(river.as_bytes(), b"")?;
    /// }
    /// let mut found = 0;
    /// tree.scan(b"F", None, &mut |_, _| {
    ///     found += 1;
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(found, 2);
    /// # Ok::<(), research_trees::affine::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`AffineTree::get`].
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>, visit: &mut PairVisitor<'_>) -> Result<()> {
        self.ensure_usable()?;
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let mut walk = RangeScan { from, to, visit };
        self.scan_node(&mut walk, &self.root, Vec::new(), None).map(drop)
    }

    /// Visits the pairs below a node in memory. `younger` contains the messages of the nodes
    /// above.
    fn scan_node(
        &self,
        walk: &mut RangeScan<'_, '_>,
        node: &InnerNode,
        younger: Vec<TreeMessage>,
        end: Option<&[u8]>,
    ) -> Result<ControlFlow<()>> {
        debug_assert!(
            node.height > 0 && !node.children.is_empty(),
            "a node has children"
        );
        let mut younger = younger;
        for (at, child) in node.children.iter().enumerate() {
            let next = node.children.get(at + 1).map(|next| &*next.from).or(end);
            let mine = split_before(&mut younger, next);
            if walk.overlaps_range(&child.from, next)
                && self
                    .scan_child(walk, child, mine, node.height - 1, next)?
                    .is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn scan_child(
        &self,
        walk: &mut RangeScan<'_, '_>,
        child: &BufferedChild,
        younger: Vec<TreeMessage>,
        height: u8,
        end: Option<&[u8]>,
    ) -> Result<ControlFlow<()>> {
        let older = child.buffer.messages().to_vec();
        let messages = merge_messages(&*self.operator, older, younger);
        match (&child.node, &child.link) {
            (Some(node), _) => self.scan_node(walk, node, messages, end),
            (None, Some(link)) if height == 0 => self.scan_leaf(walk, link, messages, end),
            (None, Some(link)) => self.scan_stored(walk, link, messages, height, end),
            (None, None) => unreachable!("a child is in memory or on the disk"),
        }
    }

    /// Visits the pairs below a node on the disk.
    fn scan_stored(
        &self,
        walk: &mut RangeScan<'_, '_>,
        link: &NodeLink,
        younger: Vec<TreeMessage>,
        height: u8,
        end: Option<&[u8]>,
    ) -> Result<ControlFlow<()>> {
        if self.options.variant.reads_whole_nodes() {
            let body = self.load(RequestCause::Query, link, height)?;
            let super::node::NodeBody::Inner(node) = body else {
                unreachable!("what is read above height 0 has children");
            };
            return self.scan_node(walk, &node, younger, end);
        }
        let (index, base) = self.read_index(link, height)?;
        let mut younger = younger;
        for (at, part) in index.parts.iter().enumerate() {
            let next = index.parts.get(at + 1).map(|next| &*next.from).or(end);
            let mine = split_before(&mut younger, next);
            if !walk.overlaps_range(&part.from, next) {
                continue;
            }
            let pieces = self.read_parts(&index, base, at..=at)?;
            let child = self.child_of(&pieces[0], height, self.indexes())?;
            if self.scan_child(walk, &child, mine, height - 1, next)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn scan_leaf(
        &self,
        walk: &mut RangeScan<'_, '_>,
        link: &NodeLink,
        messages: Vec<TreeMessage>,
        end: Option<&[u8]>,
    ) -> Result<ControlFlow<()>> {
        let pieces = if self.options.variant.reads_whole_nodes() {
            self.read_whole(RequestCause::Query, link, 0, self.indexes())?.1
        } else {
            let (index, base) = self.read_index(link, 0)?;
            let first = index.find(walk.from);
            let last = match walk.to.filter(|&to| end.is_none_or(|end| to < end)) {
                Some(to) => index.find(to),
                None => index.parts.len() - 1,
            };
            self.read_parts(&index, base, first..=last.max(first))?
        };
        let mut pairs = Vec::new();
        for piece in &pieces {
            decode_pairs(&piece.bytes, piece.at, &mut pairs)?;
        }
        for pair in apply_messages(&*self.operator, pairs, messages) {
            if walk.has(&pair.key) && (walk.visit)(&pair.key, &pair.value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Removes the messages for keys before `next` from the front.
fn split_before(messages: &mut Vec<TreeMessage>, next: Option<&[u8]>) -> Vec<TreeMessage> {
    let count = next.map_or(messages.len(), |next| {
        messages.partition_point(|message| *message.key < *next)
    });
    let rest = messages.split_off(count);
    std::mem::replace(messages, rest)
}
