//! Nodes are immutable blocks of one to sixteen pages. A pointer to a node contains a checksum of
//! the node's encoded bytes, which is verified on every read.
//!
//! *Scope*: the encoding of nodes, and the verification of bytes read through a pointer.
//!
//! *Must not depend on*: the contents of a node, or when it dies.
//!
//! Invariants:
//!
//! - **N1** The checksum in a pointer covers every encoded byte. A corrupted, misdirected, stale or
//!   zeroed block is therefore detected when it is read, unless it contains exactly the expected
//!   bytes.
//! - **N2** A node decodes to exactly `pages × page size` bytes, and no more memory than that is
//!   allocated for it.
//! - **N3** An uncompressed node begins at a multiple of the page size, and a compressed node at a
//!   multiple of the logical block size.

pub mod codec;
pub mod format;
mod read;
pub mod writer;

pub use codec::NodeCodec;
pub use format::NodePointer;
pub use read::{read_node, read_nodes};
pub use writer::{NodeWriter, WriterOptions, WriterOutput};

use crate::{Error, Result};

/// Maximum number of pages in a node.
pub const MAX_PAGES: u8 = 16;

/// The page size of a store, which is a power of two from 4 KiB to 64 KiB.
///
/// ```
/// use alluvium_storage::PageSize;
/// assert_eq!(PageSize::new(16384)?.bytes(), 16384);
/// assert!(PageSize::new(5000).is_err());
/// assert_eq!(PageSize::default().bytes(), 4096);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageSize(u32);

impl PageSize {
    pub const MIN: PageSize = PageSize(4 << 10);
    pub const MAX: PageSize = PageSize(64 << 10);

    /// Creates a page size of `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::BadOption`] if `bytes` is not a power of two from 4 KiB to 64 KiB.
    pub fn new(bytes: u32) -> Result<PageSize> {
        if bytes.is_power_of_two() && (Self::MIN.0..=Self::MAX.0).contains(&bytes) {
            Ok(PageSize(bytes))
        } else {
            let why = format!("{bytes} bytes is not a power of two from 4096 to 65536");
            Err(Error::BadOption {
                option: "page size",
                why,
            })
        }
    }

    /// Returns the page size in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Returns the size in bytes of a node of `pages` pages.
    #[must_use]
    pub fn node_bytes(self, pages: u8) -> usize {
        usize::from(pages) * self.bytes()
    }
}

impl Default for PageSize {
    fn default() -> Self {
        PageSize::MIN
    }
}

/// Returns the name of a tier's data file.
#[must_use]
pub fn tier_file(tier: u8) -> String {
    format!("tier-{tier}.data")
}
