//! Encoded references to routing tree lists, as stored in the contents of a structure.

use super::tree::{LevelTree, RoutingChild, RoutingNode};
use super::{HashLayout, ListHeader, RoutingList};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::Result;
use std::sync::Arc;

/// Encoded references to the lists of a level's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeName {
    /// Whether a rebuild of the part wrote the level's run.
    pub is_settled: bool,
    /// Length of the prefix at height 0, in bits.
    pub base_bits: u8,
    pub height: u8,
    pub root: NodeName,
}

/// Encoded references to a node's lists and all lists below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeName {
    /// Pointer to the description of the node's list, if it has one.
    pub node: Option<ValuePointer>,
    /// Pointer to the description of the node's digest, if it has one.
    pub digest: Option<ValuePointer>,
    /// The children of the node, oldest first.
    pub children: Vec<ChildName>,
}

/// Encoded references to the lists of a node's child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildName {
    /// A run, with a pointer to the description of its digest if it has one.
    Leaf(Option<ValuePointer>),
    Node(NodeName),
}

/// A reference to a list, with the header that the list must have.
#[derive(Clone, Debug)]
pub(in crate::hashed) struct ListName {
    pub(in crate::hashed) pointer: ValuePointer,
    pub(in crate::hashed) head: ListHeader,
    /// The runs below the list, each as its index in the level and the index of the child that
    /// contains it.
    pub(in crate::hashed) runs: Vec<(usize, usize)>,
    /// Whether the list becomes unusable if any run below it is lost.
    pub(in crate::hashed) needs_all: bool,
}

/// Callback that opens a list, given its pointer and the header that it must have. Returns `None`
/// to drop the list.
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

    /// Appends references to the node's lists and all lists below it. `first` is the index, in the
    /// level, of the first run below the node.
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
                // A node's list at height 1 refers to runs by index.
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

    /// Opens the tree's lists by calling `open` for each. `open` may also drop a list.
    pub(in crate::hashed) fn open(
        &self,
        skipped_bits: u8,
        character_bits: u8,
        open: &mut ListOpener<'_>,
    ) -> Result<RoutingNode> {
        self.root
            .open(self.cut(skipped_bits, character_bits), self.height, open)
    }

    /// Returns references to all lists of the tree.
    pub(in crate::hashed) fn lists(&self, skipped_bits: u8, character_bits: u8) -> Vec<ListName> {
        let mut all = Vec::new();
        let cut = self.cut(skipped_bits, character_bits);
        self.root.lists(cut, self.height, 0, &mut all);
        all
    }
}
