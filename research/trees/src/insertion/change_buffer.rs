//! The buffer: an in-memory B-tree whose nodes store the size of their subtrees.

/// A change to a key: a new value, or `None` for a delete.
pub(super) type BufferedChange = (Box<[u8]>, Option<Box<[u8]>>);

/// The maximum number of entries in a node. InnoDB's pages of 16 KiB hold about as many rows.
const NODE: usize = 128;

/// Buffered changes in key order.
#[derive(Debug)]
pub(super) struct ChangeBuffer {
    root: ChangeNode,
    len: usize,
}

#[derive(Debug)]
enum ChangeNode {
    Leaf(Vec<BufferedChange>),
    Inner(Vec<ChangeSubtree>),
}

/// A child, with keys greater than or equal to `least`.
#[derive(Debug)]
struct ChangeSubtree {
    least: Box<[u8]>,
    len: usize,
    node: ChangeNode,
}

impl Default for ChangeBuffer {
    fn default() -> ChangeBuffer {
        ChangeBuffer {
            root: ChangeNode::Leaf(Vec::new()),
            len: 0,
        }
    }
}

impl ChangeBuffer {
    /// Returns the number of buffered changes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a change, replacing one for the same key. Returns whether the key is new.
    pub(super) fn put(&mut self, key: &[u8], value: Option<Box<[u8]>>) -> bool {
        let (is_new, split) = self.root.put(key, value);
        self.len += usize::from(is_new);
        if let Some(right) = split {
            let left = std::mem::replace(&mut self.root, ChangeNode::Leaf(Vec::new()));
            let left = ChangeSubtree {
                least: Box::default(),
                len: self.len - right.len,
                node: left,
            };
            self.root = ChangeNode::Inner(vec![left, right]);
        }
        debug_assert_eq!(self.root.len(), self.len, "nodes know how much is below them");
        is_new
    }

    /// Returns the buffered change for a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<&BufferedChange> {
        let mut node = &self.root;
        loop {
            match node {
                ChangeNode::Inner(children) => node = &children[child_of(children, key)].node,
                ChangeNode::Leaf(changes) => {
                    let at = changes.binary_search_by(|(found, _)| (**found).cmp(key));
                    return at.ok().map(|at| &changes[at]);
                }
            }
        }
    }

    /// Returns the key with a given rank; rank 0 is the smallest key.
    pub(super) fn nth(&self, mut rank: usize) -> &[u8] {
        assert!(rank < self.len, "{rank} of {}", self.len);
        let mut node = &self.root;
        loop {
            match node {
                ChangeNode::Leaf(changes) => return &changes[rank].0,
                ChangeNode::Inner(children) => {
                    let mut children = children.iter();
                    node = loop {
                        let child = children.next().expect("the children have as many");
                        match rank.checked_sub(child.len) {
                            Some(left) => rank = left,
                            None => break &child.node,
                        }
                    };
                }
            }
        }
    }

    /// Walks from the root to a key. `draw` returns a number below its argument.
    pub(super) fn walk(&self, mut draw: impl FnMut(usize) -> usize) -> &[u8] {
        assert!(self.len > 0, "a walk ends at a key");
        let mut node = &self.root;
        loop {
            match node {
                ChangeNode::Leaf(changes) => return &changes[draw(changes.len())].0,
                ChangeNode::Inner(children) => node = &children[draw(children.len())].node,
            }
        }
    }

    /// Returns the first key greater than or equal to the given key.
    pub(super) fn at_or_after(&self, key: &[u8]) -> Option<&[u8]> {
        self.root.at_or_after(key)
    }

    /// Returns the changes for a range of keys.
    pub(super) fn range(&self, from: &[u8], end: Option<&[u8]>) -> Vec<BufferedChange> {
        let mut found = Vec::new();
        self.root.range(from, end, &mut found);
        debug_assert!(
            found.is_sorted_by(|one, next| one.0 < next.0),
            "in order, each once"
        );
        found
    }

    /// Removes and returns the changes for a range of keys.
    pub(super) fn take(&mut self, from: &[u8], end: Option<&[u8]>) -> usize {
        let taken = self.root.take(from, end);
        self.len -= taken;
        // A root with one child is replaced by the child.
        while let ChangeNode::Inner(children) = &mut self.root {
            match children.len() {
                0 => self.root = ChangeNode::Leaf(Vec::new()),
                1 => self.root = children.remove(0).node,
                _ => break,
            }
        }
        assert_eq!(self.root.len(), self.len, "nodes know how much is below them");
        taken
    }
}

/// Returns the child that covers a key.
fn child_of(children: &[ChangeSubtree], key: &[u8]) -> usize {
    debug_assert!(!children.is_empty(), "a node has children");
    children
        .partition_point(|child| *child.least <= *key)
        .saturating_sub(1)
}

fn is_before(key: &[u8], end: Option<&[u8]>) -> bool {
    end.is_none_or(|end| key < end)
}

impl ChangeNode {
    fn len(&self) -> usize {
        match self {
            ChangeNode::Leaf(changes) => changes.len(),
            ChangeNode::Inner(children) => children.iter().map(|child| child.len).sum(),
        }
    }

    /// The number of entries in the node itself.
    fn entries(&self) -> usize {
        match self {
            ChangeNode::Leaf(changes) => changes.len(),
            ChangeNode::Inner(children) => children.len(),
        }
    }

    /// Adds a change. Returns whether its key is new, and the right half if the node was split.
    fn put(&mut self, key: &[u8], value: Option<Box<[u8]>>) -> (bool, Option<ChangeSubtree>) {
        let is_new = match self {
            ChangeNode::Leaf(changes) => match changes.binary_search_by(|(found, _)| (**found).cmp(key)) {
                Ok(at) => {
                    changes[at].1 = value;
                    false
                }
                Err(at) => {
                    changes.insert(at, (key.into(), value));
                    true
                }
            },
            ChangeNode::Inner(children) => {
                let at = child_of(children, key);
                if *key < *children[at].least {
                    children[at].least = key.into();
                }
                let (is_new, split) = children[at].node.put(key, value);
                children[at].len += usize::from(is_new);
                if let Some(right) = split {
                    children[at].len -= right.len;
                    children.insert(at + 1, right);
                }
                is_new
            }
        };
        (is_new, (self.entries() > NODE).then(|| self.split()))
    }

    /// Splits off the right half.
    fn split(&mut self) -> ChangeSubtree {
        let half = self.entries() / 2;
        let (least, node) = match self {
            ChangeNode::Leaf(changes) => {
                let right = changes.split_off(half);
                (right[0].0.clone(), ChangeNode::Leaf(right))
            }
            ChangeNode::Inner(children) => {
                let right = children.split_off(half);
                (right[0].least.clone(), ChangeNode::Inner(right))
            }
        };
        let len = node.len();
        assert!(len > 0, "a half has something");
        ChangeSubtree { least, len, node }
    }

    fn at_or_after(&self, key: &[u8]) -> Option<&[u8]> {
        match self {
            ChangeNode::Leaf(changes) => {
                let at = changes.partition_point(|(found, _)| **found < *key);
                changes.get(at).map(|(found, _)| &**found)
            }
            ChangeNode::Inner(children) => children[child_of(children, key)..]
                .iter()
                .find_map(|child| child.node.at_or_after(key)),
        }
    }

    fn range(&self, from: &[u8], end: Option<&[u8]>, found: &mut Vec<BufferedChange>) {
        match self {
            ChangeNode::Leaf(changes) => {
                let start = changes.partition_point(|(key, _)| **key < *from);
                let wanted = changes[start..].iter().take_while(|(key, _)| is_before(key, end));
                found.extend(wanted.cloned());
            }
            ChangeNode::Inner(children) => {
                for child in &children[child_of(children, from)..] {
                    if !is_before(&child.least, end) {
                        break;
                    }
                    child.node.range(from, end, found);
                }
            }
        }
    }

    /// Removes changes, and merges adjacent nodes that have become small. Returns the number
    /// removed.
    fn take(&mut self, from: &[u8], end: Option<&[u8]>) -> usize {
        match self {
            ChangeNode::Leaf(changes) => {
                let start = changes.partition_point(|(key, _)| **key < *from);
                let stop = changes.partition_point(|(key, _)| is_before(key, end));
                changes.drain(start..stop.max(start)).count()
            }
            ChangeNode::Inner(children) => {
                let start = child_of(children, from);
                let mut taken = 0;
                for child in &mut children[start..] {
                    if !is_before(&child.least, end) {
                        break;
                    }
                    let here = child.node.take(from, end);
                    child.len -= here;
                    taken += here;
                }
                children.retain(|child| child.len > 0);
                merge_small(children, start);
                taken
            }
        }
    }
}

/// Merges adjacent children around an index while two of them together fill at most half a node.
fn merge_small(children: &mut Vec<ChangeSubtree>, around: usize) {
    let mut at = around.saturating_sub(1);
    while at + 1 < children.len() && at <= around + 1 {
        if children[at].node.entries() + children[at + 1].node.entries() > NODE / 2 {
            at += 1;
            continue;
        }
        let right = children.remove(at + 1);
        let left = &mut children[at];
        left.len += right.len;
        match (&mut left.node, right.node) {
            (ChangeNode::Leaf(into), ChangeNode::Leaf(from)) => into.extend(from),
            (ChangeNode::Inner(into), ChangeNode::Inner(from)) => into.extend(from),
            _ => unreachable!("children of a node are alike"),
        }
    }
    debug_assert!(children.iter().all(|child| child.len > 0), "no child is empty");
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_model::SplitMix64;
    use std::collections::BTreeMap;

    #[test]
    fn the_buffer_is_an_ordered_map_that_counts() {
        let mut random = SplitMix64::from_seed(1);
        let (mut waiting, mut plain) = (ChangeBuffer::default(), BTreeMap::new());
        let key = |random: &mut SplitMix64| (random.below(40_000) as u16).to_be_bytes();
        for round in 0..60_000 {
            let (one, other) = (key(&mut random), key(&mut random));
            // Mostly puts, and occasional range removals: the buffer grows to several levels,
            // then shrinks.
            if random.below(if round < 40_000 { 400 } else { 40 }) > 0 {
                let value = Some(one.as_slice().into()).filter(|_| random.below(3) > 0);
                assert_eq!(
                    waiting.put(&one, value.clone()),
                    plain.insert(one, value).is_none()
                );
            } else {
                // Often from the start: the first child of a node goes, and lower keys come.
                let start = if random.below(2) == 0 { [0, 0] } else { other };
                let (from, end) = (one.min(start), one.max(start));
                let wanted: Vec<_> = plain.range(from..end).map(|(key, _)| *key).collect();
                let found: Vec<BufferedChange> = waiting.range(&from, Some(&end));
                assert!(
                    found
                        .iter()
                        .map(|(key, _)| &**key)
                        .eq(wanted.iter().map(|key| &key[..]))
                );
                assert_eq!(waiting.take(&from, Some(&end)), wanted.len());
                wanted.iter().for_each(|key| drop(plain.remove(key)));
            }
            assert_eq!(waiting.len(), plain.len());
            let found = waiting.get(&other).map(|(_, value)| value);
            assert_eq!(found, plain.get(&other));
            let next = plain.range(other..).next().map(|(key, _)| &key[..]);
            assert_eq!(waiting.at_or_after(&other), next);
            if round % 50 == 0 && !plain.is_empty() {
                let rank = random.below(plain.len());
                assert_eq!(waiting.nth(rank), plain.keys().nth(rank).unwrap());
                assert!(plain.contains_key(waiting.walk(|count| random.below(count))));
            }
        }
        let all = waiting.take(&[], None);
        assert_eq!(
            (all, waiting.len(), waiting.at_or_after(&[])),
            (plain.len(), 0, None)
        );
    }

    #[test]
    fn a_walk_is_even_over_children_not_over_keys() {
        let mut waiting = ChangeBuffer::default();
        for key in 0..20_000_u32 {
            waiting.put(&key.to_be_bytes(), None);
        }
        let mut random = SplitMix64::from_seed(2);
        let mut below = 0;
        for _ in 0..20_000 {
            below += usize::from(waiting.walk(|count| random.below(count)) < &10_000_u32.to_be_bytes()[..]);
        }
        let share = below as f64 / 20_000.0;
        assert!(
            (0.35..0.65).contains(&share),
            "nearly even, as nodes are alike: {share}"
        );
    }
}
