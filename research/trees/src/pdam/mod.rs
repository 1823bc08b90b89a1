//! A search tree for a device that transfers P blocks per step (Bender §6). It is bulk-loaded,
//! and read by one or more clients.
//!
//! A node is P blocks. Its keys form a binary search tree in van Emde Boas order, so a search
//! path through a node crosses few contiguous runs of blocks, for every run length. The searching
//! clients share the P blocks of a step: a single client reads one node per step, and P clients
//! read one block each. The same file also serves clients that read whole nodes; a file with
//! nodes of one block is the B-tree for many clients.
//!
//! ```text
//!   block 0 │ leaves, in the order of their keys │ nodes above them │ … │ root
//!           └ a node: P blocks of entries ┘
//! ```
//!
//! All keys have the same length, as do all values. All nodes of a level are full except the
//! last, so blocks need no pointers: the location of a child follows from the number of keys.
//!
//! *Scope*: the location of each key, the blocks that a search needs, how clients share a step,
//! and the location of damage.
//!
//! *Must not depend on*: caches, logs and checkpoints; threads. A tree is immutable. A file whose
//! load was interrupted has no header, and is not a tree.
//!
//! Invariants:
//!
//! - **PD1** A level's nodes are full except its last; child j of node i is node i · fanout + j
//!   of the level below.
//! - **PD2** A step requests at most P blocks, and the blocks requested for a client are in one
//!   node.
//! - **PD3** The bytes of a block are used only after its checksum has been verified for its
//!   location.
//! - **PD4** The header is written after all blocks are durable: a file with a header is
//!   complete.

mod build;
mod check;
mod descent;
pub mod format;
mod layout;
mod reader_scheduler;
mod scan;
mod shape;
#[cfg(test)]
mod tests;

pub use check::PdamCheckReport;
pub use reader_scheduler::{BlockRun, ReadAhead, ReaderAnswer, ReaderScheduler, RemainderPolicy};
pub use scan::LeafScan;
pub use shape::PdamShape;

use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device};
use alluvium_storage::Result;
use layout::PdamLayout;
use std::ops::Range;
use std::sync::Arc;

/// A tree in a file.
///
/// ```
/// use alluvium_device::{Device, Directory, FileOptions, memory::MemoryDirectory};
/// use research_trees::pdam::{PdamShape, PdamTree};
/// let file = MemoryDirectory::new().create("tree", FileOptions::DIRECT)?;
/// // Eight blocks of 512 bytes in a node, keys and values of eight bytes.
/// let shape = PdamShape::new(512, 8, 8, 8)?;
/// let records = (0..10_000_u64).map(|key| (key.to_be_bytes(), (key * key).to_be_bytes()));
/// PdamTree::build(file.clone(), shape, 1, records)?;
/// let tree = PdamTree::open(file)?;
/// assert_eq!(tree.get(&12_u64.to_be_bytes())?.as_deref(), Some(&144_u64.to_be_bytes()[..]));
/// assert_eq!(tree.get(&10_000_u64.to_be_bytes())?, None);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct PdamTree {
    device: Arc<dyn Device>,
    layout: PdamLayout,
}

impl PdamTree {
    /// Loads records in ascending key order into an empty file, and makes them durable. The
    /// random number `id` distinguishes the tree's blocks from those of other trees.
    ///
    /// The first key of each node stays in memory until the load ends.
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption) if records are out of order or
    /// their length is not the shape's, or the file is not empty; or I/O errors. The file then
    /// contains no tree.
    pub fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        device: Arc<dyn Device>,
        shape: PdamShape,
        id: u64,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<PdamTree> {
        let layout = build::build(&*device, shape, id, records)?;
        Ok(PdamTree { device, layout })
    }

    /// Opens a tree.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) with the location, or I/O errors.
    pub fn open(device: Arc<dyn Device>) -> Result<PdamTree> {
        let header = build::read_header(&*device)?;
        let layout = PdamLayout::new(&header, device.name());
        let layout = layout.ok_or_else(|| build::too_large(&*device, &header))?;
        build::check_length(&*device, &layout)?;
        Ok(PdamTree { device, layout })
    }

    /// Returns the sizes of blocks and nodes.
    #[must_use]
    pub fn shape(&self) -> &PdamShape {
        &self.layout.shape
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.layout.keys
    }

    /// Returns the number of nodes on a search path.
    #[must_use]
    pub fn height(&self) -> usize {
        self.layout.levels.len()
    }

    /// Returns the value of a key. The search has a single client, which reads one node per step.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) with the location; `BadOption` if the
    /// length of the key is not that of the tree's keys; or I/O errors.
    pub fn get(&self, key: &[u8]) -> Result<Option<Box<[u8]>>> {
        let slots = self.layout.shape.node_blocks();
        let mut readers = ReaderScheduler::new(self, ReadAhead::Shared, slots, RemainderPolicy::InTurn)?;
        readers.seek(0, key)?;
        loop {
            if let Some((_, value)) = readers.step()?.pop() {
                return Ok(value);
            }
        }
    }

    /// Returns the records from a key on, in key order. The scan reads whole leaves: as many per
    /// step as `slots` blocks hold, and at least one.
    ///
    /// # Errors
    /// The errors of [`get`](PdamTree::get). Later errors are items of the scan.
    pub fn scan(&self, from: &[u8], slots: u32) -> Result<LeafScan<'_>> {
        scan::begin(self, from, slots)
    }

    /// Reads every block, and returns a report.
    ///
    /// # Errors
    /// I/O errors. Damage is part of the report.
    pub fn check(&self) -> Result<PdamCheckReport> {
        check::check(self)
    }

    /// Reads a range of blocks of a node.
    fn read(&self, node: u64, blocks: Range<u64>, purpose: Purpose) -> Result<AlignedBuffer> {
        let layout = &self.layout;
        let len = (blocks.end - blocks.start) * u64::from(layout.shape.block_bytes());
        let offset = layout.offset(node, blocks.start);
        Ok(self.device.read_at(offset, len as usize, purpose)?)
    }
}
