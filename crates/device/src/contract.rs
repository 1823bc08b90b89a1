//! The two traits of this crate: [`Directory`], a directory of files, and [`Device`], a file of
//! aligned blocks.

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

/// Whether requests to a file use the operating system's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Requests bypass the page cache (`O_DIRECT`). Offsets and lengths must be multiples of
    /// [`BLOCK`](crate::BLOCK). If the file system refuses direct I/O, buffered I/O is used
    /// instead, and [`Directory::notes`] says so.
    Direct,
    /// Requests use the page cache. Only files opened in this mode can be mapped.
    Buffered,
}

/// The access mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileAccessMode {
    /// The file can only be read. Changes fail with [`Error::ReadOnly`](crate::Error::ReadOnly).
    ReadOnly,
    ReadWrite,
}

/// Options for opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOptions {
    /// Whether requests to the file use the page cache.
    pub caching: CacheMode,
    pub access: FileAccessMode,
}

impl FileOptions {
    /// Direct I/O with write access, as used for page files.
    pub const DIRECT: FileOptions = FileOptions {
        caching: CacheMode::Direct,
        access: FileAccessMode::ReadWrite,
    };
    /// Buffered I/O with write access, as used for log files.
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

/// Identifies a boot of a machine. While the id stays the same, the page cache has kept its
/// contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootId(pub [u8; 16]);

/// The free space and the size of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Number of bytes that an unprivileged process may still allocate.
    pub free: u64,
    /// Total size of the file system in bytes.
    pub total: u64,
}

/// An exclusive or shared lock on a directory, which is released on drop. If the process dies, the
/// operating system releases it.
pub struct DirectoryLock {
    _held: Box<dyn Any + Send + Sync>,
}

impl DirectoryLock {
    /// Creates a lock that is released by dropping `held`.
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
/// File names must not contain separators. Creations, renames and removals of files become durable
/// with [`Directory::sync`] (D7).
///
/// No method has a default implementation. Otherwise, a directory that forwards its calls to
/// another one could forget to forward a method.
pub trait Directory: Send + Sync + fmt::Debug {
    /// Creates an empty file called `name` and opens it.
    ///
    /// # Errors
    /// `AlreadyExists` if a file of that name exists; I/O errors.
    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>>;

    /// Opens an existing file.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`, or I/O errors.
    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>>;

    /// Atomically renames the file `from` to `to`, replacing any existing file called `to`. Open
    /// handles of the file stay valid.
    ///
    /// # Errors
    /// `NotFound`, or I/O errors.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes the file called `name`. Open handles of the file stay valid until they are dropped.
    ///
    /// # Errors
    /// `NotFound`, or I/O errors.
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the names of all files in the directory, sorted.
    ///
    /// # Errors
    /// I/O errors.
    fn list(&self) -> Result<Vec<String>>;

    /// Makes all earlier creations, renames and removals of files durable.
    ///
    /// # Errors
    /// I/O errors. As in D4, an error poisons the directory: all later creations, renames, removals
    /// and syncs fail.
    fn sync(&self) -> Result<()>;

    /// Acquires the lock called `name` in exclusive mode. The lock file is created if necessary.
    ///
    /// # Errors
    /// `Locked` if another process, or another handle in this process, holds the lock.
    fn lock(&self, name: &str) -> Result<DirectoryLock>;

    /// Acquires the lock called `name` in shared mode. If there is no lock file on a read-only file
    /// system, this succeeds, because no process can hold the lock there.
    ///
    /// # Errors
    /// `Locked` if the lock is held in exclusive mode.
    fn lock_shared(&self, name: &str) -> Result<DirectoryLock>;

    /// Returns the free space and the size of the directory's file system.
    ///
    /// # Errors
    /// I/O errors.
    fn space(&self) -> Result<FileSystemSpace>;

    /// Returns the id of the current boot of the machine.
    fn boot_id(&self) -> BootId;

    /// Returns whether the directory was removed while it was open.
    fn is_removed(&self) -> bool;

    /// Returns the I/O counters of all files in this directory, by purpose.
    fn counters(&self) -> &DeviceCounters;

    /// Returns notes for the user about how the directory works on this system, one sentence each
    /// ("O_DIRECT is refused by …").
    fn notes(&self) -> Vec<String>;

    /// Announces a memory region whose parts will be used as buffers, so that it may be registered
    /// with the kernel. This is only a hint that affects speed.
    ///
    /// Registration makes every page of the region resident and pins it until the directory and its
    /// files are dropped. Until then, no part of the region may be returned to the operating system
    /// (`madvise`), because requests would keep using the old pages.
    fn register_memory(&self, region: MemoryRegion);

    /// Returns the path or another description of the directory, for error messages.
    fn describe(&self) -> String;
}

/// A file of aligned blocks, which is read and written in batches of requests.
///
/// Only methods that are composed of other methods have a default implementation. Otherwise, a file
/// that forwards its calls to another one could forget to forward a method.
pub trait Device: Any + Send + Sync + fmt::Debug {
    /// Submits a batch and returns without waiting for it. Errors are reported in the outcomes.
    ///
    /// # Panics
    /// If a request to a direct file is misaligned (D2).
    fn submit(&self, batch: IoBatch) -> Ticket;

    /// Makes progress on the ticket's batch without blocking. Returns whether the batch is
    /// complete.
    fn poll(&self, ticket: &Ticket) -> bool;

    /// Blocks until the ticket's batch is complete.
    fn wait(&self, ticket: &Ticket);

    /// Submits several batches and returns a ticket for each, with a single system call if the
    /// device supports it.
    ///
    /// # Panics
    /// As [`Device::submit`].
    fn submit_many(&self, batches: Vec<IoBatch>) -> Vec<Ticket> {
        batches.into_iter().map(|batch| self.submit(batch)).collect()
    }

    /// Blocks until some batch completes on the device part that executes this ticket's batch
    /// ([`Ticket::device_part`]). May return earlier, and returns at once if the ticket is
    /// complete. A device without parts waits for the ticket itself.
    fn wait_some(&self, ticket: &Ticket) {
        self.wait(ticket);
    }

    /// Returns the length of the file in bytes.
    fn len(&self) -> u64;

    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the file was removed while it was open. Its contents are then lost when it
    /// is closed.
    fn is_removed(&self) -> bool;

    /// Extends the file to `len` bytes and allocates space for the new range, which reads as zeros.
    /// Does nothing if the file is already that long.
    ///
    /// # Errors
    /// `DiskFull` if there is not enough space, in which case the file is unchanged.
    fn grow(&self, len: u64) -> Result<()>;

    /// Allocates space for all holes in a range inside the file, whose contents stay the same.
    ///
    /// # Errors
    /// `DiskFull` if there is not enough space, in which case the file is unchanged.
    fn allocate(&self, range: Range<u64>) -> Result<()>;

    /// Prepares a range inside the file for being overwritten, and may discard its contents. If the
    /// file system copies on write, or if another file shares the range's blocks, the blocks are
    /// freed and new ones are allocated. Otherwise, this does nothing.
    ///
    /// # Errors
    /// `DiskFull` if there is not enough space, in which case the contents of the range may be
    /// lost.
    fn renew(&self, range: Range<u64>) -> Result<()>;

    /// Shortens the file to `len` bytes.
    ///
    /// # Errors
    /// I/O errors.
    fn truncate(&self, len: u64) -> Result<()>;

    /// Frees the space of a range of the file, which then reads as zeros. The length of the file
    /// stays the same. If holes are not supported, this does nothing.
    ///
    /// # Errors
    /// I/O errors.
    fn punch_hole(&self, range: Range<u64>) -> Result<()>;

    /// Maps a range of a buffered file into memory, shared with the page cache. A store into the
    /// mapping survives a process crash at once, but a crash of the machine only after a sync.
    ///
    /// # Errors
    /// `Unsupported` for a direct file and on a copy-on-write file system.
    fn map(&self, range: Range<u64>) -> Result<FileMapping>;

    /// Copies a range of the file `source` to the same offsets in this file. The source may be in
    /// another directory, and the range must be inside both files. If the file system can share
    /// blocks between the two files, no data is moved.
    ///
    /// Neither file may be written within the range during the call. The copy becomes durable with
    /// a sync.
    ///
    /// # Errors
    /// Errors of reading the source or writing this file. Part of the range may have been copied by
    /// then.
    fn copy_from(&self, source: &dyn Device, range: Range<u64>, purpose: Purpose) -> Result<()> {
        copy(self, source, range, purpose)
    }

    /// Returns the name under which the file was opened, for error messages.
    fn name(&self) -> &str;

    /// Submits a batch, waits for it, and returns its outcomes in the order of its requests.
    fn perform(&self, batch: IoBatch) -> Vec<IoOutcome> {
        let ticket = self.submit(batch);
        self.wait(&ticket);
        ticket.take()
    }

    /// Submits a batch, waits for it, and returns the buffers of its reads and writes.
    ///
    /// # Errors
    /// The first error among the outcomes of the batch.
    fn run(&self, batch: IoBatch) -> Result<Vec<AlignedBuffer>> {
        let mut buffers = Vec::with_capacity(batch.len());
        for outcome in self.perform(batch) {
            outcome.result?;
            buffers.extend(outcome.buffer);
        }
        Ok(buffers)
    }

    /// Reads `len` bytes at `offset`, and blocks until they are read.
    ///
    /// # Errors
    /// `PastEnd` if the range extends past the end of the file; I/O errors.
    fn read_at(&self, offset: u64, len: usize, purpose: Purpose) -> Result<AlignedBuffer> {
        let mut batch = IoBatch::with_capacity(1);
        batch.read(offset, AlignedBuffer::zeroed(len), purpose);
        Ok(self.run(batch)?.remove(0))
    }

    /// Writes a buffer at `offset`, blocks until it is written, and returns the buffer.
    ///
    /// # Errors
    /// `PastEnd` if the range extends past the end of the file; I/O errors.
    fn write_at(&self, offset: u64, buffer: AlignedBuffer, purpose: Purpose) -> Result<AlignedBuffer> {
        let mut batch = IoBatch::with_capacity(1);
        batch.write(offset, buffer, purpose);
        Ok(self.run(batch)?.remove(0))
    }

    /// Blocks until every completed write is durable.
    ///
    /// # Errors
    /// I/O errors. An error poisons the file (D4).
    fn sync(&self, purpose: Purpose) -> Result<()> {
        let mut batch = IoBatch::with_capacity(1);
        batch.sync(purpose);
        self.run(batch).map(|_| ())
    }
}

/// A copy transfers `COPIED` bytes per request, with `COPIES` requests in each batch.
const COPIED: u64 = 1 << 20;
const COPIES: u64 = 4;

/// Copies a range in batches. Each batch is read while the previous one is written.
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

/// The backing of a [`FileMapping`]: a real mapping, or memory whose pages the simulator makes
/// durable one by one.
pub trait MappingBacking: Send + Sync {
    /// Makes the pages of `range` durable. The range is relative to the mapping. A failure poisons
    /// the file (D4).
    ///
    /// # Errors
    /// I/O errors.
    fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()>;

    /// Faults in the pages of a range for writing, so that later stores do not cause page faults.
    /// The contents stay the same.
    ///
    /// # Errors
    /// I/O errors.
    fn populate(&self, range: Range<u64>) -> Result<()>;

    /// Drops the pages of a range from this process's memory. The page cache keeps their contents.
    /// This is only a hint.
    fn release_pages(&self, _range: Range<u64>) {}
}

/// A range of a file mapped into memory, shared with the page cache.
#[derive(Clone)]
pub struct FileMapping {
    start: NonNull<u8>,
    len: usize,
    backing: Arc<dyn MappingBacking>,
    /// A flag that is set when a store into the mapping fails.
    broken: Option<&'static AtomicBool>,
}

// SAFETY: only `unsafe` functions give access to the bytes, and their callers must coordinate their
// accesses.
unsafe impl Send for FileMapping {}
// SAFETY: as above.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Creates a mapping of `len` bytes at `start`, which lives as long as `backing`.
    ///
    /// # Safety
    /// `start..start + len` must stay valid for reads and writes as long as `backing` lives.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, len: usize, backing: Arc<dyn MappingBacking>) -> FileMapping {
        FileMapping {
            start,
            len,
            backing,
            broken: None,
        }
    }

    /// Returns this mapping with `mark` as the flag that is set when a store into the mapping
    /// fails.
    #[must_use]
    pub(crate) fn marked_by(self, mark: &'static AtomicBool) -> FileMapping {
        FileMapping {
            broken: Some(mark),
            ..self
        }
    }

    /// Returns whether a store into the mapping has failed, so that recent stores may be lost. This
    /// happens if the file system or the device has failed, or if the file was shortened. A writer
    /// must check this before it relies on its stores. The next sync will fail too.
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

    /// Stores `bytes` in the mapping at offset `at`.
    ///
    /// # Safety
    /// During the call, nothing else may read or write `at..at + bytes.len()` through any mapping
    /// of this file.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    #[inline]
    pub unsafe fn write(&self, at: usize, bytes: &[u8]) {
        assert!(
            at <= self.len && bytes.len() <= self.len - at,
            "a store of {} bytes at {at} of a mapping of {}",
            bytes.len(),
            self.len
        );
        // SAFETY: the range is inside the mapping, as asserted above, and the caller guarantees
        // exclusive access.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len()) }
    }

    /// Blocks until the pages that contain `range` are durable.
    ///
    /// # Errors
    /// I/O errors. An error poisons the file (D4).
    pub fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()> {
        self.backing.sync(range, purpose)
    }

    /// Faults in the pages of `range` for writing, so that later stores do not cause page faults.
    ///
    /// # Errors
    /// I/O errors.
    pub fn populate(&self, range: Range<u64>) -> Result<()> {
        self.backing.populate(range)
    }

    /// Drops the pages of `range` from this process's memory once the writer no longer needs them.
    /// The page cache keeps their contents. This is only a hint.
    pub fn release_pages(&self, range: Range<u64>) {
        self.backing.release_pages(range);
    }
}

impl fmt::Debug for FileMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileMapping")
            .field("start", &self.start)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Checks that a request satisfies invariant D2. Every implementation calls this before it executes
/// the request.
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
