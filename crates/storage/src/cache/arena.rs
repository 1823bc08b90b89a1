//! The memory of the cache, and all pointers into it. No other module of the cache handles raw
//! memory.
//!
//! Address space is reserved once, when the arena is created. Memory is committed when a range is
//! first touched, and released when the range is returned to the system.

use crate::memory::AnonymousMemory;
use crate::{Error, Result};
use alluvium_device::{AlignedBuffer, MemoryRegion};
use std::sync::Arc;

pub(super) use crate::memory::HUGE_PAGE;

/// A reserved range of address space for frames and their headers. Its bytes read as zero until
/// they are written.
#[derive(Debug)]
pub(super) struct FrameArena {
    memory: AnonymousMemory,
}

/// A type that can be viewed in zeroed arena memory through shared references, because all its
/// fields are atomic integers.
///
/// # Safety
/// The all-zero value must be valid, every field must be an atomic integer, and the type must not
/// need dropping.
pub(super) unsafe trait ZeroedAtomics {}

impl FrameArena {
    /// Reserves `wanted` bytes of address space. If the system refuses, the size is halved until
    /// the system grants it, down to `least` bytes.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the system cannot reserve even `least` bytes.
    pub(super) fn reserve(wanted: usize, least: usize) -> Result<Arc<FrameArena>> {
        let mut len = wanted.max(least);
        loop {
            match AnonymousMemory::reserve(len) {
                Ok(memory) => return Ok(Arc::new(FrameArena { memory })),
                Err(_) if len > least => len = (len / 2).max(least),
                Err(error) => {
                    let why = format!("the system does not provide {least} bytes of memory: {error}");
                    return Err(Error::BadOption {
                        option: "memory",
                        why,
                    });
                }
            }
        }
    }

    /// Returns the size of the reserved address space in bytes.
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Advises the operating system to use huge pages for a range. This is only a hint, which has
    /// no effect on a range shorter than a huge page.
    pub(super) fn prefer_huge_pages(&self, at: usize, len: usize) {
        self.memory.prefer_huge_pages(at, len);
    }

    /// Returns the memory of a range to the operating system. The range then reads as zeros.
    ///
    /// # Safety
    /// As [`AnonymousMemory::give_back`].
    pub(super) unsafe fn give_back(&self, at: usize, len: usize) {
        // SAFETY: the caller upholds the contract of `AnonymousMemory::give_back`.
        unsafe { self.memory.give_back(at, len) };
    }

    fn check(&self, at: usize, len: usize) {
        assert!(
            at <= self.len() && len <= self.len() - at,
            "{len} bytes at {at} of an arena of {}",
            self.len()
        );
    }

    /// Returns a reference to the value of type `T` at offset `at`.
    #[inline]
    pub(super) fn at<T: ZeroedAtomics>(&self, at: usize) -> &T {
        debug_assert!(at + size_of::<T>() <= self.len() && at.is_multiple_of(align_of::<T>()));
        // SAFETY: frame numbers come from chunks of this cache, so `at` is inside the reservation
        // and aligned, which is checked in debug builds. The mapping exists as long as `self`. The
        // trait guarantees that `T` is valid for any contents of its atomics.
        unsafe { self.memory.start().add(at).cast::<T>().as_ref() }
    }

    /// Returns the first `count` values of type `T` in the arena.
    #[inline]
    #[cfg_attr(alluvium_model_check, allow(dead_code))]
    pub(super) fn slice<T: ZeroedAtomics>(&self, count: usize) -> &[T] {
        debug_assert!(count * size_of::<T>() <= self.len() && align_of::<T>() <= HUGE_PAGE);
        // SAFETY: as in `at`; the range is inside the reservation.
        unsafe { std::slice::from_raw_parts(self.memory.start().cast::<T>().as_ptr(), count) }
    }

    /// Returns a range of the arena as a byte slice.
    ///
    /// # Safety
    /// While the slice lives, the range must not be written or returned to the system.
    #[inline]
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        debug_assert!(at + len <= self.len());
        // SAFETY: anonymous memory is initialised, and the range is inside the mapping. The caller
        // guarantees that the range is not written.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(at).as_ptr(), len) }
    }

    /// Returns a range of the arena as a buffer that a device or the caller may read and write.
    ///
    /// # Safety
    /// While the buffer lives, the range must not be accessed in any other way or returned to the
    /// system.
    pub(super) unsafe fn buffer(self: &Arc<Self>, at: usize, len: usize) -> AlignedBuffer {
        self.check(at, len);
        let keeper = Arc::clone(self);
        // SAFETY: the range is inside the mapping, which `keeper` keeps alive. The caller
        // guarantees exclusive access. The range is aligned, because frames begin at multiples of
        // the buffer alignment.
        unsafe { AlignedBuffer::from_region(self.memory.start().add(at), len, keeper) }
    }

    /// Returns the first `len` bytes of the arena as a memory region to be registered with a
    /// directory.
    pub(super) fn region(self: &Arc<Self>, len: usize) -> MemoryRegion {
        self.check(0, len);
        MemoryRegion {
            start: self.memory.start(),
            len,
            keeper: Arc::clone(self) as _,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_device::BUFFER_ALIGNMENT;

    #[test]
    fn memory_is_zero_writable_and_zero_again_after_it_was_given_back() {
        let arena = FrameArena::reserve(64 << 20, 1 << 20).unwrap();
        assert_eq!(arena.memory.start().as_ptr() as usize % HUGE_PAGE, 0);
        // SAFETY: nothing else uses this arena.
        let mut buffer = unsafe { arena.buffer(BUFFER_ALIGNMENT, 8192) };
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer.fill(9);
        drop(buffer);
        // SAFETY: nothing else uses this arena, and the buffer has been dropped.
        unsafe {
            assert_eq!(arena.bytes(BUFFER_ALIGNMENT, 8192), [9; 8192]);
            arena.give_back(0, 64 << 10);
            assert_eq!(arena.bytes(BUFFER_ALIGNMENT, 8192), [0; 8192]);
        }
    }

    #[test]
    fn too_much_is_halved_and_the_impossible_is_an_error() {
        let arena = FrameArena::reserve(1 << 60, 1 << 20).unwrap();
        assert!(arena.len() >= 1 << 20 && arena.len() < 1 << 60);
        let refused = FrameArena::reserve(1 << 60, 1 << 60).unwrap_err();
        assert!(refused.to_string().contains("memory"), "{refused}");
    }
}
