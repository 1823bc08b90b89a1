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

/// Whether the requests to a file use the page cache of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Requests bypass the page cache (`O_DIRECT`). Offsets and lengths must be multiples of
    /// [`BLOCK`](crate::BLOCK). If the file system refuses direct I/O, the implementation uses
    /// buffered I/O instead and adds a note to [`Directory::notes`].
    Direct,
    /// Requests use the page cache. Only files opened in this mode can be mapped.
    Buffered,
}

/// The access mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileAccessMode {
    /// The file can only be read. Every change fails with
    /// [`Error::ReadOnly`](crate::Error::ReadOnly).
    ReadOnly,
    ReadWrite,
}

/// The options with which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOptions {
    /// Whether the requests to the file use the page cache.
    pub caching: CacheMode,
    pub access: FileAccessMode,
}

impl FileOptions {
    /// Direct I/O with write access. Page files are opened with these options.
    pub const DIRECT: FileOptions = FileOptions {
        caching: CacheMode::Direct,
        access: FileAccessMode::ReadWrite,
    };
    /// Buffered I/O with write access. Log files are opened with these options.
    pub const BUFFERED: FileOptions = FileOptions {
        caching: CacheMode::Buffered,
        access: FileAccessMode::ReadWrite,
    };

    /// Returns a copy of these options with read-only access.
    #[must_use]
    pub fn read_only(self) -> FileOptions {
        FileOptions {
            access: FileAccessMode::ReadOnly,
            ..self
        }
    }
}

/// Identifies a boot of a machine. As long as the id is unchanged, the page cache has kept its
/// contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootId(pub [u8; 16]);

/// The free space and the size of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Number of bytes that an unprivileged process may still allocate.
    pub free: u64,
    /// Total size of the file system in bytes.
    pub total: u64,
}

/// An exclusive or shared lock on a directory. The lock is released when this value is dropped. If
/// the process dies, the operating system releases it.
pub struct DirectoryLock {
    _held: Box<dyn Any + Send + Sync>,
}

impl DirectoryLock {
    /// Creates a lock, which is released by dropping `held`.
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
/// No method has a default implementation, because a directory that forwards its calls to another
/// one could otherwise forget to forward a method.
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

    /// Atomically renames the file `from` to `to`, and replaces an existing file called `to`. Open
    /// handles of the file remain valid.
    ///
    /// # Errors
    /// `NotFound`, or I/O errors.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes the file called `name`. Open handles of the file remain valid until they are
    /// dropped.
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
    /// I/O errors. An error poisons the directory, as in D4: all later creations, renames, removals
    /// and syncs fail.
    fn sync(&self) -> Result<()>;

    /// Acquires the lock called `name` in exclusive mode. The file of the lock is created if
    /// necessary.
    ///
    /// # Errors
    /// `Locked` if another process, or another handle in this process, holds the lock.
    fn lock(&self, name: &str) -> Result<DirectoryLock>;

    /// Acquires the lock called `name` in shared mode. If the file of the lock does not exist and
    /// the file system is read-only, the call succeeds, because no process can hold the lock there.
    ///
    /// # Errors
    /// `Locked` if the lock is held in exclusive mode.
    fn lock_shared(&self, name: &str) -> Result<DirectoryLock>;

    /// Returns the free space and the size of the file system that contains the directory.
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

    /// Returns notes to the user on how the directory works on this system. Each note is one
    /// sentence ("O_DIRECT is refused by …").
    fn notes(&self) -> Vec<String>;

    /// Announces a memory region, parts of which will be used as buffers, so that the
    /// implementation may register it with the kernel. This is a hint that affects only speed.
    ///
    /// Registration makes every page of the region resident, and pins the pages until the directory
    /// and its files are dropped. Until then, no part of the region may be returned to the
    /// operating system (`madvise`), because requests would continue to use the old pages.
    fn register_memory(&self, region: MemoryRegion);

    /// Returns the path or another description of the directory, for error messages.
    fn describe(&self) -> String;
}

/// A file of aligned blocks, which is read and written by batches of requests.
///
/// Only methods that are composed of other methods have a default implementation. A file that
/// forwards its calls to another one could otherwise forget to forward a method.
pub trait Device: Any + Send + Sync + fmt::Debug {
    /// Submits a batch and returns without waiting for its completion. Errors are reported in the
    /// outcomes.
    ///
    /// # Panics
    /// If a request to a direct file is misaligned (D2).
    fn submit(&self, batch: IoBatch) -> Ticket;

    /// Makes progress on the batch of a ticket without blocking. Returns whether the batch is
    /// complete.
    fn poll(&self, ticket: &Ticket) -> bool;

    /// Blocks until the batch of the ticket is complete.
    fn wait(&self, ticket: &Ticket);

    /// Submits several batches and returns one ticket for each. A device that supports it submits
    /// all of them with a single system call.
    ///
    /// # Panics
    /// The same as for [`Device::submit`].
    fn submit_many(&self, batches: Vec<IoBatch>) -> Vec<Ticket> {
        batches.into_iter().map(|batch| self.submit(batch)).collect()
    }

    /// Blocks until some batch has completed that is executed by the same part of the device as the
    /// batch of this ticket ([`Ticket::device_part`]). The call may return earlier; if the ticket
    /// is complete, it returns at once. A device without parts waits for the ticket itself.
    fn wait_some(&self, ticket: &Ticket) {
        self.wait(ticket);
    }

    /// Returns the length of the file in bytes.
    fn len(&self) -> u64;

    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the file was removed while it was open. The contents of such a file are lost
    /// when it is closed.
    fn is_removed(&self) -> bool;

    /// Extends the file to `len` bytes and allocates the space for the new range, which reads as
    /// zeros. If the file already has at least this length, the call does nothing.
    ///
    /// # Errors
    /// `DiskFull` if there is not enough space; the file is unchanged then.
    fn grow(&self, len: u64) -> Result<()>;

    /// Allocates space for all holes in a range inside the file. The contents of the file do not
    /// change.
    ///
    /// # Errors
    /// `DiskFull` if there is not enough space; the file is unchanged then.
    fn allocate(&self, range: Range<u64>) -> Result<()>;

    /// Prepares a range inside the file for being overwritten, and discards its contents. If the
    /// file system copies on write, or if another file shares the blocks of the range, the blocks
    /// are freed and new ones are allocated. Otherwise the call does nothing.
    ///
    /// # Errors
    /// `DiskFull` if there is not enough space; the contents of the range may be lost then.
    fn renew(&self, range: Range<u64>) -> Result<()>;

    /// Shortens the file to `len` bytes.
    ///
    /// # Errors
    /// I/O errors.
    fn truncate(&self, len: u64) -> Result<()>;

    /// Frees the space that a range of the file occupies. Afterwards the range reads as zeros; the
    /// length of the file does not change. If holes are not supported, the call does nothing.
    ///
    /// # Errors
    /// I/O errors.
    fn punch_hole(&self, range: Range<u64>) -> Result<()>;

    /// Maps a range of a buffered file into memory, shared with the page cache. A store into the
    /// mapping survives a crash of the process at once, and a crash of the machine only after a
    /// sync.
    ///
    /// # Errors
    /// `Unsupported` for a direct file and on a copy-on-write file system.
    fn map(&self, range: Range<u64>) -> Result<FileMapping>;

    /// Copies a range of the file `source` to the same offsets in this file. The source may be in
    /// another directory. The range must be inside both files. If the file system can share blocks
    /// between the two files, no data is moved.
    ///
    /// During the call, neither file may be written within the range. The copy becomes durable with
    /// a sync.
    ///
    /// # Errors
    /// Errors of reading the source or of writing this file. After an error, a part of the range
    /// may have been copied.
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

    /// Reads `len` bytes at `offset`, blocks until they are read, and returns them.
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

    /// Makes every completed write durable, and blocks until this is done.
    ///
    /// # Errors
    /// I/O errors. An error poisons the file (D4).
    fn sync(&self, purpose: Purpose) -> Result<()> {
        let mut batch = IoBatch::with_capacity(1);
        batch.sync(purpose);
        self.run(batch).map(|_| ())
    }
}

/// Number of bytes that each request of a copy transfers, and (`COPIES`) the number of requests in
/// each batch.
const COPIED: u64 = 1 << 20;
const COPIES: u64 = 4;

/// Copies a range in batches. The next batch is read while the previous one is written.
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

/// The backing of a [`FileMapping`]. It is either a real mapping or memory whose pages the
/// simulator makes durable one by one.
pub trait MappingBacking: Send + Sync {
    /// Makes the pages of `range` durable; the range is relative to the mapping. A failure poisons
    /// the file (D4).
    ///
    /// # Errors
    /// I/O errors.
    fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()>;

    /// Faults in the pages of a range for writing, so that later stores do not cause page faults.
    /// The contents of the pages do not change.
    ///
    /// # Errors
    /// I/O errors.
    fn populate(&self, range: Range<u64>) -> Result<()>;

    /// Removes the pages of a range from the memory of this process. The page cache keeps their
    /// contents. This is a hint.
    fn release_pages(&self, _range: Range<u64>) {}
}

/// A range of a file that is mapped into memory, shared with the page cache.
#[derive(Clone)]
pub struct FileMapping {
    start: NonNull<u8>,
    len: usize,
    backing: Arc<dyn MappingBacking>,
    /// A flag that is set when a store into the mapping has failed.
    broken: Option<&'static AtomicBool>,
}

// SAFETY: the mapping gives access to its bytes only through `unsafe` functions, whose callers must
// coordinate their accesses.
unsafe impl Send for FileMapping {}
// SAFETY: as above.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Creates a mapping of `len` bytes at `start`, which exists as long as `backing`.
    ///
    /// # Safety
    /// `start..start + len` must remain valid for reads and writes as long as `backing` exists.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, len: usize, backing: Arc<dyn MappingBacking>) -> FileMapping {
        FileMapping {
            start,
            len,
            backing,
            broken: None,
        }
    }

    /// Returns this mapping with `mark` as its failure flag. The flag is set when a store into the
    /// mapping fails.
    #[must_use]
    pub(crate) fn marked_by(self, mark: &'static AtomicBool) -> FileMapping {
        FileMapping {
            broken: Some(mark),
            ..self
        }
    }

    /// Returns whether a store into the mapping has failed, so that recent stores may be lost. This
    /// happens if the file system or the device has failed, or if the file was shortened. A writer
    /// must check this before it relies on its stores. The next sync will also fail.
    #[must_use]
    #[inline]
    pub fn is_broken(&self) -> bool {
        // The flag is set by a signal handler, which interrupts a store of this thread.
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

    /// Makes the pages that contain `range` durable, and blocks until this is done.
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

    /// Removes the pages of `range` from the memory of this process, for use when the writer no
    /// longer needs them. The page cache keeps their contents. This is a hint.
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

/// Checks that a request satisfies invariant D2. Every implementation calls this function before it
/// executes the request.
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
