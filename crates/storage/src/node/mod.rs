//! Nodes: one to sixteen pages that are written once, and pointers that verify them.
//!
//! *Knows*: how a node is encoded and how a pointer proves that it found the node it means.
//!
//! *Does not know*: what is in a node, or when it dies.
//!
//! *Read in this order*: `format.rs` (the pointer's bytes), `codec.rs` (none, LZ4, Zstd),
//! `writer.rs`, `read.rs`.
//!
//! Invariants:
//!
//! - **N1** A pointer's checksum covers every encoded byte, so a block that is flipped,
//!   misdirected, stale or zeroed is found when it is read, unless it holds the very bytes that
//!   were meant.
//! - **N2** A node decodes to exactly `pages × page size` bytes; nothing longer is ever allocated
//!   for it.
//! - **N3** Offsets of uncompressed nodes are multiples of the page size; of compressed ones, of
//!   the logical block.

pub mod codec;
pub mod format;
mod read;
pub mod writer;

pub use codec::Codec;
pub use format::NodePointer;
pub use read::{read_node, read_nodes};
pub use writer::{NodeWriter, WriterOptions, Written};

use crate::{Error, Result};

/// The most pages in a node.
pub const MAX_PAGES: u8 = 16;

/// The size of a page: a power of two from 4 to 64 KiB, one per store.
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
    /// The smallest page.
    pub const MIN: PageSize = PageSize(4 << 10);
    /// The largest page.
    pub const MAX: PageSize = PageSize(64 << 10);

    /// Creates a page of `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::BadOption`] when it is not a power of two from 4 KiB to 64 KiB.
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

    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Returns how many bytes a node of `pages` pages has.
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

/// Returns the name of a tier's file in the store's directory.
#[must_use]
pub fn tier_file(tier: u8) -> String {
    format!("tier-{tier}.data")
}
