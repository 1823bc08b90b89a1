//! The location of levels, nodes and entries, computed from the number of keys alone (PD1).

use super::format::PdamHeader;
use super::shape::PdamShape;
use alluvium_storage::{DiskLocation, OnDiskObject};
use research_models::pdam::VanEmdeBoas;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelLayout {
    /// The number of its first node; nodes are numbered across all levels.
    pub(super) first: u64,
    /// The number of its nodes.
    pub(super) nodes: u64,
    /// The total number of keys on the leaf level, or of children on an inner level.
    below: u64,
}

/// The layout of a tree's entries.
#[derive(Clone, Debug)]
pub(super) struct PdamLayout {
    pub(super) shape: PdamShape,
    pub(super) id: u64,
    pub(super) keys: u64,
    /// The levels, leaves first.
    pub(super) levels: Vec<LevelLayout>,
    /// The order of entries in a leaf, and in an inner node.
    orders: [VanEmdeBoas; 2],
    /// The name of the file, for error messages.
    file: String,
}

/// The location of an entry within its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryLocation {
    /// The index of the block in the node.
    pub(super) block: u64,
    /// The index of the entry in the block.
    pub(super) entry: usize,
}

impl PdamLayout {
    /// Returns the layout for a header; `None` if the tree would exceed the maximum size of a
    /// file.
    pub(super) fn new(header: &PdamHeader, file: &str) -> Option<PdamLayout> {
        let shape = header.shape;
        let order = |level| {
            let order = VanEmdeBoas::of(shape.node_entries(level));
            order.expect("PD1: a node has entries, and few")
        };
        let levels = levels(&shape, header.keys)?;
        let bytes = count(&levels).checked_mul(shape.node_bytes())?;
        bytes
            .checked_add(u64::from(shape.block_bytes()))
            .filter(|&bytes| i64::try_from(bytes).is_ok())?;
        Some(PdamLayout {
            shape,
            id: header.id,
            keys: header.keys,
            levels,
            orders: [order(0), order(1)],
            file: file.to_owned(),
        })
    }

    /// Returns the height of the level that is a single node; `None` if there are no keys.
    pub(super) fn root(&self) -> Option<usize> {
        self.levels.len().checked_sub(1)
    }

    /// Returns the number of entries in a node of a level.
    pub(super) fn entries(&self, level: usize, node: u64) -> u64 {
        let LevelLayout { nodes, below, .. } = self.levels[level];
        assert!(node < nodes, "PD1: node {node} of {nodes}");
        if level == 0 {
            let each = self.shape.node_entries(0);
            return each.min(below - node * each);
        }
        let fanout = self.shape.fanout();
        fanout.min(below - node * fanout) - 1
    }

    /// Returns the order of the entries in nodes of a level.
    pub(super) fn order(&self, level: usize) -> &VanEmdeBoas {
        &self.orders[level.min(1)]
    }

    /// Returns the location of a position of the binary search tree within a node.
    pub(super) fn slot(&self, level: usize, position: u64) -> EntryLocation {
        let place = self.order(level).place(position);
        let each = self.shape.block_entries(level);
        let block = place / each;
        debug_assert!(block < u64::from(self.shape.node_blocks()), "PD1");
        EntryLocation {
            block,
            entry: (place % each) as usize,
        }
    }

    /// Returns the global number of a node of a level.
    pub(super) fn number(&self, level: usize, node: u64) -> u64 {
        debug_assert!(node < self.levels[level].nodes, "PD1");
        self.levels[level].first + node
    }

    /// Returns the number of a node's block within the file.
    pub(super) fn block_number(&self, number: u64, block: u64) -> u64 {
        debug_assert!(block < u64::from(self.shape.node_blocks()), "PD1");
        1 + number * u64::from(self.shape.node_blocks()) + block
    }

    /// Returns the offset of a node's block in the file.
    pub(super) fn offset(&self, number: u64, block: u64) -> u64 {
        self.block_number(number, block) * u64::from(self.shape.block_bytes())
    }

    /// Returns the size of the file in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        u64::from(self.shape.block_bytes()) + count(&self.levels) * self.shape.node_bytes()
    }

    /// Returns the location of a block for error messages.
    pub(super) fn place(&self, number: u64, block: u64) -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, &*self.file, self.offset(number, block))
    }
}

/// Returns the number of nodes in the levels.
fn count(levels: &[LevelLayout]) -> u64 {
    levels.last().map_or(0, |top| top.first + top.nodes)
}

/// Returns the levels for a number of keys; `None` if there would be too many nodes.
fn levels(shape: &PdamShape, keys: u64) -> Option<Vec<LevelLayout>> {
    let mut levels: Vec<LevelLayout> = Vec::new();
    let (mut below, mut each) = (keys, shape.node_entries(0));
    while below > 0 {
        let first = levels.last().map_or(0, |level| level.first + level.nodes);
        let nodes = below.div_ceil(each);
        first.checked_add(nodes)?;
        levels.push(LevelLayout { first, nodes, below });
        if nodes == 1 {
            break;
        }
        (below, each) = (nodes, shape.fanout());
    }
    Some(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(keys: u64) -> PdamLayout {
        let shape = PdamShape::new(512, 2, 100, 20).unwrap();
        PdamLayout::new(&PdamHeader { shape, id: 1, keys }, "tree").unwrap()
    }

    #[test]
    fn every_level_holds_the_level_below_it_and_the_last_is_one_node() {
        for keys in [0, 1, 8, 9, 88, 89, 97, 1000, 123_456] {
            let layout = layout(keys);
            let held = |level: usize| -> u64 {
                let nodes = 0..layout.levels[level].nodes;
                nodes.map(|node| layout.entries(level, node)).sum()
            };
            let mut nodes = 0;
            for level in 0..layout.levels.len() {
                if level == 0 {
                    assert_eq!(held(0), keys);
                } else {
                    // A node has one more child than keys.
                    let children = held(level) + layout.levels[level].nodes;
                    assert_eq!(children, layout.levels[level - 1].nodes, "PD1");
                }
                assert_eq!(layout.levels[level].first, nodes);
                nodes += layout.levels[level].nodes;
            }
            assert_eq!(layout.file_bytes(), 512 + nodes * 1024);
            assert_eq!(layout.root().is_some(), keys > 0);
            assert!(layout.root().is_none_or(|root| layout.levels[root].nodes == 1));
        }
    }

    #[test]
    fn trees_larger_than_any_file_have_no_layout() {
        let shape = PdamShape::new(512, 8, 8, 8).unwrap();
        let header = |keys| PdamHeader { shape, id: 1, keys };
        assert!(PdamLayout::new(&header(u64::MAX), "tree").is_none());
        assert!(PdamLayout::new(&header(1 << 58), "tree").is_some());
    }
}
