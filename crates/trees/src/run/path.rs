//! A path from a run's root to one of its leaves. It can move to neighbouring leaves.

use super::index::{IndexChild, IndexLayout, LeafKeys};
use super::load::{LoadedNode, load};
use super::units::ValueUnits;
use super::{IndexedRun, MalformedNode};
use alluvium_base::Purpose;
use alluvium_storage::{EpochGuard, FrameRef, NodeCache, NodePointer, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// The leaf that a path should lead to.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathTarget<'k> {
    Start,
    End,
    /// The first leaf that may contain the key. If the key is below all keys of the run, the run's
    /// first leaf.
    First(&'k [u8]),
    /// The last leaf that may contain the key.
    Last(&'k [u8]),
    /// The last leaf that may contain a key below this key.
    Below(&'k [u8]),
}

/// An index node on a path. It stays readable after the guard under which it was read is dropped.
#[derive(Clone)]
enum PinnedIndexNode {
    Root(IndexedRun),
    Frame(FrameRef),
    Whole(Arc<[u8]>),
}

impl PinnedIndexNode {
    fn bytes(&self) -> &[u8] {
        match self {
            PinnedIndexNode::Root(run) => run.inner.root.as_ref().map_or(&[], |(_, root)| root),
            PinnedIndexNode::Frame(frame) => frame,
            PinnedIndexNode::Whole(bytes) => bytes,
        }
    }
}

#[derive(Clone)]
struct PathLevel {
    node: PinnedIndexNode,
    pointer: NodePointer,
    layout: IndexLayout,
    /// The index of the child through which the path continues.
    at: usize,
}

/// The path from a run's root to one of its leaves.
#[derive(Clone)]
pub(super) struct IndexPath {
    run: IndexedRun,
    levels: Vec<PathLevel>,
}

impl PathLevel {
    fn bytes(&self) -> &[u8] {
        self.node.bytes()
    }

    fn choose(&mut self, target: PathTarget<'_>) -> std::result::Result<bool, MalformedNode> {
        let (layout, bytes) = (&self.layout, self.node.bytes());
        let found = match target {
            PathTarget::Start => Some(0),
            PathTarget::End => Some(layout.children - 1),
            PathTarget::First(key) => Some(layout.child_for(bytes, key)?.unwrap_or(0)),
            PathTarget::Last(key) => layout.at_or_below(bytes, key)?.checked_sub(1),
            PathTarget::Below(key) => layout.below(bytes, key)?.checked_sub(1),
        };
        self.at = found.unwrap_or(0);
        debug_assert!(self.at < layout.children, "child {} of its node", self.at);
        Ok(found.is_some())
    }
}

impl IndexPath {
    /// Finds the path to `target`. Returns `None` if the run has no such leaf.
    pub(super) fn seek(
        run: &IndexedRun,
        target: PathTarget<'_>,
        cache: &NodeCache,
        guard: &EpochGuard,
        purpose: Purpose,
    ) -> Result<Option<IndexPath>> {
        let Some((layout, _)) = &run.inner.root else {
            return Ok(None);
        };
        let root = PathLevel {
            node: PinnedIndexNode::Root(run.clone()),
            pointer: run.inner.pointer,
            layout: layout.clone(),
            at: 0,
        };
        let mut path = IndexPath {
            run: run.clone(),
            levels: vec![root],
        };
        let there = path
            .top()
            .choose(target)
            .map_err(|bad| bad.at(&run.inner.pointer))?;
        if !there {
            return Ok(None);
        }
        let is_there = path.descend(target, cache, guard, purpose)?
            || match target {
                PathTarget::Start | PathTarget::First(_) => path.next(cache, guard, purpose)?,
                PathTarget::End | PathTarget::Last(_) | PathTarget::Below(_) => {
                    path.previous(cache, guard, purpose)?
                }
            };
        Ok(is_there.then_some(path))
    }

    /// Returns the approximate memory of the path in bytes, without the root, which belongs to the
    /// run.
    pub(super) fn memory_bytes(&self) -> usize {
        let node = |level: &PathLevel| match &level.node {
            PinnedIndexNode::Root(_) => size_of::<PathLevel>(),
            PinnedIndexNode::Frame(_) | PinnedIndexNode::Whole(_) => {
                size_of::<PathLevel>() + level.bytes().len()
            }
        };
        self.levels.iter().map(node).sum()
    }

    fn top(&mut self) -> &mut PathLevel {
        debug_assert!(!self.levels.is_empty(), "a path begins at its root");
        self.levels.last_mut().expect("a path begins at its root")
    }

    fn lowest(&self) -> &PathLevel {
        self.levels.last().expect("a path begins at its root")
    }

    /// Extends the path from its lowest index node down to a leaf. Returns whether it reached one.
    /// If a repair excludes the leaf or an index node above it, the path ends above the excluded
    /// node, and the result is `false`.
    fn descend(
        &mut self,
        target: PathTarget<'_>,
        cache: &NodeCache,
        guard: &EpochGuard,
        purpose: Purpose,
    ) -> Result<bool> {
        while self.lowest().layout.level > 1 {
            let wanted = self.lowest().layout.level - 1;
            let pointer = self.child()?.pointer;
            if self.omits_node(&pointer) {
                return Ok(false);
            }
            let bad = |bad: MalformedNode| bad.at(&pointer);
            let node = load(cache, guard, &pointer, purpose)?;
            let layout = IndexLayout::of(&node).map_err(bad)?;
            if layout.level != wanted {
                return Err(bad(MalformedNode("an index node of its level")));
            }
            let node = match node {
                LoadedNode::Cached(node) => PinnedIndexNode::Frame(node.retain()),
                LoadedNode::Whole(bytes) => PinnedIndexNode::Whole(bytes.into()),
            };
            debug_assert!(wanted > 0, "leaves are below level 1");
            self.levels.push(PathLevel {
                node,
                pointer,
                layout,
                at: 0,
            });
            if !self.top().choose(target).map_err(bad)? {
                return Err(bad(MalformedNode(
                    "a first separator no higher than in the node above",
                )));
            }
        }
        debug_assert!(self.lowest().layout.level <= 1, "a path ends above a leaf");
        Ok(self.run.left_out().is_none() || !self.omits_node(&self.child()?.pointer))
    }

    /// Returns whether a repair excludes this leaf or index node.
    fn omits_node(&self, node: &NodePointer) -> bool {
        self.run.left_out().is_some_and(|nodes| nodes.contains(node))
    }

    /// Returns the index entry of the leaf at the end of the path.
    pub(super) fn child(&self) -> Result<IndexChild> {
        let level = self.lowest();
        let child = level
            .layout
            .child(level.bytes(), level.at, self.run.inner.page_size);
        child.map_err(|bad| bad.at(&level.pointer))
    }

    /// Returns the allocation units that contain the leaf's separate values, or an empty list if it
    /// has none.
    pub(super) fn units(&self) -> Result<ValueUnits> {
        let level = self.lowest();
        let units = level.layout.units(level.bytes(), level.at);
        units.map_err(|bad| bad.at(&level.pointer))
    }

    /// Returns the leaf's first and last keys, or `None` if the index does not store them.
    pub(super) fn keys(&self) -> Result<Option<LeafKeys>> {
        let level = self.lowest();
        let keys = level.layout.keys(level.bytes(), level.at);
        keys.map_err(|bad| bad.at(&level.pointer))
    }

    /// Returns the separator of the leaf, which is stored in its parent.
    pub(super) fn separator(&self) -> Result<Vec<u8>> {
        let level = self.lowest();
        let separator = level.layout.separator(level.bytes(), level.at);
        separator.map_err(|bad| bad.at(&level.pointer))
    }

    /// Compares the leaf's separator with a key. Also returns whether the previous leaf contains
    /// newer records of the leaf's first key.
    pub(super) fn compare(&self, key: &[u8]) -> Result<(Ordering, bool)> {
        let level = self.lowest();
        let (bytes, bad) = (level.bytes(), |bad: MalformedNode| bad.at(&level.pointer));
        let order = level.layout.compare(bytes, level.at, key).map_err(bad)?;
        Ok((order, level.layout.is_begun(bytes, level.at).map_err(bad)?))
    }

    /// Moves the path to the next leaf. Returns `false` if there is none, in which case the path
    /// must not be used again.
    pub(super) fn next(&mut self, cache: &NodeCache, guard: &EpochGuard, purpose: Purpose) -> Result<bool> {
        let can = |level: &PathLevel| level.at + 1 < level.layout.children;
        while let Some(depth) = self.levels.iter().rposition(can) {
            self.levels.truncate(depth + 1);
            self.top().at += 1;
            debug_assert!(self.lowest().at < self.lowest().layout.children, "a next child");
            if self.descend(PathTarget::Start, cache, guard, purpose)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves the path to the previous leaf. Returns `false` if there is none, in which case the
    /// path must not be used again.
    pub(super) fn previous(
        &mut self,
        cache: &NodeCache,
        guard: &EpochGuard,
        purpose: Purpose,
    ) -> Result<bool> {
        while let Some(depth) = self.levels.iter().rposition(|level| level.at > 0) {
            self.levels.truncate(depth + 1);
            self.top().at -= 1;
            if self.descend(PathTarget::End, cache, guard, purpose)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
