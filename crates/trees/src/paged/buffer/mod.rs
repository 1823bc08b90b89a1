//! Pages in memory, pinned and latched: over a file, or all of them in memory.
//!
//! *Knows*: which page is in which frame, who uses it, which is evicted next; where pages are
//! in the file; how a checkpoint of all pages survives what is written over it.
//!
//! *Does not know*: what pages hold (`node`), which of them form a tree.
//!
//! *Read in this order*: [`PageBuffer`] here, `frame.rs`, `frames.rs`, `slab.rs`, `arena.rs`
//! (everything in memory: the thesis's "optimal" buffer), `queue.rs`, `segments.rs`, `format.rs`,
//! `hints.rs`, `shard.rs`, `pool.rs` (pins), `lending/` (other pins, and reading without any),
//! `evict.rs`, `journal.rs`, `checkpoint.rs`, `hosted.rs` (checkpoints that another store makes
//! durable), `punch.rs` (space of free pages), `copy.rs` (copies of those).
//!
//! Pages are written in place. A crash must not lose the checkpoint that they belong to, so the
//! old image of a page goes to a journal, and is synced there, before the page is first
//! overwritten after a checkpoint. Opening a file writes the images back: what is left is the
//! checkpoint, in which no page is torn, and the owner repeats what its own log has since.
//! Three reasons speak for old images rather than a log of changes. First, the store above logs
//! its commits already, so that a second log of them would double what is written. Second,
//! pages may be evicted at any moment, so that data can exceed memory between checkpoints.
//! Third, pages that are new since the checkpoint, most of them during a load, need no image at
//! all.
//!
//! Invariants:
//!
//! - **PB1** A page is in one frame at most.
//! - **PB2** A pinned page stays in its frame. Pins rise under the mutex of the page's shard, or
//!   without it while the frame is not closed; a page is evicted while it is.
//! - **PB3** No shard's mutex is held during I/O.
//! - **PB4** A page that was evicted dirty is on the device before it can be read again. Who
//!   evicts looks again after writing: a page that was pinned or written meanwhile stays.
//! - **PB5** A page is used only after its checksum, store, number and content were checked.
//! - **PB6** A page that the last checkpoint has is overwritten only after its image was synced
//!   in the journal.
//! - **PB7** A page is in use, on one free list, or was never used.
//! - **PB8** A hosted file can go back to every root that its store may name: to the last that is
//!   known to be durable, and to those after it. While a copy is made, it forgets none.
//! - **PB9** Once a write has failed, changed pages stay in memory, and readers go on.
//! - **PB10** What is read without a latch is a copy in atomic words, and counts only if the
//!   page's version is the same afterwards. It rises before a page changes or leaves its frame.

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

pub use arena::Arena;
pub use checkpoint::FreeLists;
pub use format::PAGE_HEADER;
pub(in crate::paged) use format::{examples, reread};
pub use frame::{Exclusive, Shared};
pub use hints::Way;
pub use hosted::LastRoot;
pub use lending::Lending;
#[cfg(feature = "couplings")]
pub(in crate::paged) use lending::Unlatched;
#[cfg(feature = "couplings")]
pub use lending::{Peek, PinPolicy};
pub(in crate::paged) use pool::{FRAME_BYTES, check_page_bytes};
pub use pool::{Pool, PoolOptions, PoolStatistics, Validate};
pub use queue::QueuePolicy;
pub use segments::FIRST_SEGMENT;

use alluvium_storage::Result;

/// Pages by number, pinned and latched while they are used.
pub trait PageBuffer: Lending + Send + Sync + 'static {
    /// Pins a page and latches it for reading.
    ///
    /// # Errors
    /// As the device says; damage; every frame pinned.
    fn pin_shared(&self, page: u64) -> Result<Shared<'_>>;

    /// Pins a page and latches it for writing.
    ///
    /// # Errors
    /// As [`PageBuffer::pin_shared`].
    fn pin_exclusive(&self, page: u64) -> Result<Exclusive<'_>>;

    /// The same as [`PageBuffer::pin_shared`], where a reference remembers the page's frame.
    ///
    /// # Errors
    /// As [`PageBuffer::pin_shared`].
    fn pin_shared_by(&self, page: u64, _way: Option<&Way>) -> Result<Shared<'_>> {
        self.pin_shared(page)
    }

    /// The same as [`PageBuffer::pin_exclusive`], where a reference remembers the page's frame.
    ///
    /// # Errors
    /// As [`PageBuffer::pin_shared`].
    fn pin_exclusive_by(&self, page: u64, _way: Option<&Way>) -> Result<Exclusive<'_>> {
        self.pin_exclusive(page)
    }

    /// Returns a page that is not in use, filled with zeros.
    ///
    /// # Errors
    /// A full disk, with nothing changed; every frame pinned.
    fn allocate(&self) -> Result<Exclusive<'_>>;

    /// Takes a page back that nothing leads to any more.
    fn free(&self, page: Exclusive<'_>);

    /// Makes sure that `pages` can be allocated without the file growing.
    ///
    /// # Errors
    /// A full disk, with nothing changed.
    fn reserve(&self, pages: u64) -> Result<()>;

    /// Returns how many bytes of a page are its owner's.
    fn content_bytes(&self) -> usize;

    /// Returns how many frames there are, none where memory has no limit.
    fn frames(&self) -> Option<usize>;

    /// Refuses every later change, because of a failure in the middle of one.
    fn poison(&self, cause: &str);

    /// Returns whether changes are taken.
    ///
    /// # Errors
    /// [`Error::Poisoned`](alluvium_storage::Error::Poisoned).
    fn writable(&self) -> Result<()>;
}
