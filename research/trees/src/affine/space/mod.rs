//! The space of an affine dictionary's nodes: extents of bytes that are written once.
//!
//! *Scope*: which bytes are free and which a commit references, how a commit becomes durable, the
//! cost of requests in the affine model.
//!
//! *Must not depend on*: the contents of an extent; keys, nodes, messages.
//!
//! - **AS1** Bytes that the last commit references are not overwritten before the next commit is
//!   durable.
//! - **AS2** A commit is atomic: after a crash the space is in the state of the last commit.
//! - **AS3** Each read and each write is one request, and costs one setup.

mod extent_allocator;
mod file;
pub(super) mod format;
mod memory;
mod meter;

pub use file::FileSpace;
pub use memory::{MemorySpace, SpaceFault};
pub use meter::{RequestMeter, SpaceRequest};

use super::error::Result;

/// A range of bytes of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceExtent {
    /// The offset of the first byte.
    pub at: u64,
    pub bytes: u64,
}

impl SpaceExtent {
    /// Returns the offset after the last byte; `None` on overflow.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.at.checked_add(self.bytes)
    }
}

/// Extents of bytes, and a root from which the caller finds them.
///
/// Any call may fail. A dictionary then refuses work until it is reopened at the last commit.
pub trait NodeSpace {
    /// Allocates `bytes` unused bytes.
    ///
    /// # Errors
    /// [`Error::Full`](super::Error::Full), or I/O errors.
    fn allocate(&self, bytes: u64) -> Result<SpaceExtent>;

    /// Releases an extent. If the last commit references the extent, it is reused only after the
    /// next commit.
    fn release(&self, extent: SpaceExtent);

    /// Reads `bytes` bytes at `at` in one request.
    ///
    /// # Errors
    /// When the bytes are not within the space; otherwise I/O errors.
    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>>;

    /// Writes to an extent that was allocated since the last commit, in one request (AS1).
    ///
    /// # Errors
    /// I/O errors.
    fn write(&self, extent: SpaceExtent, bytes: &[u8]) -> Result<()>;

    /// Makes all writes durable, with `root` as the new root (AS2).
    ///
    /// # Errors
    /// I/O errors: the previous commit remains valid.
    fn commit(&self, root: &[u8]) -> Result<()>;

    /// Returns the root of the last commit.
    fn root(&self) -> Option<Vec<u8>>;

    /// Returns the extents that are allocated and not released for the dictionary, excluding the
    /// space's own metadata.
    fn extents(&self) -> Vec<SpaceExtent>;
}
