//! Separate values, which are too long for their leaf and are therefore stored outside it. This
//! module chooses where to store them, and writes and reads them.
//!
//! *Scope*: how values share a node; how a value longer than a node is split into a small tree of
//! nodes; how much space a value occupies.
//!
//! *Must not depend on*: keys; which leaf points to a value, or whether several runs do.
//!
//! Invariants:
//!
//! - **V1** The pointer to a value determines how many nodes and levels the value has. A reader
//!   never allocates more memory than the length in the pointer.
//! - **V2** A value that is not longer than the largest node is stored whole, in a single node.

mod format;
mod read;
mod write;

pub use read::read_value;
pub use read::{NodeContent, each_group, nodes_of, read_from};
pub use read::{fetch_value, read_apart, value_in};
pub use write::{PointerSlot, ValuePlacement, ValueWriter};

use alluvium_storage::node::MAX_PAGES;
use alluvium_storage::{NodePointer, PageSize};

/// Maximum length of a value in bytes: 4 GiB − 1.
pub const MAX_VALUE: usize = u32::MAX as usize;

/// A pointer to a value that is stored outside its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValuePointer {
    /// The node that contains the value, or the root of a long value's tree of nodes.
    pub node: NodePointer,
    /// Offset of the value in the node, in bytes; 0 for a long value.
    pub at: u32,
    /// Length of the value in bytes.
    pub len: u32,
}

impl ValuePointer {
    /// Returns whether the value is longer than the largest node and therefore has its own tree of
    /// nodes.
    #[must_use]
    pub fn is_long(&self, page_size: PageSize) -> bool {
        self.len as usize > largest(page_size)
    }

    /// Returns the space that the value occupies in its extent, in bytes: its length multiplied by
    /// the compression ratio of its node.
    #[must_use]
    pub fn share(&self, page_size: PageSize) -> u64 {
        debug_assert!(self.node.pages > 0, "a node has a page");
        let decoded = page_size.node_bytes(self.node.pages) as u64;
        u64::from(self.len) * (self.node.read_len() as u64).min(decoded) / decoded
    }

    /// Creates a pointer to a value of `len` bytes in a nonexistent node.
    #[cfg(test)]
    pub fn some(at: u32, len: usize) -> ValuePointer {
        let node = NodePointer {
            offset: 8192,
            birth: 3,
            checksum: 5,
            encoded_len: 4096,
            tier: 1,
            pages: 1,
            codec: alluvium_storage::NodeCodec::None,
        };
        let len = len as u32;
        ValuePointer { node, at, len }
    }

    fn is_plausible(&self, page_size: PageSize) -> bool {
        let (at, len) = (self.at as usize, self.len as usize);
        let node = page_size.node_bytes(self.node.pages);
        match levels(len, page_size).last() {
            None => at.checked_add(len).is_some_and(|end| end <= node),
            Some(top) => at == 0 && top * NodePointer::BYTES <= node,
        }
    }
}

/// Returns the capacity of the largest node in bytes.
pub fn largest(page_size: PageSize) -> usize {
    page_size.node_bytes(MAX_PAGES)
}

/// Returns the number of pages of a node that contains `len` bytes.
pub fn pages_for(len: usize, page_size: PageSize) -> usize {
    len.div_ceil(page_size.bytes()).max(1)
}

/// Returns the number of nodes on each level of a value's tree except the root, starting at the
/// bottom with the nodes that hold the bytes. The result is empty if the value fits in a single
/// node.
fn levels(len: usize, page_size: PageSize) -> Vec<usize> {
    let largest = largest(page_size);
    let mut levels = Vec::new();
    debug_assert!(largest / NodePointer::BYTES > 1, "levels shrink");
    let mut nodes = len.div_ceil(largest);
    while nodes > 1 {
        levels.push(nodes);
        nodes = nodes.div_ceil(largest / NodePointer::BYTES);
    }
    levels
}

/// Returns the number of pages for a node that packs values of about `len` bytes: the smallest
/// number that leaves at most an eighth of the node empty, or the maximum.
fn pages_to_pack(len: usize, page_size: PageSize) -> usize {
    let wasted = |pages: usize| {
        let node = pages * page_size.bytes();
        node - node / len * len
    };
    let least = pages_for(len, page_size);
    debug_assert!(len > 0 && len <= largest(page_size), "{len} bytes of a node");
    (least..=usize::from(MAX_PAGES))
        .find(|&pages| wasted(pages) * 8 <= pages * page_size.bytes())
        .unwrap_or(usize::from(MAX_PAGES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_as_small_as_their_values_let_them() {
        let pages = |len| pages_to_pack(len, PageSize::MIN);
        assert_eq!([1, 1024, 1100, 1400, 4096].map(pages), [1, 1, 2, 3, 1]);
        assert_eq!([2100, 4097, 40000, 65536].map(pages), [4, 8, 10, 16]);
    }

    #[test]
    fn a_value_has_as_many_levels_as_its_length_needs() {
        let levels = |len| levels(len, PageSize::MIN);
        assert_eq!(levels(65536), [0; 0]);
        assert_eq!(levels(65537), [2]);
        assert_eq!(levels(128 << 20), [2048]);
        assert_eq!(levels(MAX_VALUE), [65536, 32]);
    }
}
