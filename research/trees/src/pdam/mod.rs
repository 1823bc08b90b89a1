//! A search tree for a device that moves P blocks in a step (Bender §6): loaded in bulk, and read
//! by one client or by many.
//!
//! A node is P blocks. Its keys are a binary search tree in the order of van Emde Boas, so that
//! the way of a search through a node lies in few runs of blocks, whatever their length. As many
//! clients as search share the P blocks of a step: one client reads a node in a step, and P
//! clients read a block each. The same file also serves clients that read whole nodes, and a file
//! with nodes of one block is the B-tree for many clients.
//!
//! ```text
//!   block 0 │ leaves, in the order of their keys │ nodes above them │ … │ root
//!           └ a node: P blocks of entries ┘
//! ```
//!
//! Keys have one length, and so do values. All nodes of a level are full, but for the last, so
//! that no block holds pointers: where a child lies follows from the number of keys.
//!
//! *Knows*: where each key lies, which blocks a search needs, how clients share a step, and what
//! was damaged.
//!
//! *Does not know*: caches, logs and checkpoints; threads. A tree does not change. A file whose
//! load did not end has no header and is none.
//!
//! *Read in this order*: `shape.rs` (sizes), `layout.rs` (places), `format.rs` (bytes), `build.rs`,
//! `walk.rs` (one search), `readers.rs` (many, step by step), `scan.rs`, `check.rs`.
//!
//! Invariants:
//!
//! - **PD1** A level's nodes are full, but for its last; child j of node i is node i · fanout + j
//!   of the level below.
//! - **PD2** A step asks for at most P blocks, and what it asks for a client lies in one node.
//! - **PD3** No byte of a block is used before its checksum was found to be that of its place.
//! - **PD4** The header is written when all blocks are durable: a file with a header is whole.

mod build;
mod check;
pub mod format;
mod layout;
mod readers;
mod scan;
mod shape;
#[cfg(test)]
mod tests;
mod walk;

pub use check::Examined;
pub use readers::{Answer, ReadAhead, Readers, Remainder, Run};
pub use scan::Scan;
pub use shape::Shape;

use alluvium_base::Purpose;
use alluvium_device::{Buffer, Device};
use alluvium_storage::Result;
use layout::Layout;
use std::ops::Range;
use std::sync::Arc;

/// A tree in a file.
///
/// ```
/// use alluvium_device::{Device, Directory, FileOptions, memory::MemoryDirectory};
/// use research_trees::pdam::{Shape, Tree};
/// let file = MemoryDirectory::new().create("tree", FileOptions::DIRECT)?;
/// // Eight blocks of 512 bytes in a node, keys and values of eight bytes.
/// let shape = Shape::new(512, 8, 8, 8)?;
/// let records = (0..10_000_u64).map(|key| (key.to_be_bytes(), (key * key).to_be_bytes()));
/// Tree::build(file.clone(), shape, 1, records)?;
/// let tree = Tree::open(file)?;
/// assert_eq!(tree.get(&12_u64.to_be_bytes())?.as_deref(), Some(&144_u64.to_be_bytes()[..]));
/// assert_eq!(tree.get(&10_000_u64.to_be_bytes())?, None);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct Tree {
    device: Arc<dyn Device>,
    layout: Layout,
}

impl Tree {
    /// Loads records into an empty file, in ascending order of their keys, and makes them durable.
    /// The number `id` tells the tree's blocks from those of others: draw it at random.
    ///
    /// The first key of each node stays in memory until the load ends.
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption) if records are out of order or of
    /// another length than the shape's, or the file is not empty; or as the device says. The file
    /// holds no tree then.
    pub fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        device: Arc<dyn Device>,
        shape: Shape,
        id: u64,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Tree> {
        let layout = build::build(&*device, shape, id, records)?;
        Ok(Tree { device, layout })
    }

    /// Opens a tree.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) with the place, or as the device says.
    pub fn open(device: Arc<dyn Device>) -> Result<Tree> {
        let header = build::read_header(&*device)?;
        let layout = Layout::new(&header, device.name());
        let layout = layout.ok_or_else(|| build::too_large(&*device, &header))?;
        build::check_length(&*device, &layout)?;
        Ok(Tree { device, layout })
    }

    /// Returns the sizes of blocks and nodes.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.layout.shape
    }

    /// Returns how many keys there are.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.layout.keys
    }

    /// Returns how many nodes a search goes through.
    #[must_use]
    pub fn height(&self) -> usize {
        self.layout.levels.len()
    }

    /// Returns the value of a key: one client's search, which reads a node in a step.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) with the place; `BadOption` if the key
    /// has another length than those of the tree; or as the device says.
    pub fn get(&self, key: &[u8]) -> Result<Option<Box<[u8]>>> {
        let slots = self.layout.shape.node_blocks();
        let mut readers = Readers::new(self, ReadAhead::Shared, slots, Remainder::InTurn)?;
        readers.seek(0, key)?;
        loop {
            if let Some((_, value)) = readers.step()?.pop() {
                return Ok(value);
            }
        }
    }

    /// Returns the records from a key on, in the order of keys. Whole leaves are read, as many in
    /// a step as `slots` blocks hold, and at least one.
    ///
    /// # Errors
    /// As [`get`](Tree::get). Later errors are items of the scan.
    pub fn scan(&self, from: &[u8], slots: u32) -> Result<Scan<'_>> {
        scan::begin(self, from, slots)
    }

    /// Reads every block, and returns what was found.
    ///
    /// # Errors
    /// As the device says: damage is in what is returned.
    pub fn check(&self) -> Result<Examined> {
        check::check(self)
    }

    /// Reads some blocks of a node.
    fn read(&self, node: u64, blocks: Range<u64>, purpose: Purpose) -> Result<Buffer> {
        let layout = &self.layout;
        let len = (blocks.end - blocks.start) * u64::from(layout.shape.block_bytes());
        let offset = layout.offset(node, blocks.start);
        Ok(self.device.read_at(offset, len as usize, purpose)?)
    }
}
