//! Where an affine dictionary keeps its nodes: extents of bytes that are written once.
//!
//! *Knows*: which bytes are free, which a commit reaches, how a commit becomes durable, what
//! requests cost in the affine model.
//!
//! *Does not know*: what an extent holds; keys, nodes, messages.
//!
//! *Read in this order*: this file, `book.rs`, `meter.rs`, `memory.rs`, `file.rs`, `format.rs`.
//!
//! - **AS1** Bytes that the last commit reaches are not written before the next one is durable.
//! - **AS2** A commit is atomic: after a crash the space is as the last one left it.
//! - **AS3** What is read and what is written is one request each: it costs a setup.

mod book;
mod file;
pub(super) mod format;
mod memory;
mod meter;

pub use file::FileSpace;
pub use memory::{Fault, MemorySpace};
pub use meter::{Meter, Request};

use super::error::Result;

/// A range of bytes of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// The first byte.
    pub at: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Extent {
    /// Returns the byte behind the last one; none beyond all numbers.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.at.checked_add(self.bytes)
    }
}

/// Extents of bytes, and a root to find them by.
///
/// Any call may fail. A dictionary then refuses work until it is opened again from the last
/// commit.
pub trait Space {
    /// Takes `bytes` that nothing uses.
    ///
    /// # Errors
    /// [`Error::Full`](super::Error::Full), or as the device says.
    fn allocate(&self, bytes: u64) -> Result<Extent>;

    /// Gives back an extent. One that the last commit reaches is used again after the next.
    fn release(&self, extent: Extent);

    /// Reads `bytes` bytes at `at`, in one request.
    ///
    /// # Errors
    /// When they are not within the space, or as the device says.
    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>>;

    /// Fills an extent that was allocated since the last commit, in one request (AS1).
    ///
    /// # Errors
    /// As the device says.
    fn write(&self, extent: Extent, bytes: &[u8]) -> Result<()>;

    /// Makes all that was written durable, with `root` to find it (AS2).
    ///
    /// # Errors
    /// As the device says: the commit before stands.
    fn commit(&self, root: &[u8]) -> Result<()>;

    /// Returns the root of the last commit.
    fn root(&self) -> Option<Vec<u8>>;

    /// Returns the extents that are allocated and not released, for the dictionary: not those that
    /// the space needs itself.
    fn extents(&self) -> Vec<Extent>;
}
