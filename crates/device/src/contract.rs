//! The two traits of the crate: a directory of files, and a file of blocks.

use crate::{Batch, Buffer, Counters, MemoryRegion, Operation, Outcome, Result, Ticket};
use alluvium_base::Purpose;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// Whether requests go through the operating system's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caching {
    /// Past it (`O_DIRECT`): offsets and lengths are multiples of [`BLOCK`](crate::BLOCK). Where a
    /// file system refuses, the implementation falls back to buffered and says so in
    /// [`Directory::notes`].
    Direct,
    /// Through it. Only such files can be mapped.
    Buffered,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading only; every change fails with [`Error::ReadOnly`](crate::Error::ReadOnly).
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOptions {
    /// Through the page cache or past it.
    pub caching: Caching,
    /// For reading or for writing too.
    pub access: Access,
}

impl FileOptions {
    /// Direct, for reading and writing: what pages use.
    pub const DIRECT: FileOptions = FileOptions {
        caching: Caching::Direct,
        access: Access::ReadWrite,
    };
    /// Buffered, for reading and writing: what the log uses.
    pub const BUFFERED: FileOptions = FileOptions {
        caching: Caching::Buffered,
        access: Access::ReadWrite,
    };

    /// The same, for reading only.
    #[must_use]
    pub fn read_only(self) -> FileOptions {
        FileOptions {
            access: Access::ReadOnly,
            ..self
        }
    }
}

/// Names one boot of one machine: equal while the machine has not been restarted, so that what the
/// page cache held is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootId(pub [u8; 16]);

/// Space on a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What an unprivileged process may still allocate.
    pub free: u64,
    /// The file system's size.
    pub total: u64,
}

/// An exclusive claim on a directory, given back when dropped (and by the operating system when the
/// process dies).
pub struct Lock {
    _held: Box<dyn Any + Send + Sync>,
}

impl Lock {
    /// Creates a lock that is given back when `held` is dropped.
    #[must_use]
    pub fn new(held: impl Any + Send + Sync) -> Lock {
        Lock {
            _held: Box::new(held),
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

/// A directory of files: what a store's path names.
///
/// Names are plain file names, without separators. Changes of names are durable after
/// [`Directory::sync`] (D7).
///
/// No method has a default: a directory that forwards to another could miss it.
pub trait Directory: Send + Sync + fmt::Debug {
    /// Creates an empty file.
    ///
    /// # Errors
    /// `AlreadyExists`, or as the operating system says.
    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>>;

    /// Opens a file that exists.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`, or as the operating system says.
    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>>;

    /// Renames a file, replacing what has the new name, atomically. Open handles stay valid.
    ///
    /// # Errors
    /// `NotFound`, or as the operating system says.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file. Open handles stay valid until dropped.
    ///
    /// # Errors
    /// `NotFound`, or as the operating system says.
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the names of all files, sorted.
    ///
    /// # Errors
    /// As the operating system says.
    fn list(&self) -> Result<Vec<String>>;

    /// Makes every change of names so far durable.
    ///
    /// # Errors
    /// As the operating system says. Poisons the directory like D4: later creates, renames, removes
    /// and syncs fail.
    fn sync(&self) -> Result<()>;

    /// Takes the exclusive lock with this name, creating its file.
    ///
    /// # Errors
    /// `Locked` when another process, or another handle in this one, has it.
    fn lock(&self, name: &str) -> Result<Lock>;

    /// Takes the lock with this name, shared with others that take it by this call. On a read-only
    /// file system where the lock's file does not exist, it succeeds: no process can hold the lock
    /// there.
    ///
    /// # Errors
    /// `Locked` when another holder has the lock exclusively.
    fn lock_shared(&self, name: &str) -> Result<Lock>;

    /// Returns the space on the file system.
    ///
    /// # Errors
    /// As the operating system says.
    fn space(&self) -> Result<Space>;

    /// Returns which boot of which machine this is.
    fn boot_id(&self) -> BootId;

    /// Returns whether the directory was removed since it was opened.
    fn is_removed(&self) -> bool;

    /// Returns what was counted for all files of this directory, by purpose.
    fn counters(&self) -> &Counters;

    /// Returns what a user should know about how the directory works here, a sentence each
    /// ("O_DIRECT is refused by …").
    fn notes(&self) -> Vec<String>;

    /// Offers a region whose parts will be used as buffers, so that it may be registered with the
    /// kernel. A hint: it changes speed only.
    ///
    /// Registering makes every page of the region resident and pins it until the directory and its
    /// files are dropped: a region must not be given back to the operating system in parts
    /// (`madvise`) meanwhile, because requests would go on using the old pages.
    fn register_memory(&self, region: MemoryRegion);

    /// Returns a path or another name of the place, for error texts.
    fn describe(&self) -> String;
}

/// One file: aligned blocks, read and written in batches.
///
/// Only methods that are made of others have a default: a file that forwards to another could miss
/// any other.
pub trait Device: Any + Send + Sync + fmt::Debug {
    /// Hands a batch over. Never blocks for its completion; errors are in the outcomes.
    ///
    /// # Panics
    /// When a request is misaligned on a direct file (D2).
    fn submit(&self, batch: Batch) -> Ticket;

    /// Makes what progress is possible without blocking. Returns whether the ticket is complete.
    fn poll(&self, ticket: &Ticket) -> bool;

    /// Blocks until the ticket is complete.
    fn wait(&self, ticket: &Ticket);

    /// Hands several batches over, each with a ticket of its own, at the cost of one where the
    /// device can.
    ///
    /// # Panics
    /// As [`Device::submit`].
    fn submit_many(&self, batches: Vec<Batch>) -> Vec<Ticket> {
        batches.into_iter().map(|batch| self.submit(batch)).collect()
    }

    /// Blocks until something has completed that the same part of the device carries as the ticket
    /// ([`Ticket::home`]): the ticket, or another. It may return earlier, and does when the ticket
    /// is complete. Devices without such parts wait for the ticket.
    fn wait_some(&self, ticket: &Ticket) {
        self.wait(ticket);
    }

    /// Returns the file's length in bytes.
    fn len(&self) -> u64;

    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the file was removed since it was opened: what it holds is gone once it is
    /// closed.
    fn is_removed(&self) -> bool;

    /// Extends the file to `len` bytes, with its space allocated on the file system, reading as
    /// zeros. Shorter than the current length: nothing happens.
    ///
    /// # Errors
    /// `DiskFull` with nothing changed.
    fn grow(&self, len: u64) -> Result<()>;

    /// Allocates space for a range inside the file that a hole may have taken; what was there
    /// stays.
    ///
    /// # Errors
    /// `DiskFull` with nothing changed.
    fn allocate(&self, range: Range<u64>) -> Result<()>;

    /// Prepares a range inside the file whose bytes are not needed any more for being written
    /// again: where a file system writes to a new place what was written before, or another file
    /// shares the blocks, they are given back and others are taken. Elsewhere nothing happens.
    ///
    /// # Errors
    /// `DiskFull`: what the range had may be gone then.
    fn renew(&self, range: Range<u64>) -> Result<()>;

    /// Shortens the file to `len` bytes.
    ///
    /// # Errors
    /// As the operating system says.
    fn truncate(&self, len: u64) -> Result<()>;

    /// Gives a range back to the file system: it reads as zeros, the length stays. Where holes are
    /// not supported, nothing happens.
    ///
    /// # Errors
    /// As the operating system says.
    fn punch_hole(&self, range: Range<u64>) -> Result<()>;

    /// Maps a range of a buffered file into memory, shared: what is stored there survives the
    /// process at once, and the machine after a sync.
    ///
    /// # Errors
    /// `Unsupported` for direct files and where the file system copies on write.
    fn map(&self, range: Range<u64>) -> Result<Mapping>;

    /// Copies a range of another file, of whatever directory, to the same place here. It lies
    /// within both files. Where one file system holds both and can let them share the blocks,
    /// nothing is moved.
    ///
    /// Nothing writes to the range of either file meanwhile. What was copied is durable after a
    /// sync.
    ///
    /// # Errors
    /// As reading there and writing here; some of the range may have been copied then.
    fn copy_from(&self, source: &dyn Device, range: Range<u64>, purpose: Purpose) -> Result<()> {
        copy(self, source, range, purpose)
    }

    /// Returns the file's name within its directory, for error texts (the name it was opened
    /// under).
    fn name(&self) -> &str;

    /// Submits one batch, waits for it, and returns what became of each request, in their order.
    fn perform(&self, batch: Batch) -> Vec<Outcome> {
        let ticket = self.submit(batch);
        self.wait(&ticket);
        ticket.take()
    }

    /// Submits one batch, waits for it, and returns the buffers of its reads and writes.
    ///
    /// # Errors
    /// The first error of the batch.
    fn run(&self, batch: Batch) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(batch.len());
        for outcome in self.perform(batch) {
            outcome.result?;
            buffers.extend(outcome.buffer);
        }
        Ok(buffers)
    }

    /// Reads `len` bytes at `offset`, blocking.
    ///
    /// # Errors
    /// `PastEnd`, or as the operating system says.
    fn read_at(&self, offset: u64, len: usize, purpose: Purpose) -> Result<Buffer> {
        let mut batch = Batch::with_capacity(1);
        batch.read(offset, Buffer::zeroed(len), purpose);
        Ok(self.run(batch)?.remove(0))
    }

    /// Writes a buffer at `offset`, blocking, and gives it back.
    ///
    /// # Errors
    /// `PastEnd` outside the file's length, or as the operating system says.
    fn write_at(&self, offset: u64, buffer: Buffer, purpose: Purpose) -> Result<Buffer> {
        let mut batch = Batch::with_capacity(1);
        batch.write(offset, buffer, purpose);
        Ok(self.run(batch)?.remove(0))
    }

    /// Makes every completed write durable, blocking.
    ///
    /// # Errors
    /// As the operating system says; the file is poisoned then (D4).
    fn sync(&self, purpose: Purpose) -> Result<()> {
        let mut batch = Batch::with_capacity(1);
        batch.sync(purpose);
        self.run(batch).map(|_| ())
    }
}

/// How much of a copy is in one request, in bytes, and how many requests are in a batch.
const COPIED: u64 = 1 << 20;
const COPIES: u64 = 4;

/// Copies a range by batches: while one is written, the next is read.
pub(crate) fn copy<D: Device + ?Sized>(
    target: &D,
    source: &dyn Device,
    range: Range<u64>,
    purpose: Purpose,
) -> Result<()> {
    let mut writing: Option<Ticket> = None;
    let mut at = range.start;
    while at < range.end {
        let to = range.end.min(at + COPIES * COPIED);
        let pieces = || (at..to).step_by(COPIED as usize);
        let mut batch = Batch::with_capacity(COPIES as usize);
        for piece in pieces() {
            let len = COPIED.min(to - piece) as usize;
            batch.read(piece, Buffer::zeroed(len), purpose);
        }
        let buffers = source.run(batch)?;
        if let Some(ticket) = writing.take() {
            target.wait(&ticket);
            ticket.take_buffers()?;
        }
        let mut batch = Batch::with_capacity(COPIES as usize);
        for (buffer, piece) in buffers.into_iter().zip(pieces()) {
            batch.write(piece, buffer, purpose);
        }
        writing = Some(target.submit(batch));
        at = to;
    }
    if let Some(ticket) = writing {
        target.wait(&ticket);
        ticket.take_buffers()?;
    }
    Ok(())
}

/// What stands behind a [`Mapping`]: a real mapping, or memory that the simulator persists page by
/// page.
pub trait MappingBacking: Send + Sync {
    /// Makes the pages of a range (relative to the mapping) durable. A failure poisons the file
    /// (D4).
    ///
    /// # Errors
    /// As the operating system says.
    fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()>;

    /// Touches the pages of a range for writing, so that later stores do not fault. Contents stay.
    ///
    /// # Errors
    /// As the operating system says.
    fn populate(&self, range: Range<u64>) -> Result<()>;

    /// Takes the pages of a range out of this process's memory. The page cache keeps what they
    /// hold. A hint.
    fn let_go(&self, _range: Range<u64>) {}
}

/// A range of a file in memory, shared with the page cache.
#[derive(Clone)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    backing: Arc<dyn MappingBacking>,
    /// Set when a store failed.
    broken: Option<&'static AtomicBool>,
}

// SAFETY: the mapping gives access to its bytes only through `unsafe` functions whose callers
// coordinate.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Creates a mapping of `len` bytes at `start`, alive while `backing` is.
    ///
    /// # Safety
    /// `start..start + len` stays valid for reads and writes while `backing` lives.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, len: usize, backing: Arc<dyn MappingBacking>) -> Mapping {
        Mapping {
            start,
            len,
            backing,
            broken: None,
        }
    }

    /// The same mapping, of which `mark` tells that a store failed, while the backing lives.
    #[must_use]
    pub(crate) fn marked_by(self, mark: &'static AtomicBool) -> Mapping {
        Mapping {
            broken: Some(mark),
            ..self
        }
    }

    /// Returns whether a store failed, so that what was stored last may be nowhere: the file system
    /// or the device has failed, or the file was shortened. A writer asks this before relying on
    /// it. The next sync fails, too.
    #[must_use]
    #[inline]
    pub fn is_broken(&self) -> bool {
        // The mark is set by a signal in the middle of a store of this thread.
        compiler_fence(Ordering::SeqCst);
        self.broken.is_some_and(|mark| mark.load(Ordering::Relaxed))
    }

    /// Its length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the first byte's address.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Stores bytes at `at`.
    ///
    /// # Safety
    /// Nothing else reads or writes `at..at + bytes.len()` of this file's mappings meanwhile.
    ///
    /// # Panics
    /// When the range is outside the mapping.
    #[inline]
    pub unsafe fn write(&self, at: usize, bytes: &[u8]) {
        assert!(
            at <= self.len && bytes.len() <= self.len - at,
            "a store of {} bytes at {at} of a mapping of {}",
            bytes.len(),
            self.len
        );
        // SAFETY: inside the mapping, asserted above; exclusive by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len()) }
    }

    /// Makes the pages that hold `range` durable, blocking.
    ///
    /// # Errors
    /// As the operating system says; the file is poisoned then (D4).
    pub fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()> {
        self.backing.sync(range, purpose)
    }

    /// Touches the pages of `range` for writing, so that later stores do not fault.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn populate(&self, range: Range<u64>) -> Result<()> {
        self.backing.populate(range)
    }

    /// Takes the pages of `range` out of this process's memory, for a writer who is done with them.
    /// The page cache keeps what they hold. A hint.
    pub fn let_go(&self, range: Range<u64>) {
        self.backing.let_go(range);
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("start", &self.start)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Checks a request against D2 and the file's bounds; every implementation calls it first.
///
/// # Panics
/// When a direct request is misaligned.
pub(crate) fn check_alignment(operation: Operation, file: &str, caching: Caching, offset: u64, len: u64) {
    if caching == Caching::Direct {
        assert!(
            offset.is_multiple_of(crate::BLOCK) && len.is_multiple_of(crate::BLOCK) && len > 0,
            "{operation} {file} at {offset}, {len} bytes: a direct request is a multiple of {} bytes (D2)",
            crate::BLOCK
        );
    }
}
