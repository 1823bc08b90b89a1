//! Searches a routing tree for the leaves that may contain a hash, from newest to oldest.
//!
//! In each node, the search reads all entries whose prefix matches the hash. In the root, an entry
//! is *alive* if its check digit also matches. In a lower node, the entries whose next digit
//! matches as well correspond one to one, in the same order, to those of the parent's entries that
//! refer to this node (V2). Such an entry is alive if the corresponding entry of the parent is
//! alive and its own check digit matches. The parent must therefore pass down entries that are not
//! alive as well, or the two lists would not align.

use super::HashLayout;
use super::tree::{RoutingChild, RoutingNode};
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_storage::{Error, Result};
use std::task::{Poll, ready};

/// A node on the search path.
#[derive(Debug)]
struct SearchFrame {
    /// Index of the node among its parent's children.
    number: usize,
    /// Number of children that have not been visited, which are the oldest ones.
    left: usize,
    /// The node's entries whose prefix matches the hash: for each, the child and whether the entry
    /// is alive. `None` if the node was dropped, in which case all children are visited.
    entries: Option<Vec<(usize, bool)>>,
}

impl SearchFrame {
    /// Returns the newest unvisited child that may contain the hash, if there is one.
    fn next(&self) -> Option<usize> {
        match &self.entries {
            None => self.left.checked_sub(1),
            Some(entries) => {
                let alive = entries
                    .iter()
                    .filter(|(child, is_alive)| *is_alive && *child < self.left);
                alive.map(|(child, _)| *child).max()
            }
        }
    }

    /// Returns whether each entry that refers to a child is alive, or `None` if the node was
    /// dropped.
    fn flags(&self, child: usize) -> Option<Vec<bool>> {
        let entries = self.entries.as_ref()?.iter();
        let of_child = entries.filter(|(of, _)| *of == child);
        Some(of_child.map(|(_, is_alive)| *is_alive).collect())
    }
}

/// Position of a search, at which it continues after waiting for a page. Valid only for one tree
/// and one hash.
#[derive(Debug, Default)]
pub(in crate::hashed) struct TreeDescent {
    /// The nodes on the search path, starting at the root.
    frames: Vec<SearchFrame>,
    is_begun: bool,
    /// Number of nodes whose lists have been read.
    nodes: u32,
}

impl TreeDescent {
    /// Returns the number of nodes whose lists have been read.
    #[cfg(test)]
    pub(in crate::hashed) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Returns the index, in the level, of the next leaf that may contain the hash, or `None` if
    /// there are no more. Pending if a page must be read from the device first.
    pub(in crate::hashed) fn next<F: NodeFetch>(
        &mut self,
        root: &RoutingNode,
        hash: u64,
        fetch: &F,
    ) -> Poll<Result<Option<usize>>> {
        if !self.is_begun {
            let frame = ready!(self.enter(root, 0, None, hash, fetch))?;
            self.frames.push(frame);
            self.is_begun = true;
        }
        loop {
            let Some((tree, first)) = self.place(root) else {
                return Poll::Ready(Ok(None));
            };
            let frame = self.frames.last().expect("it has a place");
            let Some(number) = frame.next() else {
                self.frames.pop();
                continue;
            };
            let before = tree.children.iter().take(number).map(RoutingChild::leaves);
            let leaf = first + before.sum::<usize>();
            let below = match tree.children.get(number) {
                None => return Poll::Ready(Err(no_child(tree, number))),
                Some(RoutingChild::Leaf(_)) => None,
                Some(RoutingChild::Node(below)) => {
                    let flags = frame.flags(number);
                    Some(ready!(self.enter(below, number, flags.as_deref(), hash, fetch))?)
                }
            };
            let frame = self.frames.last_mut().expect("it has a place");
            frame.left = number;
            match below {
                None => return Poll::Ready(Ok(Some(leaf))),
                Some(below) => self.frames.push(below),
            }
        }
    }

    /// Returns the tree at the end of the search path, and the index of its first leaf in the
    /// level.
    fn place<'t>(&self, root: &'t RoutingNode) -> Option<(&'t RoutingNode, usize)> {
        let (mut tree, mut first) = (root, 0);
        let (_, below) = self.frames.split_first()?;
        for frame in below {
            let before = tree.children.iter().take(frame.number).map(RoutingChild::leaves);
            first += before.sum::<usize>();
            let Some(RoutingChild::Node(child)) = tree.children.get(frame.number) else {
                unreachable!("a search goes down to nodes")
            };
            tree = child;
        }
        Some((tree, first))
    }

    /// Reads the matching entries of a node and returns its frame.
    fn enter<F: NodeFetch>(
        &mut self,
        tree: &RoutingNode,
        number: usize,
        parent: Option<&[bool]>,
        hash: u64,
        fetch: &F,
    ) -> Poll<Result<SearchFrame>> {
        let Some(node) = &tree.node else {
            return Poll::Ready(Ok(SearchFrame {
                number,
                left: tree.children.len(),
                entries: None,
            }));
        };
        let prefix = tree.cut.prefix(hash, tree.height);
        let payloads = ready!(node.payloads(prefix, fetch))?;
        self.nodes += 1;
        let Some(entries) = alive(tree.cut, tree.height, hash, &payloads, parent) else {
            let parent = parent.map_or(0, <[bool]>::len);
            let expected = format!("as many entries of a prefix as its parent's {parent} (V2)");
            return Poll::Ready(Err(Error::corrupt(node.place(), expected, "another number")));
        };
        Poll::Ready(Ok(SearchFrame {
            number,
            left: tree.children.len(),
            entries: Some(entries),
        }))
    }
}

/// Returns the matching entries of a node: for each, the child and whether the entry is alive.
/// Returns `None` if they do not correspond to the parent's entries because their numbers differ.
fn alive(
    cut: HashLayout,
    height: u8,
    hash: u64,
    payloads: &[u64],
    parent: Option<&[bool]>,
) -> Option<Vec<(usize, bool)>> {
    let (mask, bits) = (u64::from(cut.lambda() - 1), cut.character_bits);
    let (check, next) = (cut.check(hash, height), cut.next(hash, height));
    let mut flags = parent.map(<[bool]>::iter);
    let mut entries = Vec::with_capacity(payloads.len());
    for &payload in payloads {
        let is_checked = payload & mask == u64::from(check);
        let is_alive = match &mut flags {
            None => is_checked,
            // An entry with a different next digit has no counterpart in the parent.
            Some(_) if payload >> bits & mask != u64::from(next) => false,
            Some(flags) => *flags.next()? && is_checked,
        };
        entries.push(((payload >> (2 * bits)) as usize, is_alive));
    }
    match flags.is_none_or(|mut flags| flags.next().is_none()) {
        true => Some(entries),
        false => None,
    }
}

#[cold]
fn no_child(tree: &RoutingNode, number: usize) -> Error {
    let place = tree.node.as_ref().expect("it names children").place();
    let expected = format!("a child of {}", tree.children.len());
    Error::corrupt(place, expected, format!("child {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes the payload of an entry from a child, a next digit and a check digit.
    fn entry(child: u64, next: u64, check: u64) -> u64 {
        child << 4 | next << 2 | check
    }

    #[test]
    fn entries_that_are_not_alive_keep_lists_aligned() {
        let cut = HashLayout::of_leaf(0, 2, 100);
        // At height 2, the check digit is the second digit from the end, which is 1, and the next
        // digit is 3.
        let hash = u64::from(0b11u8) << (62 - cut.prefix_bits(2)) | 0b0110;
        assert_eq!((cut.check(hash, 2), cut.next(hash, 2)), (1, 3));
        let list = [entry(0, 3, 1), entry(0, 1, 1), entry(1, 3, 0), entry(2, 3, 1)];
        let of_root = alive(cut, 2, hash, &list, None).unwrap();
        assert_eq!(of_root, [(0, true), (0, true), (1, false), (2, true)]);
        let of_inner = alive(cut, 2, hash, &list, Some(&[false, true, true])).unwrap();
        assert_eq!(of_inner, [(0, false), (0, false), (1, false), (2, true)]);
        assert_eq!(alive(cut, 2, hash, &list, Some(&[true, true])), None, "too few");
        assert_eq!(alive(cut, 2, hash, &list, Some(&[true; 4])), None, "too many");
    }
}
