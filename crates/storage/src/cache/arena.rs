//! Anonymous memory, and every pointer into it. This is the only module of the room that handles raw memory.
//!
//! Address space is reserved once; a part of it costs memory from the first touch until it is given back. No storage
//! I/O happens here: files are `device`'s alone (rule 1 of the house), anonymous memory is nobody's.

use crate::{Error, Result};
use alluvium_device::{Buffer, MemoryRegion};
use std::ptr::NonNull;
use std::sync::Arc;

/// The size of a huge page: reservations begin at a multiple of it.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// A reservation of address space. Bytes read as zero until they are written.
#[derive(Debug)]
pub(super) struct Arena {
    start: NonNull<u8>,
    len: usize,
    mapping: NonNull<u8>,
    mapping_len: usize,
}

// SAFETY: the arena is an address range; its methods that reach bytes are unsafe or hand out atomics.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// What may be laid over zeroed arena memory and shared: every field is an atomic integer.
///
/// # Safety
/// Zero bytes are a valid value, every field is an atomic, nothing needs to be dropped.
pub(super) unsafe trait ZeroedAtomics {}

impl Arena {
    /// Reserves `wanted` bytes, or half of that and so on while the system refuses, but at least `least`.
    ///
    /// # Errors
    /// [`Error::BadOption`] when not even `least` bytes can be had.
    pub(super) fn reserve(wanted: usize, least: usize) -> Result<Arc<Arena>> {
        let mut len = wanted.max(least);
        loop {
            match Self::map(len) {
                Ok(arena) => return Ok(Arc::new(arena)),
                Err(_) if len > least => len = (len / 2).max(least),
                Err(error) => {
                    let why = format!("the system does not give {least} bytes of memory: {error}");
                    return Err(Error::BadOption {
                        option: "memory",
                        why,
                    });
                }
            }
        }
    }

    fn map(len: usize) -> std::io::Result<Arena> {
        let mapping_len = len + HUGE_PAGE;
        // SAFETY: a new anonymous mapping at an address of the system's choice touches nothing that exists.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapping_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("a mapping is not at address zero");
        let skip = mapping.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: `skip` is below HUGE_PAGE, and the mapping is that much longer than `len`.
        let start = unsafe { mapping.add(skip) };
        Ok(Arena {
            start,
            len,
            mapping,
            mapping_len,
        })
    }

    /// How many bytes are reserved.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn check(&self, at: usize, len: usize) {
        assert!(
            at <= self.len && len <= self.len - at,
            "{len} bytes at {at} of an arena of {}",
            self.len
        );
    }

    /// Asks for huge pages in a range, where it is at least one huge page long. A hint.
    pub(super) fn prefer_huge_pages(&self, at: usize, len: usize) {
        self.check(at, len);
        if len >= HUGE_PAGE {
            // SAFETY: the range is inside the mapping; the advice changes no contents.
            unsafe { libc::madvise(self.start.add(at).as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
    }

    /// Gives the memory of a range back: it reads as zeros afterwards.
    ///
    /// # Safety
    /// Nobody relies on the contents of the range, and no reference to non-atomic data in it is alive.
    pub(super) unsafe fn give_back(&self, at: usize, len: usize) {
        self.check(at, len);
        // SAFETY: the range is inside the mapping; that its contents may go is the caller's promise.
        let failed = unsafe { libc::madvise(self.start.add(at).as_ptr().cast(), len, libc::MADV_DONTNEED) };
        assert_eq!(failed, 0, "memory of an anonymous mapping can be given back");
    }

    /// The value laid over the memory at `at`.
    #[inline]
    pub(super) fn at<T: ZeroedAtomics>(&self, at: usize) -> &T {
        debug_assert!(at + size_of::<T>() <= self.len && at.is_multiple_of(align_of::<T>()));
        // SAFETY: frame numbers come from this cache's own chunks, so `at` is inside the reservation and aligned (checked
        // when debugging); the mapping lives as long as `self`; by its trait the type is valid for any atomic contents.
        unsafe { self.start.add(at).cast::<T>().as_ref() }
    }

    /// All of the arena as values.
    #[inline]
    #[cfg_attr(alluvium_model_check, allow(dead_code))]
    pub(super) fn slice<T: ZeroedAtomics>(&self, count: usize) -> &[T] {
        debug_assert!(count * size_of::<T>() <= self.len && align_of::<T>() <= HUGE_PAGE);
        // SAFETY: as in `at`.
        unsafe { std::slice::from_raw_parts(self.start.cast::<T>().as_ptr(), count) }
    }

    /// Bytes of the arena, to be read.
    ///
    /// # Safety
    /// While the slice lives nobody writes the range or gives it back.
    #[inline]
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        debug_assert!(at + len <= self.len);
        // SAFETY: anonymous memory is initialised; the range is inside the mapping; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.add(at).as_ptr(), len) }
    }

    /// Bytes of the arena, to be read and written, by a device or by the caller.
    ///
    /// # Safety
    /// While the buffer lives nobody else reads or writes the range or gives it back.
    pub(super) unsafe fn buffer(self: &Arc<Self>, at: usize, len: usize) -> Buffer {
        self.check(at, len);
        let keeper = Arc::clone(self);
        // SAFETY: inside the mapping, which the keeper keeps alive; exclusive by the caller's promise; aligned, for
        // frames begin at multiples of the buffer alignment.
        unsafe { Buffer::from_region(self.start.add(at), len, keeper) }
    }

    /// The first `len` bytes, to be offered to a directory.
    pub(super) fn region(self: &Arc<Self>, len: usize) -> MemoryRegion {
        self.check(0, len);
        MemoryRegion {
            start: self.start,
            len,
            keeper: Arc::clone(self) as _,
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length; nothing refers to it any more, for whoever does holds
        // the arena.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_device::BUFFER_ALIGNMENT;

    #[test]
    fn memory_is_zero_writable_and_zero_again_after_it_was_given_back() {
        let arena = Arena::reserve(64 << 20, 1 << 20).unwrap();
        assert_eq!(arena.start.as_ptr() as usize % HUGE_PAGE, 0);
        // SAFETY: nobody else uses the arena.
        let mut buffer = unsafe { arena.buffer(BUFFER_ALIGNMENT, 8192) };
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer.fill(9);
        drop(buffer);
        // SAFETY: as above.
        unsafe {
            assert_eq!(arena.bytes(BUFFER_ALIGNMENT, 8192), [9; 8192]);
            arena.give_back(0, 64 << 10);
            assert_eq!(arena.bytes(BUFFER_ALIGNMENT, 8192), [0; 8192]);
        }
    }

    #[test]
    fn too_much_is_halved_and_the_impossible_is_an_error() {
        let arena = Arena::reserve(1 << 60, 1 << 20).unwrap();
        assert!(arena.len() >= 1 << 20 && arena.len() < 1 << 60);
        let refused = Arena::reserve(1 << 60, 1 << 60).unwrap_err();
        assert!(refused.to_string().contains("memory"), "{refused}");
    }
}
