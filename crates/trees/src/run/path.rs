//! A path from the root down to a leaf, which can move to neighbouring leaves.

use super::index::{Child, Layout, LeafKeys};
use super::load::{Loaded, load};
use super::units::ValueUnits;
use super::{Bad, Run};
use alluvium_base::Purpose;
use alluvium_storage::{Cache, FrameRef, Guard, NodePointer, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// The target of a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'k> {
    /// The first leaf.
    Start,
    /// The last leaf.
    End,
    /// The first leaf that may hold a key, or the first leaf of the run if the key is below all
    /// keys.
    First(&'k [u8]),
    /// The last leaf that may hold a key.
    Last(&'k [u8]),
    /// The last leaf that may hold keys below this one.
    Below(&'k [u8]),
}

/// An index node that outlives a guard.
#[derive(Clone)]
enum Held {
    Root(Run),
    Frame(FrameRef),
    Whole(Arc<[u8]>),
}

impl Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Held::Root(run) => run.inner.root.as_ref().map_or(&[], |(_, root)| root),
            Held::Frame(frame) => frame,
            Held::Whole(bytes) => bytes,
        }
    }
}

#[derive(Clone)]
struct Level {
    node: Held,
    pointer: NodePointer,
    layout: Layout,
    /// The index of the child on the path.
    at: usize,
}

/// A position at a leaf of a run, from the root down.
#[derive(Clone)]
pub(super) struct Path {
    run: Run,
    levels: Vec<Level>,
}

impl Level {
    fn bytes(&self) -> &[u8] {
        self.node.bytes()
    }

    fn choose(&mut self, target: Target<'_>) -> std::result::Result<bool, Bad> {
        let (layout, bytes) = (&self.layout, self.node.bytes());
        let found = match target {
            Target::Start => Some(0),
            Target::End => Some(layout.children - 1),
            Target::First(key) => Some(layout.child_for(bytes, key)?.unwrap_or(0)),
            Target::Last(key) => layout.at_or_below(bytes, key)?.checked_sub(1),
            Target::Below(key) => layout.below(bytes, key)?.checked_sub(1),
        };
        self.at = found.unwrap_or(0);
        debug_assert!(self.at < layout.children, "child {} of its node", self.at);
        Ok(found.is_some())
    }
}

impl Path {
    /// Returns the path to a target, or `None` if there is no such leaf.
    pub(super) fn seek(
        run: &Run,
        target: Target<'_>,
        cache: &Cache,
        guard: &Guard,
        purpose: Purpose,
    ) -> Result<Option<Path>> {
        let Some((layout, _)) = &run.inner.root else {
            return Ok(None);
        };
        let root = Level {
            node: Held::Root(run.clone()),
            pointer: run.inner.pointer,
            layout: layout.clone(),
            at: 0,
        };
        let mut path = Path {
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
                Target::Start | Target::First(_) => path.next(cache, guard, purpose)?,
                Target::End | Target::Last(_) | Target::Below(_) => path.previous(cache, guard, purpose)?,
            };
        Ok(is_there.then_some(path))
    }

    /// Returns the approximate memory in bytes, without the run's root.
    pub(super) fn memory_bytes(&self) -> usize {
        let node = |level: &Level| match &level.node {
            Held::Root(_) => size_of::<Level>(),
            Held::Frame(_) | Held::Whole(_) => size_of::<Level>() + level.bytes().len(),
        };
        self.levels.iter().map(node).sum()
    }

    fn top(&mut self) -> &mut Level {
        debug_assert!(!self.levels.is_empty(), "a path begins at its root");
        self.levels.last_mut().expect("a path begins at its root")
    }

    fn lowest(&self) -> &Level {
        self.levels.last().expect("a path begins at its root")
    }

    /// Descends from the lowest present node to the level above the leaves. Returns whether it
    /// reached a leaf that is not omitted by a repair; otherwise the path ends above the omitted
    /// node.
    fn descend(
        &mut self,
        target: Target<'_>,
        cache: &Cache,
        guard: &Guard,
        purpose: Purpose,
    ) -> Result<bool> {
        while self.lowest().layout.level > 1 {
            let wanted = self.lowest().layout.level - 1;
            let pointer = self.child()?.pointer;
            if self.leaves_out(&pointer) {
                return Ok(false);
            }
            let bad = |bad: Bad| bad.at(&pointer);
            let node = load(cache, guard, &pointer, purpose)?;
            let layout = Layout::of(&node).map_err(bad)?;
            if layout.level != wanted {
                return Err(bad(Bad("an index node of its level")));
            }
            let node = match node {
                Loaded::Cached(node) => Held::Frame(node.retain()),
                Loaded::Whole(bytes) => Held::Whole(bytes.into()),
            };
            debug_assert!(wanted > 0, "leaves are below level 1");
            self.levels.push(Level {
                node,
                pointer,
                layout,
                at: 0,
            });
            if !self.top().choose(target).map_err(bad)? {
                return Err(bad(Bad("a first separator no higher than in the node above")));
            }
        }
        debug_assert!(self.lowest().layout.level <= 1, "a path ends above a leaf");
        Ok(self.run.left_out().is_none() || !self.leaves_out(&self.child()?.pointer))
    }

    /// Returns whether a repair omits a leaf or an index node with its subtree.
    fn leaves_out(&self, node: &NodePointer) -> bool {
        self.run.left_out().is_some_and(|nodes| nodes.contains(node))
    }

    /// Returns the index entry of the leaf.
    pub(super) fn child(&self) -> Result<Child> {
        let level = self.lowest();
        let child = level
            .layout
            .child(level.bytes(), level.at, self.run.inner.page_size);
        child.map_err(|bad| bad.at(&level.pointer))
    }

    /// Returns the units that hold the leaf's separate values, if it has any.
    pub(super) fn units(&self) -> Result<ValueUnits> {
        let level = self.lowest();
        let units = level.layout.units(level.bytes(), level.at);
        units.map_err(|bad| bad.at(&level.pointer))
    }

    /// Returns the leaf's first and last key, if the index stores them.
    pub(super) fn keys(&self) -> Result<Option<LeafKeys>> {
        let level = self.lowest();
        let keys = level.layout.keys(level.bytes(), level.at);
        keys.map_err(|bad| bad.at(&level.pointer))
    }

    /// Returns the leaf's separator.
    pub(super) fn separator(&self) -> Result<Vec<u8>> {
        let level = self.lowest();
        let separator = level.layout.separator(level.bytes(), level.at);
        separator.map_err(|bad| bad.at(&level.pointer))
    }

    /// Compares the leaf's separator with a key. Also returns whether the previous leaf has newer
    /// records of the leaf's first key.
    pub(super) fn compare(&self, key: &[u8]) -> Result<(Ordering, bool)> {
        let level = self.lowest();
        let (bytes, bad) = (level.bytes(), |bad: Bad| bad.at(&level.pointer));
        let order = level.layout.compare(bytes, level.at, key).map_err(bad)?;
        Ok((order, level.layout.is_begun(bytes, level.at).map_err(bad)?))
    }

    /// Moves to the next leaf. Returns `false`, without a position, if there is none.
    pub(super) fn next(&mut self, cache: &Cache, guard: &Guard, purpose: Purpose) -> Result<bool> {
        let can = |level: &Level| level.at + 1 < level.layout.children;
        while let Some(depth) = self.levels.iter().rposition(can) {
            self.levels.truncate(depth + 1);
            self.top().at += 1;
            debug_assert!(self.lowest().at < self.lowest().layout.children, "a next child");
            if self.descend(Target::Start, cache, guard, purpose)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to the previous leaf. Returns `false`, without a position, if there is none.
    pub(super) fn previous(&mut self, cache: &Cache, guard: &Guard, purpose: Purpose) -> Result<bool> {
        while let Some(depth) = self.levels.iter().rposition(|level| level.at > 0) {
            self.levels.truncate(depth + 1);
            self.top().at -= 1;
            if self.descend(Target::End, cache, guard, purpose)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
