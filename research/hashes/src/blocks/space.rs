//! The contract between a table and the space that stores it.

use super::error::{Error, Result};

/// A range of bytes of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockExtent {
    /// The offset of the first byte.
    pub at: u64,
    pub bytes: u64,
}

impl BlockExtent {
    /// Returns the offset after the last byte; `None` on overflow.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.at.checked_add(self.bytes)
    }

    /// Checks that `bytes` bytes from `offset` are within the extent, and returns their offset in
    /// the space.
    ///
    /// # Errors
    /// [`Error::Damaged`] when they are not: an offset that was read from the space was wrong.
    pub fn place(&self, offset: u64, bytes: u64) -> Result<u64> {
        match (offset.checked_add(bytes), self.at.checked_add(offset)) {
            (Some(end), Some(place)) if end <= self.bytes => Ok(place),
            _ => Err(Error::damaged(
                self.at,
                "offset",
                format!("within {} bytes", self.bytes),
                offset,
            )),
        }
    }
}

/// A space of bytes that stores the extents of a table.
///
/// Implementations verify reads, for example with a checksum per block: `read` returns the bytes
/// that were last written, or an error. They may batch and cache. Any write and any commit may
/// fail; the table's content is then the same as before the call. After a crash at any write,
/// opening the space finds the state of the last commit (B3).
pub trait BlockSpace {
    /// Allocates `bytes` unused bytes. They start at a block boundary if the space has blocks.
    ///
    /// # Errors
    /// [`Error::Full`].
    fn allocate(&self, bytes: u64) -> Result<BlockExtent>;

    /// Releases all but the first `bytes` of an extent that was allocated since the last commit.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the extent is shorter than `bytes`.
    fn trim(&self, extent: BlockExtent, bytes: u64) -> Result<BlockExtent>;

    /// Releases an extent. If the last commit may reference the extent, it is reused only after
    /// the next commit.
    fn release(&self, extent: BlockExtent);

    /// Fills `into` with the bytes at `at`.
    ///
    /// # Errors
    /// When the device fails, or the bytes differ from those written.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;

    /// Writes bytes into an extent that was allocated since the last commit (B1).
    ///
    /// # Errors
    /// When the device fails. The content of the bytes is then undefined.
    fn write(&self, at: u64, from: &[u8]) -> Result<()>;

    /// Makes all writes durable, with `root` as the new root.
    ///
    /// # Errors
    /// When the device fails: the last commit remains valid.
    fn commit(&self, root: &[u8]) -> Result<()>;

    /// Returns the root of the last commit.
    fn root(&self) -> Option<Vec<u8>>;
}

/// A table's knowledge of the machine it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineModel {
    /// A memory of `memory_bytes` in blocks of `block_bytes` (the DAM's M and B).
    Blocks {
        /// The size of a block in bytes.
        block_bytes: u32,
        /// The memory available to merges, in bytes.
        memory_bytes: u64,
    },
    /// No parameters: the table is cache-oblivious.
    Oblivious,
}

/// The number of bytes that a stream of a cache-oblivious table transfers at a time, a constant
/// of the processor.
const WORDS: usize = 64;

impl MachineModel {
    /// Checks the parameters of the machine.
    ///
    /// # Errors
    /// [`Error::Shape`] unless a block has 128 bytes to 16 MiB, and the memory holds at least
    /// four blocks.
    pub fn checked(self) -> Result<MachineModel> {
        match self {
            MachineModel::Blocks {
                block_bytes,
                memory_bytes,
            } => {
                let possible = (128..=1 << 24).contains(&block_bytes)
                    && memory_bytes >= 4 * u64::from(block_bytes)
                    && memory_bytes <= 1 << 40;
                if !possible {
                    let what = format!("blocks of {block_bytes} bytes below a memory of {memory_bytes}");
                    return Err(Error::shape(what, "128 bytes to 16 MiB, below 4 blocks to 1 TiB"));
                }
                Ok(self)
            }
            MachineModel::Oblivious => Ok(self),
        }
    }

    /// Returns the number of bytes that a stream transfers at a time.
    #[must_use]
    pub fn chunk(&self) -> usize {
        match self {
            MachineModel::Blocks { block_bytes, .. } => *block_bytes as usize,
            MachineModel::Oblivious => WORDS,
        }
    }

    /// Returns the number of streams that a merge reads at once; `None` for a cache-oblivious
    /// merge, which determines it itself.
    #[must_use]
    pub fn fan_in(&self) -> Option<usize> {
        match self {
            // Half of the memory: the other half is for output and for nodes.
            MachineModel::Blocks {
                block_bytes,
                memory_bytes,
            } => Some((memory_bytes / u64::from(*block_bytes) / 2).clamp(2, 1 << 16) as usize),
            MachineModel::Oblivious => None,
        }
    }
}
