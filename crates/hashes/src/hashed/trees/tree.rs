//! Routing trees in memory: the lists of each node, and the runs of the level as leaves.

use super::{HashLayout, RoutingList};
use crate::hashed::state::LevelRun;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::Result;
use std::sync::Arc;

/// A child of a node: a leaf or another node.
#[derive(Clone, Debug)]
pub(in crate::hashed) enum RoutingChild {
    /// A run and its digest. The digest is dropped once its hashes have been rewritten to the
    /// digest of a tree above the run.
    Leaf(Option<RoutingList>),
    Node(Arc<RoutingNode>),
}

impl RoutingChild {
    pub(in crate::hashed) fn leaves(&self) -> usize {
        match self {
            RoutingChild::Leaf(_) => 1,
            RoutingChild::Node(tree) => tree.leaves,
        }
    }
}

fn keep(
    list: &Option<RoutingList>,
    keeps: &mut dyn FnMut(&RoutingList) -> Result<bool>,
) -> Result<Option<RoutingList>> {
    match list {
        Some(list) if keeps(list)? => Ok(Some(list.clone())),
        _ => Ok(None),
    }
}

/// A node and everything below it. The leaves are consecutive runs of a level, oldest first.
#[derive(Clone, Debug)]
pub(in crate::hashed) struct RoutingNode {
    pub(in crate::hashed) cut: HashLayout,
    pub(in crate::hashed) height: u8,
    /// The node's list. `None` if it could not be read, in which case searches visit all children.
    pub(in crate::hashed) node: Option<RoutingList>,
    /// The digest of all leaves below the node, if the hashes were rewritten for this node.
    pub(in crate::hashed) digest: Option<RoutingList>,
    /// The children of the node, oldest first.
    pub(in crate::hashed) children: Vec<RoutingChild>,
    pub(in crate::hashed) leaves: usize,
}

impl RoutingNode {
    pub(in crate::hashed) fn new(
        cut: HashLayout,
        height: u8,
        node: Option<RoutingList>,
        children: Vec<RoutingChild>,
    ) -> RoutingNode {
        RoutingNode {
            cut,
            height,
            node,
            digest: None,
            leaves: children.iter().map(RoutingChild::leaves).sum(),
            children,
        }
    }

    /// Passes every list of the tree to `visit`.
    pub(in crate::hashed) fn each_list<'t>(&'t self, visit: &mut dyn FnMut(&'t RoutingList)) {
        self.node.iter().chain(&self.digest).for_each(&mut *visit);
        for child in &self.children {
            match child {
                RoutingChild::Leaf(digest) => digest.iter().for_each(&mut *visit),
                RoutingChild::Node(tree) => tree.each_list(visit),
            }
        }
    }

    /// Returns the tree without the lists for which `keeps` returns false.
    fn filtered(&self, keeps: &mut dyn FnMut(&RoutingList) -> Result<bool>) -> Result<RoutingNode> {
        let (node, digest) = (keep(&self.node, keeps)?, keep(&self.digest, keeps)?);
        let mut children = Vec::with_capacity(self.children.len());
        for child in &self.children {
            children.push(match child {
                RoutingChild::Leaf(digest) => RoutingChild::Leaf(keep(digest, keeps)?),
                RoutingChild::Node(tree) => RoutingChild::Node(Arc::new(tree.filtered(keeps)?)),
            });
        }
        Ok(RoutingNode {
            node,
            digest,
            children,
            ..*self
        })
    }

    /// Returns the tree without the lists that cannot be read, and their number.
    pub(in crate::hashed) fn readable(&self, files: DataFiles<'_>) -> Result<(RoutingNode, u64)> {
        let mut left = 0;
        let tree = self.filtered(&mut |list| {
            let is_readable = list.is_readable(files)?;
            left += u64::from(!is_readable);
            Ok(is_readable)
        })?;
        Ok((tree, left))
    }

    /// Returns the tree without its digests, which are useless once a new digest above them has all
    /// of their hashes.
    pub(super) fn without_digests(&self) -> RoutingNode {
        let all = self.filtered(&mut |list| Ok(list.head().is_node()));
        all.expect("nothing is read")
    }

    /// Returns the tree without a leaf whose run is lost. Drops the list of the leaf's parent,
    /// because it refers to children by index. Higher lists may keep entries for lost hashes (V4).
    pub(in crate::hashed) fn without_leaf(&self, leaf: usize) -> RoutingNode {
        assert!(leaf < self.leaves, "a leaf of the tree");
        let (mut changed, mut first) = (self.clone(), 0);
        changed.leaves -= 1;
        for (number, child) in self.children.iter().enumerate() {
            let end = first + child.leaves();
            if leaf < end {
                match child {
                    RoutingChild::Leaf(_) => {
                        changed.children.remove(number);
                        changed.node = None;
                    }
                    RoutingChild::Node(tree) => {
                        changed.children[number] =
                            RoutingChild::Node(Arc::new(tree.without_leaf(leaf - first)));
                    }
                }
                break;
            }
            first = end;
        }
        changed
    }

    /// Returns the digests at a lower height, oldest first, or `None` if one is missing or there
    /// are none.
    pub(super) fn digests(&self, height: u8) -> Option<Vec<RoutingList>> {
        if self.height == height {
            return self.digest.clone().map(|digest| vec![digest]);
        }
        let mut all = Vec::new();
        for child in &self.children {
            match child {
                RoutingChild::Leaf(digest) => all.push(digest.clone()?),
                RoutingChild::Node(tree) => all.extend(tree.digests(height)?),
            }
        }
        // A tree that has lost all of its runs has no hashes to pass up.
        (!all.is_empty()).then_some(all)
    }

    /// Returns how many entries of the node's list probably belong to superseded records.
    pub(in crate::hashed) fn hidden(&self) -> u64 {
        self.node.as_ref().map_or(0, RoutingList::hidden)
    }
}

/// The routing tree of a level.
#[derive(Clone, Debug)]
pub(in crate::hashed) struct LevelTree {
    pub(in crate::hashed) root: RoutingNode,
    /// Whether a rebuild of the part wrote the level's run. The tree then accepts no more leaves.
    pub(in crate::hashed) is_settled: bool,
    /// Indexes, in the level, of the runs that have range deletes, ascending.
    pub(in crate::hashed) deleting: Box<[usize]>,
}

impl LevelTree {
    pub(in crate::hashed) fn new(root: RoutingNode, is_settled: bool, runs: &[LevelRun]) -> LevelTree {
        assert_eq!(root.leaves, runs.len(), "each run of a level is a leaf (V1)");
        let numbered = runs.iter().enumerate();
        let deleting = numbered.filter(|(_, run)| !run.run.range_deletes().is_empty());
        LevelTree {
            root,
            is_settled,
            deleting: deleting.map(|(number, _)| number).collect(),
        }
    }
}
