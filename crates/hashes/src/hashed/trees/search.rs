//! Search in a tree, from the newest leaf that may contain a hash to the oldest.
//!
//! A node yields all entries with the hash's prefix. In a root, entries whose check character
//! matches the hash are alive. In a lower node, the entries that continue like the hash correspond
//! one to one, in the same order, to the parent's entries for this node (V2). Such an entry is
//! alive if the parent's entry is alive and its own check character matches. The parent passes down
//! dead entries as well, because otherwise the lists would not align.

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
    /// Number of children not visited yet, which are the oldest ones.
    left: usize,
    /// Entries of the hash, each as a child and whether it is alive. `None` if the node was
    /// dropped.
    entries: Option<Vec<(usize, bool)>>,
}

impl SearchFrame {
    /// Returns the newest unvisited child that may contain the hash.
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

    /// Returns the flags of the entries of a child.
    fn flags(&self, child: usize) -> Option<Vec<bool>> {
        let entries = self.entries.as_ref()?.iter();
        let of_child = entries.filter(|(of, _)| *of == child);
        Some(of_child.map(|(_, is_alive)| *is_alive).collect())
    }
}

/// Position of a search. Valid only with one tree and one hash.
#[derive(Debug, Default)]
pub(in crate::hashed) struct TreeDescent {
    /// Search path, from the root down.
    frames: Vec<SearchFrame>,
    is_begun: bool,
    /// Number of nodes whose lists were read.
    nodes: u32,
}

impl TreeDescent {
    /// Returns the number of lists read.
    #[cfg(test)]
    pub(in crate::hashed) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Returns the index of the next leaf that may contain the hash; `None` after the last. Pending
    /// if a page is missing.
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

    /// Returns the current tree, and the index of its first leaf.
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

    /// Reads the entries of a node.
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

/// Returns the entries of a node with their flags; `None` if their number differs from that of the
/// parent's entries.
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
            // Entries with a different next character do not belong to the parent's prefix.
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

    /// Encodes an entry of a child with its next and its check character.
    fn entry(child: u64, next: u64, check: u64) -> u64 {
        child << 4 | next << 2 | check
    }

    #[test]
    fn entries_that_are_not_alive_keep_lists_aligned() {
        let cut = HashLayout::of_leaf(0, 2, 100);
        // At height 2, the check character is the second from the end: 1. The next character is 3.
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
