//! A buffer of pages in memory, pinned and latched, either over a file or purely in memory.
//!
//! *Scope*: which page is in which frame, who uses it, which one is evicted next; where pages are
//! in the file; how a checkpoint of all pages survives later overwrites.
//!
//! *Must not depend on*: the content of pages (`node`), which of them form a tree.
//!
//! Pages are written in place. A crash must not lose the last checkpoint, so before a page is first
//! overwritten after a checkpoint, its old image is written to a journal and synced. Opening a file
//! writes the images back. This restores the checkpoint, in which no page is torn, and the owner
//! replays later changes from its own log. There are three reasons for a journal of old images
//! rather than a log of changes. First, the store above already logs its commits, so a second log
//! would double the bytes written. Second, pages may be evicted at any time, so that the data
//! changed between checkpoints can exceed memory. Third, pages that are new since the checkpoint,
//! which are most pages during a load, need no image.
//!
//! Invariants:
//!
//! - **PB1** A page is in at most one frame.
//! - **PB2** A pinned page stays in its frame. Pins are added under the mutex of the page's shard,
//!   or without it while the frame is not closed; a frame is closed while its page is evicted.
//! - **PB3** No shard's mutex is held during I/O.
//! - **PB4** A dirty page is written to the device before its eviction, so that it can be read
//!   again. After writing a page, the evicting thread checks it again: a page that was pinned or
//!   changed in the meantime stays.
//! - **PB5** A page is used only after its checksum, store, number and content were checked.
//! - **PB6** A page of the last checkpoint is overwritten only after its image was synced in the
//!   journal.
//! - **PB7** Every page is in use, on exactly one free list, or was never used.
//! - **PB8** A hosted file can be rolled back to every root that its store may name: to the last
//!   one known to be durable, and to all later ones. While a copy is made, no root is given up.
//! - **PB9** After a failed write, changed pages stay in memory, and readers continue.
//! - **PB10** Reads without a latch use a copy in atomic words, and are valid only if the page's
//!   version is unchanged afterwards. The version is raised before a page changes or leaves its
//!   frame.

mod arena;
mod checkpoint;
mod copy;
mod evict;
mod format;
mod frame;
mod frames;
mod hints;
mod hosted;
mod journal;
mod lending;
mod pool;
mod punch;
mod queue;
mod segments;
mod shard;
mod slab;
#[cfg(test)]
mod tests;

pub use arena::PageArena;
pub use checkpoint::FreeLists;
pub use format::PAGE_HEADER;
pub(in crate::paged) use format::{examples, reread};
pub use frame::{PageReadGuard, PageWriteGuard};
pub use hints::FrameHint;
pub use hosted::LastRoot;
pub use lending::LatchFreeAccess;
#[cfg(feature = "couplings")]
pub(in crate::paged) use lending::UnlatchedPage;
#[cfg(feature = "couplings")]
pub use lending::{OptimisticPage, PinPolicy};
pub(in crate::paged) use pool::{FRAME_BYTES, check_page_bytes};
pub use pool::{PagePool, PageValidator, PoolOptions, PoolStatistics};
pub use queue::QueuePolicy;
pub use segments::FIRST_SEGMENT;

use alluvium_storage::Result;

/// A buffer of pages by number, which are pinned and latched while they are used.
pub trait PageBuffer: LatchFreeAccess + Send + Sync + 'static {
    /// Pins a page and latches it for reading.
    ///
    /// # Errors
    /// I/O errors; damage; every frame is pinned.
    fn pin_shared(&self, page: u64) -> Result<PageReadGuard<'_>>;

    /// Pins a page and latches it for writing.
    ///
    /// # Errors
    /// The errors of [`PageBuffer::pin_shared`].
    fn pin_exclusive(&self, page: u64) -> Result<PageWriteGuard<'_>>;

    /// Does the same as [`PageBuffer::pin_shared`], with a hint to the page's frame.
    ///
    /// # Errors
    /// The errors of [`PageBuffer::pin_shared`].
    fn pin_shared_by(&self, page: u64, _way: Option<&FrameHint>) -> Result<PageReadGuard<'_>> {
        self.pin_shared(page)
    }

    /// Does the same as [`PageBuffer::pin_exclusive`], with a hint to the page's frame.
    ///
    /// # Errors
    /// The errors of [`PageBuffer::pin_shared`].
    fn pin_exclusive_by(&self, page: u64, _way: Option<&FrameHint>) -> Result<PageWriteGuard<'_>> {
        self.pin_exclusive(page)
    }

    /// Allocates a page, filled with zeros.
    ///
    /// # Errors
    /// A full disk, with nothing changed; every frame is pinned.
    fn allocate(&self) -> Result<PageWriteGuard<'_>>;

    /// Frees a page. Nothing may refer to it any more.
    fn free(&self, page: PageWriteGuard<'_>);

    /// Makes sure that `pages` pages can be allocated without growing the file.
    ///
    /// # Errors
    /// A full disk, with nothing changed.
    fn reserve(&self, pages: u64) -> Result<()>;

    /// Returns the bytes of a page that are available to its owner.
    fn content_bytes(&self) -> usize;

    /// Returns the number of frames; `None` if memory has no limit.
    fn frames(&self) -> Option<usize>;

    /// Refuses all later changes, because a change failed in the middle.
    fn poison(&self, cause: &str);

    /// Checks that changes are accepted.
    ///
    /// # Errors
    /// [`Error::Poisoned`](alluvium_storage::Error::Poisoned).
    fn writable(&self) -> Result<()>;
}
