//! Trees as represented in the contents of a structure.

use super::tree::{LevelTree, RoutingChild, RoutingNode};
use super::{HashLayout, ListHeader, RoutingList};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::Result;
use std::sync::Arc;

/// The tree of a level in the contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeName {
    /// Whether its run was written by a rebuild.
    pub is_settled: bool,
    /// Bits of a prefix before the characters of its height.
    pub base_bits: u8,
    pub height: u8,
    pub root: NodeName,
}

/// A node in the contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeName {
    /// Pointer to the description of its list, if it has one.
    pub node: Option<ValuePointer>,
    /// Pointer to the description of its digest, if it has one.
    pub digest: Option<ValuePointer>,
    /// Children, oldest first.
    pub children: Vec<ChildName>,
}

/// A child in the contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildName {
    /// A run, with the pointer to the description of its digest.
    Leaf(Option<ValuePointer>),
    Node(NodeName),
}

/// A list in the contents, with its expected kind.
#[derive(Clone, Debug)]
pub(in crate::hashed) struct ListName {
    pub(in crate::hashed) pointer: ValuePointer,
    pub(in crate::hashed) head: ListHeader,
    /// Indexes of the runs below it in the level, each with the child that contains it.
    pub(in crate::hashed) runs: Vec<(usize, usize)>,
    /// Whether it is useless if one of these runs is lost.
    pub(in crate::hashed) needs_all: bool,
}

/// Opens or drops a list in the contents.
pub(in crate::hashed) type ListOpener<'o> =
    dyn FnMut(&ValuePointer, ListHeader) -> Result<Option<RoutingList>> + 'o;

fn pointer(list: &Option<RoutingList>) -> Option<ValuePointer> {
    list.as_ref().map(|list| *list.pointer())
}

impl NodeName {
    fn of(tree: &RoutingNode) -> NodeName {
        let child = |child: &RoutingChild| match child {
            RoutingChild::Leaf(digest) => ChildName::Leaf(pointer(digest)),
            RoutingChild::Node(tree) => ChildName::Node(NodeName::of(tree)),
        };
        NodeName {
            node: pointer(&tree.node),
            digest: pointer(&tree.digest),
            children: tree.children.iter().map(child).collect(),
        }
    }

    /// Returns the number of runs below the node.
    #[must_use]
    pub fn leaves(&self) -> usize {
        let leaves = |child: &ChildName| match child {
            ChildName::Leaf(_) => 1,
            ChildName::Node(node) => node.leaves(),
        };
        self.children.iter().map(leaves).sum()
    }

    fn head(&self, cut: HashLayout, height: u8) -> ListHeader {
        ListHeader {
            cut,
            height,
            children: self.children.len() as u16,
        }
    }

    fn open(&self, cut: HashLayout, height: u8, open: &mut ListOpener<'_>) -> Result<RoutingNode> {
        let head = self.head(cut, height);
        let digest = ListHeader { children: 0, ..head };
        let mut opened = |pointer: &Option<ValuePointer>, head| match pointer {
            Some(pointer) => open(pointer, head),
            None => Ok(None),
        };
        let (node, own) = (opened(&self.node, head)?, opened(&self.digest, digest)?);
        let mut children = Vec::new();
        for child in &self.children {
            children.push(match child {
                ChildName::Leaf(pointer) => {
                    RoutingChild::Leaf(opened(pointer, ListHeader { height: 0, ..digest })?)
                }
                ChildName::Node(node) => {
                    RoutingChild::Node(Arc::new(node.open(cut, height - 1, &mut |pointer, head| {
                        opened(&Some(*pointer), head)
                    })?))
                }
            });
        }
        Ok(RoutingNode {
            digest: own,
            ..RoutingNode::new(cut, height, node, children)
        })
    }

    /// Appends the lists of the node and of those below. `first` is the index of its first run.
    fn lists(&self, cut: HashLayout, height: u8, first: usize, all: &mut Vec<ListName>) {
        let (mut runs, mut next) = (Vec::new(), first);
        for (number, child) in self.children.iter().enumerate() {
            let leaves = match child {
                ChildName::Leaf(digest) => {
                    all.extend(digest.map(|pointer| ListName {
                        pointer,
                        head: ListHeader {
                            cut,
                            height: 0,
                            children: 0,
                        },
                        runs: vec![(next, 0)],
                        needs_all: true,
                    }));
                    1
                }
                ChildName::Node(node) => {
                    node.lists(cut, height - 1, next, all);
                    node.leaves()
                }
            };
            runs.extend((next..next + leaves).map(|run| (run, number)));
            next += leaves;
        }
        let head = self.head(cut, height);
        let heads = [
            (self.node, head),
            (self.digest, ListHeader { children: 0, ..head }),
        ];
        for (pointer, head) in heads {
            all.extend(pointer.map(|pointer| ListName {
                pointer,
                head,
                runs: runs.clone(),
                // The list refers to runs by their numbers.
                needs_all: head.is_node() && height == 1,
            }));
        }
    }
}

impl TreeName {
    pub(in crate::hashed) fn of(planted: &LevelTree) -> TreeName {
        let root = &planted.root;
        TreeName {
            is_settled: planted.is_settled,
            base_bits: root.cut.base_bits,
            height: root.height,
            root: NodeName::of(root),
        }
    }

    fn cut(&self, skipped_bits: u8, character_bits: u8) -> HashLayout {
        HashLayout {
            skipped_bits,
            base_bits: self.base_bits,
            character_bits,
        }
    }

    /// Opens the lists of the tree; `open` opens or drops each.
    pub(in crate::hashed) fn open(
        &self,
        skipped_bits: u8,
        character_bits: u8,
        open: &mut ListOpener<'_>,
    ) -> Result<RoutingNode> {
        self.root
            .open(self.cut(skipped_bits, character_bits), self.height, open)
    }

    /// Returns the lists of the tree.
    pub(in crate::hashed) fn lists(&self, skipped_bits: u8, character_bits: u8) -> Vec<ListName> {
        let mut all = Vec::new();
        let cut = self.cut(skipped_bits, character_bits);
        self.root.lists(cut, self.height, 0, &mut all);
        all
    }
}
