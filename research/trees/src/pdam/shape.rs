//! The sizes of blocks, nodes and entries.

use super::format::BLOCK_HEAD;
use alluvium_storage::{Error, Result};

/// The sizes of blocks, nodes and entries of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PdamShape {
    block_bytes: u32,
    node_blocks: u32,
    key_bytes: u32,
    value_bytes: u32,
}

/// The maximum size of a block, of a node, and of a key or value, in bytes.
const MOST_BLOCK: u32 = 1 << 20;
const MOST_NODE: u64 = 16 << 20;
const MOST_PART: u32 = 64 << 10;

impl PdamShape {
    /// Creates a shape with blocks of `block_bytes`, nodes of `node_blocks` blocks, and records
    /// with fixed-length keys and values.
    ///
    /// # Errors
    /// [`Error::BadOption`] unless blocks are 512 bytes to 1 MiB in steps of 512, a node has at
    /// least one block and at most 16 MiB, keys are not empty, and a block holds two records.
    pub fn new(block_bytes: u32, node_blocks: u32, key_bytes: u32, value_bytes: u32) -> Result<PdamShape> {
        let refuse = |option, why: String| Err(Error::BadOption { option, why });
        let sector = alluvium_device::BLOCK as u32;
        if block_bytes == 0 || !block_bytes.is_multiple_of(sector) || block_bytes > MOST_BLOCK {
            let why = format!(
                "blocks of {block_bytes} bytes; take a multiple of {sector}, up to {MOST_BLOCK} bytes"
            );
            return refuse("block_bytes", why);
        }
        if node_blocks == 0 || u64::from(node_blocks) * u64::from(block_bytes) > MOST_NODE {
            let why = format!(
                "nodes of {node_blocks} blocks of {block_bytes} bytes; take 1 to {}",
                MOST_NODE / u64::from(block_bytes)
            );
            return refuse("node_blocks", why);
        }
        if key_bytes == 0 || key_bytes > MOST_PART {
            let why = format!("keys of {key_bytes} bytes; take 1 to {MOST_PART}");
            return refuse("key_bytes", why);
        }
        let space = block_bytes - BLOCK_HEAD as u32;
        if value_bytes > MOST_PART || 2 * (key_bytes + value_bytes) > space {
            let why = format!(
                "values of {value_bytes} bytes, with keys of {key_bytes}; two records must fit into {space} bytes of a block"
            );
            return refuse("value_bytes", why);
        }
        Ok(PdamShape {
            block_bytes,
            node_blocks,
            key_bytes,
            value_bytes,
        })
    }

    /// Returns the size of a block in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Returns the number of blocks in a node.
    #[must_use]
    pub fn node_blocks(&self) -> u32 {
        self.node_blocks
    }

    /// Returns the length of a key in bytes.
    #[must_use]
    pub fn key_bytes(&self) -> u32 {
        self.key_bytes
    }

    /// Returns the length of a value in bytes.
    #[must_use]
    pub fn value_bytes(&self) -> u32 {
        self.value_bytes
    }

    /// Returns the size of a node in bytes.
    #[must_use]
    pub fn node_bytes(&self) -> u64 {
        u64::from(self.node_blocks) * u64::from(self.block_bytes)
    }

    /// Returns the size of an entry in bytes: a record in a leaf (level 0), a key elsewhere.
    pub(super) fn entry_bytes(&self, level: usize) -> usize {
        let value = if level == 0 { self.value_bytes } else { 0 };
        (self.key_bytes + value) as usize
    }

    /// Returns the number of entries in a block of a level.
    #[must_use]
    pub fn block_entries(&self, level: usize) -> u64 {
        let entries = (self.block_bytes as usize - BLOCK_HEAD) / self.entry_bytes(level);
        assert!(entries >= 2, "{self:?} was checked");
        entries as u64
    }

    /// Returns the number of entries in a node of a level.
    #[must_use]
    pub fn node_entries(&self, level: usize) -> u64 {
        u64::from(self.node_blocks) * self.block_entries(level)
    }

    /// Returns the number of children of a node.
    #[must_use]
    pub fn fanout(&self) -> u64 {
        self.node_entries(1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_are_none_are_refused_with_the_option() {
        let refused = |block, nodes, key, value| match PdamShape::new(block, nodes, key, value) {
            Err(Error::BadOption { option, .. }) => option,
            other => panic!("{other:?}"),
        };
        for block in [0, 100, 513, 2 << 20] {
            assert_eq!(refused(block, 1, 8, 8), "block_bytes");
        }
        assert_eq!(refused(512, 0, 8, 8), "node_blocks");
        assert_eq!(refused(4096, 4097, 8, 8), "node_blocks");
        assert_eq!(refused(512, 1, 0, 8), "key_bytes");
        assert_eq!(refused(512, 1, u32::MAX, u32::MAX), "key_bytes");
        assert_eq!(refused(512, 1, 8, u32::MAX), "value_bytes");
        assert_eq!(refused(512, 1, 126, 127), "value_bytes");
        let shape = PdamShape::new(512, 8, 126, 126).unwrap();
        assert_eq!((shape.block_entries(0), shape.block_entries(1)), (2, 4));
        assert_eq!(
            (shape.node_entries(0), shape.fanout(), shape.node_bytes()),
            (16, 33, 4096)
        );
    }
}
