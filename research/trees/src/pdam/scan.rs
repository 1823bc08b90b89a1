//! Scans of records in key order, which read contiguous whole leaves.

use super::PdamTree;
use super::descent::{DescentGoal, DescentProgress, PdamDescent};
use super::format::{BLOCK_HEAD, entries, entry};
use super::layout::PdamLayout;
use alluvium_base::Purpose;
use alluvium_device::AlignedBuffer;
use alluvium_storage::Result;

/// The maximum size of a request in bytes, unless a single leaf is larger.
const MOST_TOGETHER: u64 = 16 << 20;

/// A key and its value.
type ScanPair = (Box<[u8]>, Box<[u8]>);

/// An iterator over records from a key on. It ends after an error.
#[derive(Debug)]
pub struct LeafScan<'t> {
    tree: &'t PdamTree,
    /// The number of leaves per request.
    together: u64,
    /// The key at which the scan begins.
    from: Box<[u8]>,
    /// The current leaf and the index of its next record.
    leaf: u64,
    rank: u64,
    /// The buffered leaves: the number of the first, and their bytes.
    read: Option<(u64, AlignedBuffer)>,
    /// Whether the blocks of the current leaf have been verified (PD3).
    is_checked: bool,
    has_ended: bool,
}

/// Finds the leaf at which a scan begins.
pub(super) fn begin<'t>(tree: &'t PdamTree, from: &[u8], slots: u32) -> Result<LeafScan<'t>> {
    let layout = &tree.layout;
    let mut walk = PdamDescent::new(layout, from, DescentGoal::Leaf)?;
    let leaf = loop {
        match walk.advance(layout)? {
            DescentProgress::Leaf(leaf) => break leaf,
            DescentProgress::Found(_) => break 0,
            DescentProgress::Wants { node, .. } => {
                // A search with a single client, which reads one node per step.
                let blocks = 0..u64::from(layout.shape.node_blocks());
                walk.supply(0, tree.read(node, blocks, Purpose::Scan)?);
            }
        }
    };
    Ok(LeafScan {
        tree,
        together: u64::from(slots / layout.shape.node_blocks())
            .min(MOST_TOGETHER / layout.shape.node_bytes())
            .max(1),
        from: from.into(),
        leaf,
        rank: 0,
        read: None,
        is_checked: false,
        has_ended: layout.keys == 0,
    })
}

impl LeafScan<'_> {
    /// Returns the next record, starting at the first key of the scan.
    fn record(&mut self) -> Result<Option<ScanPair>> {
        let layout = &self.tree.layout;
        let leaves = layout.levels.first().map_or(0, |level| level.nodes);
        loop {
            if self.leaf == leaves {
                return Ok(None);
            }
            if self.rank == layout.entries(0, self.leaf) {
                (self.leaf, self.rank, self.is_checked) = (self.leaf + 1, 0, false);
                continue;
            }
            self.load(leaves)?;
            let rank = self.rank;
            self.rank += 1;
            let (first, blocks) = self.read.as_ref().expect("the leaf was read");
            let bytes = layout.shape.node_bytes() as usize;
            let start = (self.leaf - first) as usize * bytes;
            let found = at_rank(layout, 0, &blocks[start..start + bytes], rank);
            let (key, value) = found.split_at(layout.shape.key_bytes() as usize);
            if *key >= *self.from {
                return Ok(Some((key.into(), value.into())));
            }
        }
    }

    /// Reads the leaf and those after it, unless the leaf is buffered.
    fn load(&mut self, leaves: u64) -> Result<()> {
        let (layout, leaf) = (&self.tree.layout, self.leaf);
        let bytes = layout.shape.node_bytes();
        let covers = |(first, blocks): &(u64, AlignedBuffer)| leaf - first < blocks.len() as u64 / bytes;
        if !self.read.as_ref().is_some_and(covers) {
            let count = self.together.min(leaves - leaf);
            let blocks = 0..count * u64::from(layout.shape.node_blocks());
            let read = self.tree.read(layout.number(0, leaf), blocks, Purpose::Scan)?;
            self.read = Some((leaf, read));
        }
        if !self.is_checked {
            let (first, blocks) = self.read.as_ref().expect("it was read");
            let start = ((leaf - first) * bytes) as usize;
            check_node(layout, 0, leaf, &blocks[start..start + bytes as usize])?;
            self.is_checked = true;
        }
        Ok(())
    }
}

impl Iterator for LeafScan<'_> {
    type Item = Result<ScanPair>;

    fn next(&mut self) -> Option<Result<ScanPair>> {
        if self.has_ended {
            return None;
        }
        let record = self.record().transpose();
        self.has_ended = !matches!(record, Some(Ok(_)));
        record
    }
}

/// Verifies all blocks of a node.
pub(super) fn check_node(layout: &PdamLayout, level: usize, node: u64, bytes: &[u8]) -> Result<()> {
    let number = layout.number(level, node);
    let blocks = bytes.chunks(layout.shape.block_bytes() as usize);
    assert_eq!(blocks.len(), layout.shape.node_blocks() as usize, "a whole node");
    for (block, bytes) in (0..).zip(blocks) {
        let place = || layout.place(number, block);
        entries(bytes, layout.id, layout.block_number(number, block), place)?;
    }
    Ok(())
}

/// Returns the entry with a given rank in a node whose blocks have been verified.
pub(super) fn at_rank<'n>(layout: &PdamLayout, level: usize, node: &'n [u8], rank: u64) -> &'n [u8] {
    let slot = layout.slot(level, layout.order(level).position(rank));
    let bytes = layout.shape.block_bytes() as usize;
    let block = &node[slot.block as usize * bytes..][..bytes];
    let entries = &block[BLOCK_HEAD..];
    entry(entries, slot.entry, layout.shape.entry_bytes(level)).expect("PD1: a block has this entry")
}
