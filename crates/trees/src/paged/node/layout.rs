//! How a page's space is divided between pivots and messages (thesis, section 5.4).

use super::division::PivotBounds;
use super::format::{HEADER, NodeArray, table_bytes};
use crate::paged::error::{key_too_long, value_too_long};
use alluvium_storage::{Error, Result};

/// Minimum number of pairs that a leaf must have space for.
const LEAST_PAIRS: usize = 4;
/// Size of a child's page number in bytes.
pub(super) const CHILD: usize = 8;
const _: () = assert!(LEAST_PAIRS >= 2, "a leaf can be split");

/// Returns a node's maximum numbers of pivots and messages, n and b. `bytes` is the space that
/// remains after one message and three pivots. n = 3 + ⌊bytes^ε / pivot⌋, reduced to an odd number,
/// and b = 1 + ⌊(bytes − bytes^ε) / message⌋.
///
/// An odd n ensures that a single split always makes enough space for a flush. A flush moves
/// messages to at most ⌈(n + 1) / 2⌉ children, and each of them may split and add a pivot to the
/// node. After a split, each half of the node has at least ⌈n / 2⌉ free pivots, which is the same
/// number if n is odd.
///
/// ```
/// use alluvium_trees::paged::node::divide;
/// // The thesis's default: pages of 16 KiB, ε = 0.8, keys of 8 bytes, values of 100.
/// assert_eq!(divide(16_180, 80, 16, 128), (147, 109));
/// ```
#[must_use]
pub fn divide(bytes: usize, epsilon_percent: u32, pivot: usize, message: usize) -> (usize, usize) {
    assert!(
        pivot > 0 && message > 0 && epsilon_percent <= 100,
        "sizes are positive, ε is at most 1"
    );
    let for_pivots = (bytes as f64)
        .powf(f64::from(epsilon_percent) / 100.0)
        .min(bytes as f64);
    let pivots = 3 + (for_pivots / pivot as f64) as usize;
    let messages = 1 + ((bytes as f64 - for_pivots) / message as f64) as usize;
    let odd = pivots - usize::from(pivots.is_multiple_of(2));
    (odd, messages)
}

/// The limits that a tree is created with. They are stored with the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeSizes {
    /// Maximum length of a key in bytes.
    pub key_limit: usize,
    /// Maximum length of a value in bytes.
    pub value_limit: usize,
    /// ε in hundredths, which determines how much of a node's space is for pivots. With 0, messages
    /// have as much space as possible. With 100, the tree behaves like a B⁺-tree.
    pub epsilon_percent: u32,
}

/// The positions and capacities of the arrays in each kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// Number of bytes in a page that are available for a node.
    pub content_bytes: usize,
    /// Maximum length of a key in bytes.
    pub key_limit: usize,
    /// Maximum length of a value in bytes.
    pub value_limit: usize,
    /// The array of key-value pairs in a leaf. Its capacity is called s.
    pub pairs: NodeArray,
    /// The array of pivots in an inner node without a buffer.
    pub wide: NodeArray,
    /// The array of pivots in an inner node with a buffer. Its capacity is called n.
    pub pivots: NodeArray,
    /// The array of messages in an inner node with a buffer. Its capacity is called b.
    pub buffer: NodeArray,
    /// The bounds of n if each node has its own n, or `None` if all nodes have the same n. With
    /// bounds, the fields `pivots` and `buffer` describe new nodes.
    pub own: Option<PivotBounds>,
}

impl NodeShape {
    /// Computes the node layout for pages that offer `content_bytes` bytes to a node.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the limits are so large that a page has no space for four pairs, or
    /// for one message and three pivots.
    pub fn new(content_bytes: usize, sizes: TreeSizes) -> Result<NodeShape> {
        let TreeSizes {
            key_limit,
            value_limit,
            epsilon_percent,
        } = sizes;
        if epsilon_percent > 100 {
            let why = format!("{epsilon_percent} is over 100");
            return Err(Error::BadOption {
                option: "epsilon_percent",
                why,
            });
        }
        if key_limit == 0 || key_limit > content_bytes || value_limit > content_bytes {
            return Err(Self::too_large(content_bytes, key_limit, value_limit));
        }
        let pivot = table_bytes(1, key_limit, CHILD);
        let message = table_bytes(1, key_limit, value_limit);
        let least = HEADER + message + 3 * pivot;
        let Some(left) = content_bytes.checked_sub(least) else {
            return Err(Self::too_large(content_bytes, key_limit, value_limit));
        };
        let (pivots, messages) = divide(left, epsilon_percent, pivot, message);
        NodeShape::of(content_bytes, key_limit, value_limit, pivots, messages)
    }

    /// Returns the layout in which an inner node has space for `n` pivots and `b` messages.
    ///
    /// # Errors
    /// [`Error::BadOption`] if a page does not have this space.
    pub fn of(
        content_bytes: usize,
        key_limit: usize,
        value_limit: usize,
        n: usize,
        b: usize,
    ) -> Result<NodeShape> {
        if key_limit == 0 || key_limit > content_bytes || value_limit > content_bytes {
            return Err(Self::too_large(content_bytes, key_limit, value_limit));
        }
        let space = content_bytes.saturating_sub(HEADER);
        let pairs = NodeArray::primary(
            space / table_bytes(1, key_limit, value_limit),
            key_limit,
            value_limit,
        );
        let wide = NodeArray::primary(space / table_bytes(1, key_limit, CHILD), key_limit, CHILD);
        let pivots = NodeArray::primary(n, key_limit, CHILD);
        let buffer = NodeArray::secondary(b, key_limit, value_limit, pivots.end());
        let fits = pairs.capacity() >= LEAST_PAIRS && wide.capacity() >= 3 && buffer.end() <= content_bytes;
        let counted = n >= 3 && !n.is_multiple_of(2) && b >= 1 && b <= pairs.capacity();
        if !fits || !counted || content_bytes > usize::from(u16::MAX) {
            return Err(Self::too_large(content_bytes, key_limit, value_limit));
        }
        assert!(
            pairs.end() <= content_bytes && wide.end() <= content_bytes,
            "nodes fit into a page (PN4)"
        );
        Ok(NodeShape {
            content_bytes,
            key_limit,
            value_limit,
            pairs,
            wide,
            pivots,
            buffer,
            own: None,
        })
    }

    fn too_large(content_bytes: usize, key_limit: usize, value_limit: usize) -> Error {
        Error::BadOption {
            option: "key_limit, value_limit",
            why: format!(
                "keys of {key_limit} and values of {value_limit} bytes are too long for pages with {content_bytes} bytes: \
                 four pairs, and one message with three pivots, must fit"
            ),
        }
    }

    /// Returns the maximum number of children that receive messages in any node's flush.
    #[must_use]
    pub fn most_addressed(&self) -> usize {
        let widest = self.own.and_then(|bounds| self.divided(bounds.most));
        widest.map_or(self.pivots, |(pivots, _)| pivots).most_addressed()
    }

    /// Checks that a key and a value do not exceed the length limits.
    ///
    /// # Errors
    /// [`Error::BadOption`] if one of them is too long.
    pub fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > self.key_limit {
            return Err(key_too_long(key.len(), self.key_limit));
        }
        self.check_value(value)
    }

    /// Checks that a value does not exceed the length limit.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the value is too long.
    pub fn check_value(&self, value: &[u8]) -> Result<()> {
        if value.len() > self.value_limit {
            return Err(value_too_long(value.len(), self.value_limit));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thesis has nodes of 16 KiB, keys of 8 bytes and values of 100 bytes. A message takes 128
    /// bytes and a pivot 16 bytes, sizes that are reconstructed from the text of the thesis.
    #[test]
    fn the_layouts_of_the_thesis_come_out() {
        let epsilons = [36, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 98, 99, 100];
        let pivots = [5, 7, 9, 15, 23, 37, 57, 91, 147, 239, 385, 625, 835, 919, 1013];
        let slots = [127, 126, 126, 125, 124, 123, 120, 116, 109, 97, 79, 49, 23, 12, 1];
        for (at, epsilon) in epsilons.into_iter().enumerate() {
            assert_eq!(
                divide(16_180, epsilon, 16, 128),
                (pivots[at], slots[at]),
                "ε = 0.{epsilon}"
            );
        }
        // All ε up to 0.35 give the same layout. At 0.36 the number of pivots rises to 5.
        assert!((0..=35).all(|epsilon| divide(16_180, epsilon, 16, 128) == (3, 127)));
        assert_eq!(divide(16_180, 36, 16, 128).0, 5);
    }

    #[test]
    fn every_epsilon_and_many_sizes_give_a_working_tree() {
        for page in [512, 1024, 4096, 16 << 10, 32 << 10] {
            for (key, value) in [(1, 0), (8, 8), (8, 100), (16, 1000), (100, 8)] {
                for epsilon_percent in 0..=100 {
                    let sizes = TreeSizes {
                        key_limit: key,
                        value_limit: value,
                        epsilon_percent,
                    };
                    let Ok(shape) = NodeShape::new(page - 40, sizes) else {
                        assert!(page <= 4096 && key + value > 100, "{page} {sizes:?}");
                        continue;
                    };
                    let (n, b, s) = (
                        shape.pivots.capacity(),
                        shape.buffer.capacity(),
                        shape.pairs.capacity(),
                    );
                    assert!(n % 2 == 1 && n >= 3 && b >= 1 && b <= s, "{page} {sizes:?}");
                    assert!(shape.buffer.end() <= page - 40 && shape.most_addressed() == n.div_ceil(2));
                }
            }
        }
    }

    #[test]
    fn our_nodes_of_the_thesis_sizes() {
        let of = |epsilon_percent| {
            let sizes = TreeSizes {
                key_limit: 8,
                value_limit: 100,
                epsilon_percent,
            };
            let shape = NodeShape::new((16 << 10) - 40, sizes).unwrap();
            (
                shape.pivots.capacity(),
                shape.buffer.capacity(),
                shape.pairs.capacity(),
                shape.wide.capacity(),
            )
        };
        assert_eq!(of(35), (3, 131, 132, 526));
        assert_eq!(of(80), (77, 113, 132, 526));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let sizes = |key_limit, value_limit, epsilon_percent| TreeSizes {
            key_limit,
            value_limit,
            epsilon_percent,
        };
        assert!(NodeShape::new(472, sizes(8, 120, 50)).is_err());
        assert!(NodeShape::new(472, sizes(0, 8, 50)).is_err());
        assert!(NodeShape::new(472, sizes(8, 8, 101)).is_err());
        assert!(NodeShape::of(4056, 8, 8, 4, 10).is_err(), "n is odd");
        let shape = NodeShape::new(4056, sizes(8, 8, 50)).unwrap();
        let refused = |key: &[u8], value: &[u8]| shape.check(key, value).unwrap_err().to_string();
        assert!(refused(&[0; 9], &[]).contains("a key of 9 bytes exceeds the limit of 8"));
        assert!(refused(&[0; 8], &[0; 9]).contains("a value of 9 bytes exceeds the limit of 8"));
        assert!(shape.check(&[], &[0; 8]).is_ok());
    }
}
