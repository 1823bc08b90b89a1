//! Trees as the contents of a structure name them.

use super::tree::{Child, Planted, Tree};
use super::{Cut, Head, List};
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::Result;
use std::sync::Arc;

/// The tree of a level as the contents name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeName {
    /// It is of the run that a rebuild has made.
    pub is_settled: bool,
    /// Bits of prefixes before the characters of a height.
    pub base_bits: u8,
    /// Its height.
    pub height: u8,
    /// Its root.
    pub root: NodeName,
}

/// A node as the contents name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeName {
    /// Where the description of its list is, if it has one.
    pub node: Option<ValuePointer>,
    /// Where the description of its digest is, if it has one.
    pub digest: Option<ValuePointer>,
    /// The oldest first.
    pub children: Vec<ChildName>,
}

/// A child as the contents name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildName {
    /// A run, and where the description of its digest is.
    Leaf(Option<ValuePointer>),
    /// A node.
    Node(NodeName),
}

/// A list that is named, with what it should be.
#[derive(Clone, Debug)]
pub(in crate::hashed) struct ListName {
    pub(in crate::hashed) pointer: ValuePointer,
    pub(in crate::hashed) head: Head,
    /// The runs below it, by their numbers in the level, each with the child that it is below.
    pub(in crate::hashed) runs: Vec<(usize, usize)>,
    /// It goes with the first of them that does.
    pub(in crate::hashed) needs_all: bool,
}

/// Decides what becomes of a list that is named.
pub(in crate::hashed) type Opening<'o> = dyn FnMut(&ValuePointer, Head) -> Result<Option<List>> + 'o;

fn pointer(list: &Option<List>) -> Option<ValuePointer> {
    list.as_ref().map(|list| *list.pointer())
}

impl NodeName {
    fn of(tree: &Tree) -> NodeName {
        let child = |child: &Child| match child {
            Child::Leaf(digest) => ChildName::Leaf(pointer(digest)),
            Child::Node(tree) => ChildName::Node(NodeName::of(tree)),
        };
        NodeName {
            node: pointer(&tree.node),
            digest: pointer(&tree.digest),
            children: tree.children.iter().map(child).collect(),
        }
    }

    /// Returns how many runs are below.
    #[must_use]
    pub fn leaves(&self) -> usize {
        let leaves = |child: &ChildName| match child {
            ChildName::Leaf(_) => 1,
            ChildName::Node(node) => node.leaves(),
        };
        self.children.iter().map(leaves).sum()
    }

    fn head(&self, cut: Cut, height: u8) -> Head {
        Head {
            cut,
            height,
            children: self.children.len() as u16,
        }
    }

    fn open(&self, cut: Cut, height: u8, open: &mut Opening<'_>) -> Result<Tree> {
        let head = self.head(cut, height);
        let digest = Head { children: 0, ..head };
        let mut opened = |pointer: &Option<ValuePointer>, head| match pointer {
            Some(pointer) => open(pointer, head),
            None => Ok(None),
        };
        let (node, own) = (opened(&self.node, head)?, opened(&self.digest, digest)?);
        let mut children = Vec::new();
        for child in &self.children {
            children.push(match child {
                ChildName::Leaf(pointer) => Child::Leaf(opened(pointer, Head { height: 0, ..digest })?),
                ChildName::Node(node) => {
                    Child::Node(Arc::new(node.open(cut, height - 1, &mut |pointer, head| {
                        opened(&Some(*pointer), head)
                    })?))
                }
            });
        }
        Ok(Tree {
            digest: own,
            ..Tree::new(cut, height, node, children)
        })
    }

    /// Appends its lists and those below. `first` is the number of its first run.
    fn lists(&self, cut: Cut, height: u8, first: usize, all: &mut Vec<ListName>) {
        let (mut runs, mut next) = (Vec::new(), first);
        for (number, child) in self.children.iter().enumerate() {
            let leaves = match child {
                ChildName::Leaf(digest) => {
                    all.extend(digest.map(|pointer| ListName {
                        pointer,
                        head: Head {
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
        let heads = [(self.node, head), (self.digest, Head { children: 0, ..head })];
        for (pointer, head) in heads {
            all.extend(pointer.map(|pointer| ListName {
                pointer,
                head,
                runs: runs.clone(),
                // It knows runs by their numbers.
                needs_all: head.is_node() && height == 1,
            }));
        }
    }
}

impl TreeName {
    pub(in crate::hashed) fn of(planted: &Planted) -> TreeName {
        let root = &planted.root;
        TreeName {
            is_settled: planted.is_settled,
            base_bits: root.cut.base_bits,
            height: root.height,
            root: NodeName::of(root),
        }
    }

    fn cut(&self, skipped_bits: u8, character_bits: u8) -> Cut {
        Cut {
            skipped_bits,
            base_bits: self.base_bits,
            character_bits,
        }
    }

    /// Opens the lists of the tree: `open` decides what becomes of each.
    pub(in crate::hashed) fn open(
        &self,
        skipped_bits: u8,
        character_bits: u8,
        open: &mut Opening<'_>,
    ) -> Result<Tree> {
        self.root
            .open(self.cut(skipped_bits, character_bits), self.height, open)
    }

    /// Returns its lists.
    pub(in crate::hashed) fn lists(&self, skipped_bits: u8, character_bits: u8) -> Vec<ListName> {
        let mut all = Vec::new();
        let cut = self.cut(skipped_bits, character_bits);
        self.root.lists(cut, self.height, 0, &mut all);
        all
    }
}
