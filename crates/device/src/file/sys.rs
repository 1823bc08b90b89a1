//! System calls that need `unsafe`: mappings and a file's extent map. All others use safe wrappers.

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater};
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

/// A page-aligned range of a file, mapped into memory and shared with the page cache. Unmapped on
/// drop.
#[derive(Debug)]
pub(super) struct MappedPages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages are reached only through raw pointers, whose users coordinate (see
// `FileMapping::write`), and through system calls, which may come from any thread.
unsafe impl Send for MappedPages {}
// SAFETY: as above.
unsafe impl Sync for MappedPages {}

impl MappedPages {
    /// Maps `len` bytes from `offset`, both multiples of the page size.
    pub(super) fn map(descriptor: BorrowedFd<'_>, offset: u64, len: usize) -> Result<MappedPages, Errno> {
        // SAFETY: the kernel picks an unused address, so no memory in use is replaced.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                descriptor,
                offset,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(MappedPages { start, len })
    }

    /// Returns the address of the first byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of the first byte of `range`, after checking that the range is inside
    /// the mapping.
    fn address(&self, range: &Range<usize>) -> *mut u8 {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} of a mapping of {} bytes",
            self.len
        );
        // SAFETY: the range is inside the mapping, as asserted above.
        unsafe { self.start.as_ptr().add(range.start) }
    }

    /// Writes a page-aligned range back, and waits until it is on the device.
    pub(super) fn sync(&self, range: Range<usize>) -> Result<(), Errno> {
        let address = self.address(&range);
        // SAFETY: the range stays mapped while `self` lives, and the call changes no memory.
        rustix::io::retry_on_intr(|| unsafe { msync(address.cast(), range.len(), MsyncFlags::SYNC) })
    }

    /// Makes the pages of a page-aligned range present and writable.
    pub(super) fn populate(&self, range: Range<usize>) -> Result<(), Errno> {
        let address = self.address(&range);
        // SAFETY: the range stays mapped while `self` lives, and its contents stay the same.
        rustix::io::retry_on_intr(|| unsafe {
            madvise(address.cast(), range.len(), Advice::LinuxPopulateWrite)
        })
    }

    /// Drops the pages of a page-aligned range from the process's memory. The page cache keeps
    /// them.
    pub(super) fn release_pages(&self, range: Range<usize>) -> Result<(), Errno> {
        let address = self.address(&range);
        // SAFETY: the range stays mapped while `self` lives. It is shared with its file, so
        // everything stored stays in the page cache.
        unsafe { madvise(address.cast(), range.len(), Advice::LinuxDontNeed) }
    }

    /// Like [`MappedPages::populate`], but for kernels before 5.14: stores the existing value into
    /// every page.
    pub(super) fn touch(&self, range: Range<usize>, page: usize) {
        self.address(&range);
        for at in range.step_by(page) {
            // SAFETY: `at` is inside the mapping, as asserted in `address`. The atomic exchange
            // stores the value that is already there, or nothing, so a concurrent store by another
            // thread is not lost.
            let byte = unsafe { AtomicU8::from_ptr(self.start.as_ptr().add(at)) };
            let _ = byte.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// An allocated extent of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileExtent {
    /// Byte range in the file.
    pub(super) range: Range<u64>,
    /// Whether another file shares the blocks, so that changing them requires new ones.
    pub(super) shared: bool,
    /// Whether the extent was written since its allocation.
    pub(super) written: bool,
}

/// Maximum number of extents per call.
const EXTENTS: usize = 32;

/// `struct fiemap` of `linux/fiemap.h`, followed by space for extents.
#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [MappedExtent; EXTENTS],
}

/// The kernel's `struct fiemap_extent` (`linux/fiemap.h`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MappedExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `FS_IOC_FIEMAP`, whose number encodes the size of the structure without its extents.
const FIEMAP: Opcode = rustix::ioctl::opcode::read_write::<[u64; 4]>(b'f', 11);
/// `FIEMAP_EXTENT_UNWRITTEN`: allocated, and reads as zeros.
const UNWRITTEN: u32 = 0x800;
/// `FIEMAP_EXTENT_SHARED`: other files may use the same blocks.
const SHARED: u32 = 0x2000;

/// Returns the first allocated extents in a range, written or not.
///
/// # Errors
/// I/O errors, including that of a file system that does not support the call.
pub(super) fn extents(descriptor: impl AsFd, range: Range<u64>) -> Result<Vec<FileExtent>, Errno> {
    let mut map = ExtentMap {
        start: range.start,
        length: range.end - range.start,
        flags: 0,
        mapped: 0,
        count: EXTENTS as u32,
        reserved: 0,
        extents: [MappedExtent::default(); EXTENTS],
    };
    // SAFETY: the call reads and writes a structure of this layout, followed by as many extents as
    // `count` says.
    unsafe { rustix::ioctl::ioctl(descriptor, Updater::<FIEMAP, ExtentMap>::new(&mut map))? };
    let found = &map.extents[..(map.mapped as usize).min(EXTENTS)];
    Ok(found
        .iter()
        .map(|extent| FileExtent {
            range: extent.logical..extent.logical.saturating_add(extent.length),
            shared: extent.flags & SHARED != 0,
            written: extent.flags & UNWRITTEN == 0,
        })
        .collect())
}

impl Drop for MappedPages {
    fn drop(&mut self) {
        // SAFETY: `map` mapped this length, and it is unmapped only once. Whatever holds addresses
        // into it also holds this value.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping {self:?}: {unmapped:?}");
    }
}
