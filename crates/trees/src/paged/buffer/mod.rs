//! A buffer that holds pages in memory. A page is pinned and latched while it is used. The pages
//! may belong to a file or exist only in memory.
//!
//! *Scope*: which page is in which frame, who uses it, and which page is evicted next; where pages
//! are stored in the file; how a checkpoint of all pages survives later overwrites.
//!
//! *Must not depend on*: page contents (`node`), which pages form a tree.
//!
//! Pages are updated in place, but a crash must not lose the last checkpoint. Therefore, before a
//! page is overwritten for the first time after a checkpoint, its old image is written to a journal
//! and synced. Opening a file writes these images back, which restores the checkpoint without torn
//! pages. The owner of the pages then replays later changes from its own log. A journal of old
//! images has three advantages over a log of changes. First, the store that uses the pages already
//! logs its commits, so a second log would double the number of bytes written. Second, pages may be
//! evicted at any time, so the data changed between two checkpoints may exceed memory. Third, a
//! page that is new since the checkpoint needs no image, and during a load most pages are new.
//!
//! Invariants:
//!
//! - **PB1** A page is in at most one frame.
//! - **PB2** A pinned page stays in its frame. A pin may be added under the mutex of the page's
//!   shard or, unless the frame is closed, without the mutex. A frame is closed while its page is
//!   being evicted.
//! - **PB3** No thread holds the mutex of a shard during I/O.
//! - **PB4** Before a dirty page is evicted, it is written to the device, so that it can be read
//!   again. The evicting thread checks the page again after writing it, and does not evict it if it
//!   has been pinned or changed in the meantime.
//! - **PB5** A page is used only after its checksum, store identity, page number and content have
//!   been checked.
//! - **PB6** A page of the last checkpoint is overwritten only after its old image in the journal
//!   has been synced.
//! - **PB7** Every page is in exactly one of three states: in use, on exactly one free list, or
//!   never used.
//! - **PB8** A hosted file can be rolled back to every root that its store may refer to: the last
//!   root known to be durable, and all later ones. While a copy is in progress, no root leaves this
//!   set.
//! - **PB9** After a failed write, changed pages stay in memory, so that readers can continue.
//! - **PB10** A reader without a latch reads a copy of the page in atomic words. What it read is
//!   valid only if the page's version is unchanged afterwards. The version is incremented before a
//!   page changes or leaves its frame.

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

/// A buffer of numbered pages. A page is pinned and latched while it is used.
pub trait PageBuffer: LatchFreeAccess + Send + Sync + 'static {
    /// Pins a page and latches it for reading.
    ///
    /// # Errors
    /// I/O errors; an error if the page is damaged or if every frame is pinned.
    fn pin_shared(&self, page: u64) -> Result<PageReadGuard<'_>>;

    /// Pins a page and latches it for writing.
    ///
    /// # Errors
    /// The errors of [`PageBuffer::pin_shared`].
    fn pin_exclusive(&self, page: u64) -> Result<PageWriteGuard<'_>>;

    /// Like [`PageBuffer::pin_shared`], but with a hint to the frame that may hold the page.
    ///
    /// # Errors
    /// The errors of [`PageBuffer::pin_shared`].
    fn pin_shared_by(&self, page: u64, _way: Option<&FrameHint>) -> Result<PageReadGuard<'_>> {
        self.pin_shared(page)
    }

    /// Like [`PageBuffer::pin_exclusive`], but with a hint to the frame that may hold the page.
    ///
    /// # Errors
    /// The errors of [`PageBuffer::pin_shared`].
    fn pin_exclusive_by(&self, page: u64, _way: Option<&FrameHint>) -> Result<PageWriteGuard<'_>> {
        self.pin_exclusive(page)
    }

    /// Allocates a page filled with zeros, and returns it latched for writing.
    ///
    /// # Errors
    /// An error if the disk is full, in which case nothing has changed, or if every frame is
    /// pinned.
    fn allocate(&self) -> Result<PageWriteGuard<'_>>;

    /// Frees a page, to which nothing may refer any more.
    fn free(&self, page: PageWriteGuard<'_>);

    /// Ensures that `pages` pages can be allocated without growing the file.
    ///
    /// # Errors
    /// An error if the disk is full. Nothing has changed in this case.
    fn reserve(&self, pages: u64) -> Result<()>;

    /// Returns the number of bytes of a page that are available to its owner.
    fn content_bytes(&self) -> usize;

    /// Returns the number of frames, or `None` if the buffer's memory is unlimited.
    fn frames(&self) -> Option<usize>;

    /// Makes the buffer refuse all later changes. This must be called if a change fails halfway.
    fn poison(&self, cause: &str);

    /// Returns an error if the buffer refuses changes.
    ///
    /// # Errors
    /// [`Error::Poisoned`](alluvium_storage::Error::Poisoned).
    fn writable(&self) -> Result<()>;
}
