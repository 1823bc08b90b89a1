//! A single search from the root to a leaf. It is a state machine that requests a block, receives
//! blocks, and advances as far as they allow.

use super::format::{BLOCK_HEAD, entries, entry};
use super::layout::PdamLayout;
use alluvium_device::AlignedBuffer;
use alluvium_storage::{Error, Result};
use std::cmp::Ordering;

/// A search for a key.
#[derive(Debug)]
pub(super) struct PdamDescent {
    key: Box<[u8]>,
    /// The current level and node.
    level: usize,
    node: u64,
    /// The current position in the node's binary search tree: the root is 1.
    position: u64,
    /// The number of the node's entries known to be less than or equal to the key.
    before: u64,
    /// The buffered blocks of the node: the number of the first, and their bytes.
    read: Vec<(u64, AlignedBuffer)>,
    /// The last block with a verified checksum. A search visits each block once, so one is
    /// enough.
    checked: Option<u64>,
    /// The end of the search: the record or its leaf.
    until: DescentGoal,
}

/// The goal of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescentGoal {
    /// The search ends at the key's record.
    Record,
    /// The search ends at the leaf that covers the key.
    Leaf,
}

/// The state of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DescentProgress {
    /// The search needs a block of a node.
    Wants {
        /// The global number of the node.
        node: u64,
        /// The index of the block in the node.
        block: u64,
    },
    /// The search has completed: the value of the key, or `None` if the key does not exist.
    Found(Option<Box<[u8]>>),
    /// The search has reached a leaf.
    Leaf(u64),
}

impl PdamDescent {
    /// Starts a search at the root.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the length of the key is not that of the tree's keys.
    pub(super) fn new(layout: &PdamLayout, key: &[u8], until: DescentGoal) -> Result<PdamDescent> {
        let wanted = layout.shape.key_bytes();
        if key.len() != wanted as usize {
            return Err(Error::BadOption {
                option: "key",
                why: format!("it has {} bytes, and keys of this tree have {wanted}", key.len()),
            });
        }
        Ok(PdamDescent {
            key: key.into(),
            level: layout.root().unwrap_or(0),
            node: 0,
            position: 1,
            before: 0,
            read: Vec::new(),
            checked: None,
            until,
        })
    }

    /// Supplies blocks of the current node, from `first` on.
    pub(super) fn supply(&mut self, first: u64, blocks: AlignedBuffer) {
        debug_assert!(!blocks.is_empty(), "a run has blocks");
        self.read.push((first, blocks));
    }

    /// Advances as far as the supplied blocks allow.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the location.
    pub(super) fn advance(&mut self, layout: &PdamLayout) -> Result<DescentProgress> {
        if layout.keys == 0 {
            return Ok(DescentProgress::Found(None));
        }
        loop {
            if self.level == 0 && self.until == DescentGoal::Leaf {
                return Ok(DescentProgress::Leaf(self.node));
            }
            let (count, order) = (layout.entries(self.level, self.node), layout.order(self.level));
            while self.position <= order.count() {
                let rank = order.rank(self.position);
                if rank >= count {
                    // PD1: the last node of a level ends there.
                    self.position *= 2;
                    continue;
                }
                let slot = layout.slot(self.level, self.position);
                let node = layout.number(self.level, self.node);
                let Some(entries) = block(&self.read, &mut self.checked, layout, node, slot.block)? else {
                    let block = slot.block;
                    return Ok(DescentProgress::Wants { node, block });
                };
                let width = layout.shape.entry_bytes(self.level);
                let found = entry(entries, slot.entry, width).expect("PD1: a block has this entry");
                let (key, value) = found.split_at(layout.shape.key_bytes() as usize);
                match (*self.key).cmp(key) {
                    Ordering::Less => self.position *= 2,
                    Ordering::Equal if self.level == 0 => {
                        return Ok(DescentProgress::Found(Some(value.into())));
                    }
                    Ordering::Equal | Ordering::Greater => {
                        self.before = rank + 1;
                        self.position = 2 * self.position + 1;
                    }
                }
            }
            if self.level == 0 {
                return Ok(DescentProgress::Found(None));
            }
            self.enter_child(layout);
        }
    }

    /// Descends to the child that covers the key.
    fn enter_child(&mut self, layout: &PdamLayout) {
        assert!(self.before < layout.shape.fanout(), "PD1: a child of the node");
        self.level -= 1;
        self.node = self.node * layout.shape.fanout() + self.before;
        assert!(
            self.node < layout.levels[self.level].nodes,
            "PD1: the child is there"
        );
        (self.position, self.before) = (1, 0);
        self.read.clear();
        self.checked = None;
    }
}

/// Returns the entries of a block of a node, if the block has been read.
fn block<'r>(
    read: &'r [(u64, AlignedBuffer)],
    checked: &mut Option<u64>,
    layout: &PdamLayout,
    node: u64,
    block: u64,
) -> Result<Option<&'r [u8]>> {
    let bytes = layout.shape.block_bytes() as usize;
    let count = |blocks: &AlignedBuffer| (blocks.len() / bytes) as u64;
    let holds = |(first, blocks): &&(u64, AlignedBuffer)| (*first..first + count(blocks)).contains(&block);
    let Some((first, blocks)) = read.iter().find(holds) else {
        return Ok(None);
    };
    let at = (block - first) as usize * bytes;
    let found = &blocks[at..at + bytes];
    if *checked == Some(block) {
        return Ok(found.get(BLOCK_HEAD..));
    }
    // PD3: each block is verified once.
    let number = layout.block_number(node, block);
    let found = entries(found, layout.id, number, || layout.place(node, block))?;
    *checked = Some(block);
    Ok(Some(found))
}
