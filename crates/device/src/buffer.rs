//! Aligned memory for device I/O, kept alive by the owner of a buffer.

use crate::slabs::{self, SLAB};
use crate::{BLOCK, BUFFER_ALIGNMENT};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// An aligned buffer for one request, with exclusive access to its memory.
///
/// A buffer either owns heap memory, or borrows part of a larger region, such as a cache's arena,
/// and keeps that region alive.
///
/// ```
/// use alluvium_device::AlignedBuffer;
/// let mut buffer = AlignedBuffer::zeroed(4096);
/// buffer[0] = 7;
/// assert_eq!(buffer.len(), 4096);
/// ```
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
    memory: BufferMemory,
}

/// Buffers larger than this many bytes are not allocated from the heap, where the allocator would
/// retain the memory of dozens of short-lived streams for each thread. They are pieces of slabs
/// instead. A buffer larger than a slab is mapped directly from the system.
const LARGE: usize = 128 << 10;

enum BufferMemory {
    Heap(Layout),
    Slab,
    Mapped,
    Region { _keeper: Arc<dyn Any + Send + Sync> },
}

// SAFETY: a buffer has exclusive access to its memory, which comes from the allocator or is
// guaranteed to be exclusive by the caller of `from_region`. Moving the buffer to another thread
// moves that access. The keeper is `Send + Sync`.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared reference to a buffer only permits reading.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Creates a buffer of `len` zero bytes, aligned to [`BUFFER_ALIGNMENT`]. Aborts the process if
    /// the system is out of memory; callers that can return an error should use
    /// [`AlignedBuffer::try_zeroed`].
    ///
    /// # Panics
    /// If `len` is zero or not a multiple of [`BLOCK`].
    #[must_use]
    pub fn zeroed(len: usize) -> AlignedBuffer {
        AlignedBuffer::try_zeroed(len).unwrap_or_else(|| handle_alloc_error(layout(len)))
    }

    /// Creates a buffer of `len` zero bytes, or returns `None` if the system is out of memory.
    ///
    /// # Panics
    /// As [`AlignedBuffer::zeroed`].
    #[must_use]
    pub fn try_zeroed(len: usize) -> Option<AlignedBuffer> {
        assert!(
            len > 0 && (len as u64).is_multiple_of(BLOCK),
            "a buffer of {len} bytes is not a multiple of {BLOCK}"
        );
        if len > LARGE {
            let (large, memory) = match len {
                ..=SLAB => (slabs::take(len), BufferMemory::Slab),
                _ => (map(len), BufferMemory::Mapped),
            };
            if let Some(start) = large {
                return Some(AlignedBuffer { start, len, memory });
            }
        }
        let layout = layout(len);
        // SAFETY: the size of the layout is above zero, as asserted above.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(AlignedBuffer {
            start,
            len,
            memory: BufferMemory::Heap(layout),
        })
    }

    /// Creates a buffer that contains `bytes`, padded with zeros to a multiple of [`BLOCK`], and to
    /// at least one block.
    #[must_use]
    pub fn padded(bytes: &[u8]) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::zeroed(bytes.len().max(1).next_multiple_of(BLOCK as usize));
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    /// Creates a buffer from part of a larger memory region, which `keeper` keeps alive.
    ///
    /// # Safety
    /// `start..start + len` must be initialised memory inside the region that `keeper` owns, and
    /// aligned to [`BLOCK`]. Until the buffer is dropped, nothing else may read or write this
    /// memory.
    #[must_use]
    pub unsafe fn from_region(
        start: NonNull<u8>,
        len: usize,
        keeper: Arc<dyn Any + Send + Sync>,
    ) -> AlignedBuffer {
        debug_assert_eq!(start.as_ptr() as usize % BLOCK as usize, 0);
        AlignedBuffer {
            start,
            len,
            memory: BufferMemory::Region { _keeper: keeper },
        }
    }

    /// Returns the address of the first byte, for implementations of `Device`.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Returns the mutable address of the first byte, for implementations of `Device`.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, BUFFER_ALIGNMENT).expect("the length of a buffer fits the machine")
}

/// Maps new anonymous pages, which the system fills with zeros on first access. Returns `None` if
/// the system is out of memory.
fn map(len: usize) -> Option<NonNull<u8>> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: the system chooses the address, so no memory in use is replaced.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags) };
    NonNull::new(start.ok()?.cast())
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        match self.memory {
            // SAFETY: the memory was allocated by `alloc_zeroed` with this layout and is freed only
            // once.
            BufferMemory::Heap(layout) => unsafe { dealloc(self.start.as_ptr(), layout) },
            // SAFETY: the memory was allocated from a slab with this length and is returned only
            // once.
            BufferMemory::Slab => unsafe { slabs::give_back(self.start, self.len) },
            BufferMemory::Mapped => {
                // SAFETY: the memory was mapped with this length, is unmapped only once, and has no
                // other owner.
                let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
                debug_assert!(unmapped.is_ok(), "{unmapped:?}");
            }
            BufferMemory::Region { .. } => {}
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is initialised, lives as long as `self`, and is accessed only through
        // `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer")
            .field("start", &self.start)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// A long-lived memory region whose parts are used repeatedly as buffers, so that a device may
/// register the region with the kernel once.
#[derive(Clone)]
pub struct MemoryRegion {
    /// Address of the first byte.
    pub start: NonNull<u8>,
    pub len: usize,
    /// Keeps the memory alive while it is registered.
    pub keeper: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the region consists of an address and a keeper, which is itself `Send + Sync`. The region
// gives no access to the bytes.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegion")
            .field("start", &self.start)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_every_kind_are_aligned_zero_and_their_own() {
        for len in [LARGE / 2, LARGE, LARGE + 512, SLAB, SLAB + 512, 3 << 20] {
            let mut one = AlignedBuffer::zeroed(len);
            let two = AlignedBuffer::zeroed(len);
            assert_eq!(one.as_ptr() as usize % BUFFER_ALIGNMENT, 0);
            assert!(one.len() == len && one.iter().all(|&byte| byte == 0));
            one.fill(7);
            assert!(two.iter().all(|&byte| byte == 0));
            drop(two);
            assert!(one.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn memory_that_the_system_has_not_is_told() {
        assert!(AlignedBuffer::try_zeroed(1 << 46).is_none());
        assert!(AlignedBuffer::try_zeroed(512).is_some());
    }

    #[test]
    fn a_padded_buffer_is_aligned_and_zero_behind_its_bytes() {
        let buffer = AlignedBuffer::padded(b"abc");
        assert_eq!(buffer.as_ptr() as usize % BUFFER_ALIGNMENT, 0);
        assert_eq!(&buffer[..4], b"abc\0");
        assert_eq!(buffer.len() as u64, BLOCK);
        assert_eq!(AlignedBuffer::padded(&[1; 513]).len() as u64, 2 * BLOCK);
    }
}
