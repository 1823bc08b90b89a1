//! The two traits of the crate: a directory of files, and a file of blocks.

use crate::{
    AlignedBuffer, DeviceCounters, DeviceOperation, IoBatch, IoOutcome, MemoryRegion, Result, Ticket,
};
use alluvium_base::Purpose;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// Whether requests use the operating system's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Bypasses the page cache (`O_DIRECT`): offsets and lengths are multiples of
    /// [`BLOCK`](crate::BLOCK). Where the file system refuses direct I/O, the implementation falls
    /// back to buffered I/O and adds a note to [`Directory::notes`].
    Direct,
    /// Uses the page cache. Only buffered files can be mapped.
    Buffered,
}

/// The access mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileAccessMode {
    /// Read-only; every change fails with [`Error::ReadOnly`](crate::Error::ReadOnly).
    ReadOnly,
    ReadWrite,
}

/// Options for opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOptions {
    /// Whether requests use the page cache.
    pub caching: CacheMode,
    pub access: FileAccessMode,
}

impl FileOptions {
    /// Direct and writable, as used for pages.
    pub const DIRECT: FileOptions = FileOptions {
        caching: CacheMode::Direct,
        access: FileAccessMode::ReadWrite,
    };
    /// Buffered and writable, as used for the log.
    pub const BUFFERED: FileOptions = FileOptions {
        caching: CacheMode::Buffered,
        access: FileAccessMode::ReadWrite,
    };

    /// Returns these options with read-only access.
    #[must_use]
    pub fn read_only(self) -> FileOptions {
        FileOptions {
            access: FileAccessMode::ReadOnly,
            ..self
        }
    }
}

/// Identifies one boot of one machine. While the id is unchanged, the page cache has kept its
/// contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootId(pub [u8; 16]);

/// Space on a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Bytes that an unprivileged process may still allocate.
    pub free: u64,
    /// Size of the file system.
    pub total: u64,
}

/// An exclusive or shared lock on a directory. It is released when dropped, and by the operating
/// system when the process dies.
pub struct DirectoryLock {
    _held: Box<dyn Any + Send + Sync>,
}

impl DirectoryLock {
    /// Creates a lock that is released when `held` is dropped.
    #[must_use]
    pub fn new(held: impl Any + Send + Sync) -> DirectoryLock {
        DirectoryLock {
            _held: Box::new(held),
        }
    }
}

impl fmt::Debug for DirectoryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

/// A directory of files, such as the one at a store's path.
///
/// Names are plain file names without separators. Changes to names are durable after
/// [`Directory::sync`] (D7).
///
/// No method has a default implementation: a forwarding directory could forget to override it.
pub trait Directory: Send + Sync + fmt::Debug {
    /// Creates an empty file.
    ///
    /// # Errors
    /// `AlreadyExists`, or I/O errors.
    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>>;

    /// Opens an existing file.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`, or I/O errors.
    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>>;

    /// Renames a file atomically, replacing any file called `to`. Open handles stay valid.
    ///
    /// # Errors
    /// `NotFound`, or I/O errors.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file. Open handles stay valid until dropped.
    ///
    /// # Errors
    /// `NotFound`, or I/O errors.
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the names of all files, sorted.
    ///
    /// # Errors
    /// I/O errors.
    fn list(&self) -> Result<Vec<String>>;

    /// Makes all earlier changes to names durable.
    ///
    /// # Errors
    /// I/O errors. They poison the directory as in D4: later creates, renames, removes and syncs
    /// fail.
    fn sync(&self) -> Result<()>;

    /// Acquires the exclusive lock called `name`, creating its file.
    ///
    /// # Errors
    /// `Locked` when another process or another handle of this process holds the lock.
    fn lock(&self, name: &str) -> Result<DirectoryLock>;

    /// Acquires the lock called `name` in shared mode. On a read-only file system where the lock's
    /// file does not exist, the call succeeds: no process can hold the lock there.
    ///
    /// # Errors
    /// `Locked` when the lock is held exclusively.
    fn lock_shared(&self, name: &str) -> Result<DirectoryLock>;

    /// Returns the free and total space of the file system.
    ///
    /// # Errors
    /// I/O errors.
    fn space(&self) -> Result<FileSystemSpace>;

    /// Identifies the current boot of the machine.
    fn boot_id(&self) -> BootId;

    /// Returns whether the directory was removed after it was opened.
    fn is_removed(&self) -> bool;

    /// Returns the I/O counters of all files of this directory, by purpose.
    fn counters(&self) -> &DeviceCounters;

    /// Returns remarks for users on how the directory works on this system, one sentence each
    /// ("O_DIRECT is refused by …").
    fn notes(&self) -> Vec<String>;

    /// Offers a memory region whose parts will be used as buffers, so that the implementation may
    /// register it with the kernel. This is a hint and affects only speed.
    ///
    /// Registration makes every page of the region resident and pins it until the directory and its
    /// files are dropped. Until then no part of the region may be returned to the operating system
    /// (`madvise`), because requests would keep using the old pages.
    fn register_memory(&self, region: MemoryRegion);

    /// Returns a path or another description of the location, for error messages.
    fn describe(&self) -> String;
}

/// One file of aligned blocks, read and written in batches.
///
/// Only methods that are composed of other methods have a default implementation: a forwarding file
/// could forget to override any other.
pub trait Device: Any + Send + Sync + fmt::Debug {
    /// Submits a batch without waiting for its completion. Errors are reported in the outcomes.
    ///
    /// # Panics
    /// If a request to a direct file is misaligned (D2).
    fn submit(&self, batch: IoBatch) -> Ticket;

    /// Makes progress without blocking, and returns whether the ticket is complete.
    fn poll(&self, ticket: &Ticket) -> bool;

    /// Blocks until the ticket is complete.
    fn wait(&self, ticket: &Ticket);

    /// Submits several batches, each with its own ticket. Devices that support it submit them with
    /// one call.
    ///
    /// # Panics
    /// As in [`Device::submit`].
    fn submit_many(&self, batches: Vec<IoBatch>) -> Vec<Ticket> {
        batches.into_iter().map(|batch| self.submit(batch)).collect()
    }

    /// Blocks until a batch has completed that is carried by the same part of the device as the
    /// ticket ([`Ticket::device_part`]): the ticket's own or another. It may return earlier, and
    /// returns at once when the ticket is complete. Devices without such parts wait for the ticket.
    fn wait_some(&self, ticket: &Ticket) {
        self.wait(ticket);
    }

    /// Returns the file's length in bytes.
    fn len(&self) -> u64;

    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the file was removed after it was opened. Its contents are lost when it is
    /// closed.
    fn is_removed(&self) -> bool;

    /// Extends the file to `len` bytes and allocates the space. The new range reads as zeros. Does
    /// nothing if the file is at least that long.
    ///
    /// # Errors
    /// `DiskFull`; nothing has changed.
    fn grow(&self, len: u64) -> Result<()>;

    /// Allocates space for a range inside the file, which may contain holes. Existing contents are
    /// kept.
    ///
    /// # Errors
    /// `DiskFull`; nothing has changed.
    fn allocate(&self, range: Range<u64>) -> Result<()>;

    /// Prepares a range inside the file for being overwritten; its current bytes are discarded. On
    /// a copy-on-write file system, or where another file shares the blocks, they are freed and new
    /// blocks are allocated. On other file systems this does nothing.
    ///
    /// # Errors
    /// `DiskFull`; the contents of the range may be lost.
    fn renew(&self, range: Range<u64>) -> Result<()>;

    /// Shortens the file to `len` bytes.
    ///
    /// # Errors
    /// I/O errors.
    fn truncate(&self, len: u64) -> Result<()>;

    /// Frees the space of a range: it reads as zeros afterwards, and the length is unchanged. Does
    /// nothing where holes are not supported.
    ///
    /// # Errors
    /// I/O errors.
    fn punch_hole(&self, range: Range<u64>) -> Result<()>;

    /// Maps a range of a buffered file into memory, shared. Stores survive a crash of the process
    /// at once, and a crash of the machine after a sync.
    ///
    /// # Errors
    /// `Unsupported` for direct files and on copy-on-write file systems.
    fn map(&self, range: Range<u64>) -> Result<FileMapping>;

    /// Copies a range of another file, which may be in another directory, to the same offsets of
    /// this file. The range must lie within both files. On a file system that can share blocks
    /// between the two files, no data is moved.
    ///
    /// Neither file may be written in the range during the call. The copy is durable after a sync.
    ///
    /// # Errors
    /// The errors of reading the source and writing this file; part of the range may have been
    /// copied.
    fn copy_from(&self, source: &dyn Device, range: Range<u64>, purpose: Purpose) -> Result<()> {
        copy(self, source, range, purpose)
    }

    /// Returns the name under which the file was opened, for error messages.
    fn name(&self) -> &str;

    /// Submits one batch, waits for it, and returns the outcomes in request order.
    fn perform(&self, batch: IoBatch) -> Vec<IoOutcome> {
        let ticket = self.submit(batch);
        self.wait(&ticket);
        ticket.take()
    }

    /// Submits one batch, waits for it, and returns the buffers of its reads and writes.
    ///
    /// # Errors
    /// The first error of the batch.
    fn run(&self, batch: IoBatch) -> Result<Vec<AlignedBuffer>> {
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
    /// `PastEnd`, or I/O errors.
    fn read_at(&self, offset: u64, len: usize, purpose: Purpose) -> Result<AlignedBuffer> {
        let mut batch = IoBatch::with_capacity(1);
        batch.read(offset, AlignedBuffer::zeroed(len), purpose);
        Ok(self.run(batch)?.remove(0))
    }

    /// Writes a buffer at `offset`, blocking, and returns the buffer.
    ///
    /// # Errors
    /// `PastEnd` if the range exceeds the file's length, or I/O errors.
    fn write_at(&self, offset: u64, buffer: AlignedBuffer, purpose: Purpose) -> Result<AlignedBuffer> {
        let mut batch = IoBatch::with_capacity(1);
        batch.write(offset, buffer, purpose);
        Ok(self.run(batch)?.remove(0))
    }

    /// Makes every completed write durable, blocking.
    ///
    /// # Errors
    /// I/O errors; they poison the file (D4).
    fn sync(&self, purpose: Purpose) -> Result<()> {
        let mut batch = IoBatch::with_capacity(1);
        batch.sync(purpose);
        self.run(batch).map(|_| ())
    }
}

/// Bytes per request of a copy. The next constant is the number of requests per batch.
const COPIED: u64 = 1 << 20;
const COPIES: u64 = 4;

/// Copies a range in batches, reading the next batch while the previous one is written.
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
        let mut batch = IoBatch::with_capacity(COPIES as usize);
        for piece in pieces() {
            let len = COPIED.min(to - piece) as usize;
            batch.read(piece, AlignedBuffer::zeroed(len), purpose);
        }
        let buffers = source.run(batch)?;
        if let Some(ticket) = writing.take() {
            target.wait(&ticket);
            ticket.take_buffers()?;
        }
        let mut batch = IoBatch::with_capacity(COPIES as usize);
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

/// The backing of a [`FileMapping`]: a real mapping, or memory that the simulator persists page by
/// page.
pub trait MappingBacking: Send + Sync {
    /// Makes the pages of a range (relative to the mapping) durable. A failure poisons the file
    /// (D4).
    ///
    /// # Errors
    /// I/O errors.
    fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()>;

    /// Faults in the pages of a range for writing, so that later stores do not fault. Contents are
    /// kept.
    ///
    /// # Errors
    /// I/O errors.
    fn populate(&self, range: Range<u64>) -> Result<()>;

    /// Drops the pages of a range from this process's memory; the page cache keeps their contents.
    /// This is a hint.
    fn release_pages(&self, _range: Range<u64>) {}
}

/// A range of a file in memory, shared with the page cache.
#[derive(Clone)]
pub struct FileMapping {
    start: NonNull<u8>,
    len: usize,
    backing: Arc<dyn MappingBacking>,
    /// Set when a store has failed.
    broken: Option<&'static AtomicBool>,
}

// SAFETY: the mapping gives access to its bytes only through `unsafe` functions whose callers
// coordinate.
unsafe impl Send for FileMapping {}
// SAFETY: as above.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Creates a mapping of `len` bytes at `start`, valid while `backing` lives.
    ///
    /// # Safety
    /// `start..start + len` stays valid for reads and writes while `backing` lives.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, len: usize, backing: Arc<dyn MappingBacking>) -> FileMapping {
        FileMapping {
            start,
            len,
            backing,
            broken: None,
        }
    }

    /// Returns the mapping with `mark` as its failure flag, which is set when a store fails.
    #[must_use]
    pub(crate) fn marked_by(self, mark: &'static AtomicBool) -> FileMapping {
        FileMapping {
            broken: Some(mark),
            ..self
        }
    }

    /// Returns whether a store has failed, so that recent stores may be lost: the file system or
    /// the device has failed, or the file was shortened. A writer checks this before it relies on
    /// its stores. The next sync fails too.
    #[must_use]
    #[inline]
    pub fn is_broken(&self) -> bool {
        // The flag is set by a signal handler that interrupts a store of this thread.
        compiler_fence(Ordering::SeqCst);
        self.broken.is_some_and(|mark| mark.load(Ordering::Relaxed))
    }

    /// Returns the length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Stores bytes at `at`.
    ///
    /// # Safety
    /// Nothing else reads or writes `at..at + bytes.len()` of this file's mappings during the call.
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
    /// I/O errors; they poison the file (D4).
    pub fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()> {
        self.backing.sync(range, purpose)
    }

    /// Faults in the pages of `range` for writing, so that later stores do not fault.
    ///
    /// # Errors
    /// I/O errors.
    pub fn populate(&self, range: Range<u64>) -> Result<()> {
        self.backing.populate(range)
    }

    /// Drops the pages of `range` from this process's memory once the writer is done with them. The
    /// page cache keeps their contents. This is a hint.
    pub fn release_pages(&self, range: Range<u64>) {
        self.backing.release_pages(range);
    }
}

impl fmt::Debug for FileMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("start", &self.start)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Checks a request against D2; every implementation calls it first.
///
/// # Panics
/// If a direct request is misaligned.
pub(crate) fn check_alignment(
    operation: DeviceOperation,
    file: &str,
    caching: CacheMode,
    offset: u64,
    len: u64,
) {
    if caching == CacheMode::Direct {
        assert!(
            offset.is_multiple_of(crate::BLOCK) && len.is_multiple_of(crate::BLOCK) && len > 0,
            "{operation} {file} at {offset}, {len} bytes: a direct request is a multiple of {} bytes (D2)",
            crate::BLOCK
        );
    }
}
