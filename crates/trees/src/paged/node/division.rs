//! Adaptive nodes: each node divides its space between pivots and messages in its own way (thesis,
//! section 8.2).
//!
//! A node that has a buffer stores n, its maximum number of pivots; the rest of its page is for
//! messages. The smallest n results from ε = ½, and the largest n leaves space for half as many
//! messages as the smallest. The buffers of any two nodes therefore differ in size by at most a
//! factor of two. This has two consequences: a block of half a buffer fits into every buffer, and
//! the counting argument for splits holds for each node with its own n.

use super::format::{
    HEADER, NodeArray, PageContentKind, child_at, kind, level, own_pivots, set_first_child, set_head,
    set_own_pivots, table_bytes,
};
use super::layout::{CHILD, NodeShape, TreeSizes};
use alluvium_storage::Result;

/// The minimum and maximum number of pivots that a node may have space for. Both are odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PivotBounds {
    pub least: usize,
    pub most: usize,
}

/// How a tree's nodes divide their space between pivots and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EpsilonMode {
    /// All nodes use the tree's ε.
    #[default]
    Fixed,
    /// Each node follows its own counts of lookups and messages.
    Adaptive,
}

/// The two arrays of a node with a buffer: its pivots and its messages.
pub(super) type BufferedNodeArrays = (NodeArray, NodeArray);

/// ε in hundredths for the smallest number of pivots. The second constant is the ε of new nodes.
const LEAST_EPSILON: u32 = 50;
const FIRST_EPSILON: u32 = 60;
const _: () = assert!(LEAST_EPSILON <= FIRST_EPSILON, "nodes begin between the bounds");

impl NodeShape {
    /// Returns how many messages fit into a node with space for `n` pivots.
    pub(in crate::paged) fn messages_beside(&self, n: usize) -> usize {
        let pivot = table_bytes(1, self.key_limit, CHILD);
        let message = table_bytes(1, self.key_limit, self.value_limit);
        let left = self
            .content_bytes
            .saturating_sub(HEADER + n.saturating_mul(pivot));
        (left / message).min(self.pairs.capacity())
    }

    /// Computes the layout of a tree with adaptive nodes.
    ///
    /// # Errors
    /// The errors of [`NodeShape::new`].
    pub fn adaptive(content_bytes: usize, sizes: TreeSizes) -> Result<NodeShape> {
        let of = |epsilon_percent| {
            let sizes = TreeSizes {
                epsilon_percent,
                ..sizes
            };
            NodeShape::new(content_bytes, sizes)
        };
        let n = of(FIRST_EPSILON)?.pivots.capacity();
        let bounds = of(LEAST_EPSILON)?.bounds();
        let n = n.min(bounds.most);
        let b = of(LEAST_EPSILON)?.messages_beside(n);
        NodeShape::of(content_bytes, sizes.key_limit, sizes.value_limit, n, b)?.divided_by_nodes()
    }

    /// Returns the bounds for adaptive nodes. The number of pivots in this layout must be the
    /// minimum.
    fn bounds(&self) -> PivotBounds {
        let least = self.pivots.capacity();
        let half = self.messages_beside(least).div_ceil(2).max(1);
        let mut most = least;
        while self.messages_beside(most + 2) >= half {
            most += 2;
        }
        assert!(least % 2 == 1 && most % 2 == 1, "numbers of pivots are odd (PN4)");
        PivotBounds { least, most }
    }

    /// Returns this layout, but with adaptive nodes.
    ///
    /// # Errors
    /// The errors of [`NodeShape::new`].
    pub fn divided_by_nodes(self) -> Result<NodeShape> {
        let sizes = TreeSizes {
            key_limit: self.key_limit,
            value_limit: self.value_limit,
            epsilon_percent: LEAST_EPSILON,
        };
        let bounds = NodeShape::new(self.content_bytes, sizes)?.bounds();
        Ok(NodeShape {
            own: Some(bounds),
            ..self
        })
    }

    /// Returns the arrays of a node that has space for `n` pivots. Returns `None` if `n` is even or
    /// outside the bounds.
    pub(super) fn divided(&self, n: usize) -> Option<BufferedNodeArrays> {
        let bounds = self.own?;
        if n.is_multiple_of(2) || n < bounds.least || n > bounds.most {
            return None;
        }
        let pivots = NodeArray::primary(n, self.key_limit, CHILD);
        let b = self.messages_beside(n);
        let buffer = NodeArray::secondary(b, self.key_limit, self.value_limit, pivots.end());
        debug_assert!(
            b > 0 && buffer.end() <= self.content_bytes,
            "a node fits into its page (PN4)"
        );
        Some((pivots, buffer))
    }

    /// Returns both arrays of a node with a buffer.
    pub(super) fn arrays_of(&self, node: &[u8]) -> BufferedNodeArrays {
        match own_pivots(node) {
            0 => (self.pivots, self.buffer),
            n => self.divided(n).unwrap_or((self.pivots, self.buffer)),
        }
    }

    /// Returns the message array of a node with a buffer.
    #[must_use]
    pub fn buffer_of(&self, node: &[u8]) -> NodeArray {
        self.arrays_of(node).1
    }

    /// Returns the maximum number of messages in a block: as many as fit into the smallest buffer
    /// (PE2).
    #[must_use]
    pub fn most_moved(&self) -> usize {
        match self.own {
            None => self.buffer.capacity(),
            Some(bounds) => self.messages_beside(bounds.most),
        }
    }

    /// Returns the number of pivots closest to `wanted` that the node may have space for. With that
    /// number, the node's content must still fit, and the node must be able to flush without being
    /// split first (PE3).
    #[must_use]
    pub fn nearest(&self, node: &[u8], wanted: usize) -> usize {
        let (pivots, buffer) = self.arrays_of(node);
        let (now, len, messages) = (pivots.capacity(), pivots.len(node), buffer.len(node));
        let Some(bounds) = self.own else {
            return now;
        };
        let wanted = wanted.clamp(bounds.least, bounds.most) | 1;
        if wanted < now {
            let least = len + (len + 1).div_ceil(2);
            return now.min(wanted.max(least | 1));
        }
        let mut n = wanted;
        while n > now && self.messages_beside(n) < messages {
            n -= 2;
        }
        n
    }

    /// Redivides a node's space to make space for `n` pivots. The node's content is preserved and
    /// must fit.
    pub(in crate::paged) fn divide_node(&self, node: &mut [u8], n: usize) {
        let (pivots, buffer) = self.arrays_of(node);
        let divided = self.divided(n);
        assert!(
            kind(node) == Some(PageContentKind::Buffered) && divided.is_some(),
            "a node with a buffer may have {n} pivots"
        );
        let Some((new_pivots, new_buffer)) = divided.filter(|of| *of != (pivots, buffer)) else {
            return;
        };
        assert!(
            pivots.len(node) <= n && buffer.len(node) <= new_buffer.capacity(),
            "what the node holds fits"
        );
        let old = node.to_vec();
        set_head(node, PageContentKind::Buffered, level(&old));
        set_own_pivots(node, n);
        set_first_child(node, child_at(&pivots, &old, 0));
        for (from, to) in [(&pivots, &new_pivots), (&buffer, &new_buffer)] {
            for at in 0..from.len(&old) {
                to.insert(
                    node,
                    at,
                    from.key(&old, at),
                    from.value(&old, at),
                    from.tag(&old, at),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::add_pivot;
    use super::super::message::MessageAction;
    use super::*;

    fn sizes(key_limit: usize, value_limit: usize) -> TreeSizes {
        TreeSizes {
            key_limit,
            value_limit,
            epsilon_percent: 0,
        }
    }

    #[test]
    fn bounds_leave_half_of_the_messages() {
        let shape = NodeShape::adaptive((16 << 10) - 40, sizes(8, 100)).unwrap();
        assert_eq!(shape.own, Some(PivotBounds { least: 7, most: 267 }));
        let of = |n| shape.divided(n).unwrap().1.capacity();
        assert_eq!((of(7), of(267), shape.most_moved()), (130, 65, 65));
        for (page, key, value) in [(512, 8, 8), (512, 16, 40), (4096, 64, 128), (65536, 69, 128)] {
            let shape = NodeShape::adaptive(page - 40, sizes(key, value)).unwrap();
            let bounds = shape.own.unwrap();
            for n in (bounds.least..=bounds.most).step_by(2) {
                let (pivots, buffer) = shape.divided(n).unwrap();
                assert!(pivots.capacity() == n && buffer.end() <= page - 40);
                assert!(
                    buffer.capacity() >= shape.most_moved() && buffer.capacity() <= shape.pairs.capacity()
                );
            }
            assert!(shape.divided(bounds.most + 2).is_none() && shape.divided(bounds.least + 1).is_none());
            assert!(shape.divided(bounds.least - 2).is_none());
        }
        assert!(NodeShape::adaptive(472, sizes(8, 120)).is_err());
    }

    #[test]
    fn a_node_keeps_what_it_holds_however_it_is_divided() {
        let shape = NodeShape::adaptive(2008, sizes(8, 8)).unwrap();
        let bounds = shape.own.unwrap();
        let mut rng = fastrand::Rng::with_seed(5);
        let mut node = vec![0; shape.content_bytes];
        set_head(&mut node, PageContentKind::Buffered, 2);
        set_first_child(&mut node, 50);
        assert_eq!(shape.pivots_of(&node), shape.pivots, "zero is the first division");
        for at in 0..5u8 {
            add_pivot(&shape, &mut node, &[at * 40 + 40], u64::from(at));
        }
        for at in 0..20u8 {
            let buffer = shape.buffer_of(&node);
            buffer.insert(
                &mut node,
                usize::from(at),
                &[at * 9],
                &[at; 3],
                MessageAction::of(at % 3 + 1),
            );
        }
        let all = |node: &[u8]| {
            let (pivots, buffer) = shape.arrays_of(node);
            let messages: Vec<_> = (0..buffer.len(node))
                .map(|at| {
                    (
                        buffer.key(node, at).to_vec(),
                        buffer.action(node, at),
                        buffer.value(node, at).to_vec(),
                    )
                })
                .collect();
            let children: Vec<u64> = (0..=pivots.len(node))
                .map(|at| child_at(&pivots, node, at))
                .collect();
            let keys: Vec<Vec<u8>> = (0..pivots.len(node))
                .map(|at| pivots.key(node, at).to_vec())
                .collect();
            (messages, children, keys)
        };
        let before = all(&node);
        for _ in 0..200 {
            let n = shape.nearest(&node, rng.usize(..=2 * bounds.most));
            assert!((9..=bounds.most).contains(&n), "{n}");
            shape.divide_node(&mut node, n);
            assert_eq!(shape.pivots_of(&node).capacity(), n);
            assert_eq!((shape.validate(&node), all(&node)), (Ok(()), before.clone()));
        }
        for wrong in [2, bounds.least - 2, bounds.least + 1, bounds.most + 2, 65_535] {
            set_own_pivots(&mut node, wrong);
            assert!(
                shape.validate(&node).unwrap_err().contains("none may have"),
                "{wrong}"
            );
        }
        set_own_pivots(&mut node, bounds.most);
        let fixed = NodeShape::new(2008, sizes(8, 8)).unwrap();
        assert!(fixed.validate(&node).unwrap_err().contains("none may have"));
    }
}
