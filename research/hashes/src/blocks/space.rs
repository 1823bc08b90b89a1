//! The contract between a table and the space in which it lives.

use super::error::{Error, Result};

/// A range of bytes of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// The first byte.
    pub at: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Extent {
    /// Returns the byte after the last, if the extent is possible.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.at.checked_add(self.bytes)
    }

    /// Checks that `bytes` from `offset` lie within, and returns their place.
    ///
    /// # Errors
    /// [`Error::Damaged`] when they do not: an offset from the space was wrong.
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

/// A space of bytes in which a table keeps its extents.
///
/// An implementation proves what it reads: `read` gives the bytes that were last written there,
/// or an error, as it would by a checksum of each block. It may batch and cache. Any write and
/// any commit may fail; a table then holds what it held before the call. After a crash, at
/// whatever write, opening finds the state of the last commit (B3).
pub trait Space {
    /// Takes `bytes` that nothing uses. They begin where a block does, if the space has blocks.
    ///
    /// # Errors
    /// [`Error::Full`].
    fn allocate(&self, bytes: u64) -> Result<Extent>;

    /// Gives back all but the first `bytes` of an extent that was allocated since the last
    /// commit.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the extent has not as many.
    fn trim(&self, extent: Extent, bytes: u64) -> Result<Extent>;

    /// Gives back an extent. One that the last commit may reach is used again after the next
    /// only.
    fn release(&self, extent: Extent);

    /// Fills `into` with the bytes at `at`.
    ///
    /// # Errors
    /// When the device cannot, or the bytes are not those that were written.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;

    /// Writes bytes into an extent that was allocated since the last commit (B1).
    ///
    /// # Errors
    /// When the device cannot. What the bytes are now is not known.
    fn write(&self, at: u64, from: &[u8]) -> Result<()>;

    /// Makes all that was written durable, with `root` to find it.
    ///
    /// # Errors
    /// When the device cannot: the last commit stands.
    fn commit(&self, root: &[u8]) -> Result<()>;

    /// Returns the root of the last commit.
    fn root(&self) -> Option<Vec<u8>>;
}

/// What a table knows of the machine below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// A memory of `memory_bytes` above blocks of `block_bytes` (the DAM's M and B).
    Blocks {
        /// Bytes of a block.
        block_bytes: u32,
        /// Bytes of the memory that merges may fill.
        memory_bytes: u64,
    },
    /// Nothing: a cache-oblivious table.
    Oblivious,
}

/// Bytes that a stream of a cache-oblivious table moves at a time: a constant of the processor.
const WORDS: usize = 64;

impl Machine {
    /// Checks that a machine is possible.
    ///
    /// # Errors
    /// [`Error::Shape`] when a block has not 128 bytes to 16 MiB, or the memory not four
    /// blocks.
    pub fn checked(self) -> Result<Machine> {
        match self {
            Machine::Blocks {
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
            Machine::Oblivious => Ok(self),
        }
    }

    /// Returns how many bytes a stream moves at a time.
    #[must_use]
    pub fn chunk(&self) -> usize {
        match self {
            Machine::Blocks { block_bytes, .. } => *block_bytes as usize,
            Machine::Oblivious => WORDS,
        }
    }

    /// Returns how many streams a merge reads at once; none if a cache-oblivious merge sees to
    /// it.
    #[must_use]
    pub fn fan_in(&self) -> Option<usize> {
        match self {
            // Half of the memory: the other half is for what is written, and for nodes.
            Machine::Blocks {
                block_bytes,
                memory_bytes,
            } => Some((memory_bytes / u64::from(*block_bytes) / 2).clamp(2, 1 << 16) as usize),
            Machine::Oblivious => None,
        }
    }
}
