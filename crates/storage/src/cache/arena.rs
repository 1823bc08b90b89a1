//! The cache's memory and every pointer into it. No other module of the crate handles raw memory.
//!
//! Address space is reserved once. A range of it is committed on first touch and released when it
//! is given back.

use crate::memory::AnonymousMemory;
use crate::{Error, Result};
use alluvium_device::{AlignedBuffer, MemoryRegion};
use std::sync::Arc;

pub(super) use crate::memory::HUGE_PAGE;

/// A reservation of address space and the values in it. Its bytes read as zero until they are
/// written.
#[derive(Debug)]
pub(super) struct FrameArena {
    memory: AnonymousMemory,
}

/// A type that may be placed over zeroed arena memory and shared: every field is an atomic integer.
///
/// # Safety
/// Zero bytes are a valid value, every field is an atomic, and the type needs no drop.
pub(super) unsafe trait ZeroedAtomics {}

impl FrameArena {
    /// Reserves `wanted` bytes. If the system refuses, halves the size until it succeeds, down to
    /// `least` bytes.
    ///
    /// # Errors
    /// [`Error::BadOption`] if not even `least` bytes are available.
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

    /// Returns the size of the reservation in bytes.
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Advises the system to use huge pages for a range of at least one huge page. This is a hint.
    pub(super) fn prefer_huge_pages(&self, at: usize, len: usize) {
        self.memory.prefer_huge_pages(at, len);
    }

    /// Returns the memory of a range to the system. The range reads as zeros afterwards.
    ///
    /// # Safety
    /// As [`AnonymousMemory::give_back`].
    pub(super) unsafe fn give_back(&self, at: usize, len: usize) {
        // SAFETY: by the caller's promise.
        unsafe { self.memory.give_back(at, len) };
    }

    fn check(&self, at: usize, len: usize) {
        assert!(
            at <= self.len() && len <= self.len() - at,
            "{len} bytes at {at} of an arena of {}",
            self.len()
        );
    }

    /// Returns the value laid over the memory at `at`.
    #[inline]
    pub(super) fn at<T: ZeroedAtomics>(&self, at: usize) -> &T {
        debug_assert!(at + size_of::<T>() <= self.len() && at.is_multiple_of(align_of::<T>()));
        // SAFETY: frame numbers come from this cache's own chunks, so `at` is inside the
        // reservation and aligned (checked when debugging); the mapping lives as long as `self`; by
        // its trait the type is valid for any atomic contents.
        unsafe { self.memory.start().add(at).cast::<T>().as_ref() }
    }

    /// Returns the first `count` values of the arena.
    #[inline]
    #[cfg_attr(alluvium_model_check, allow(dead_code))]
    pub(super) fn slice<T: ZeroedAtomics>(&self, count: usize) -> &[T] {
        debug_assert!(count * size_of::<T>() <= self.len() && align_of::<T>() <= HUGE_PAGE);
        // SAFETY: as in `at`.
        unsafe { std::slice::from_raw_parts(self.memory.start().cast::<T>().as_ptr(), count) }
    }

    /// Returns a range of the arena for reading.
    ///
    /// # Safety
    /// While the slice lives, the range is neither written nor given back.
    #[inline]
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        debug_assert!(at + len <= self.len());
        // SAFETY: anonymous memory is initialised; the range is inside the mapping; the rest is the
        // caller's promise.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(at).as_ptr(), len) }
    }

    /// Returns a range of the arena as a buffer, to be read and written by a device or by the
    /// caller.
    ///
    /// # Safety
    /// While the buffer lives, the range is neither read nor written through anything else, nor
    /// given back.
    pub(super) unsafe fn buffer(self: &Arc<Self>, at: usize, len: usize) -> AlignedBuffer {
        self.check(at, len);
        let keeper = Arc::clone(self);
        // SAFETY: inside the mapping, which the keeper keeps alive; exclusive by the caller's
        // promise; aligned, for frames begin at multiples of the buffer alignment.
        unsafe { AlignedBuffer::from_region(self.memory.start().add(at), len, keeper) }
    }

    /// Returns the first `len` bytes as a region that a directory can register.
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
        // SAFETY: the arena has no other user.
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
        let arena = FrameArena::reserve(1 << 60, 1 << 20).unwrap();
        assert!(arena.len() >= 1 << 20 && arena.len() < 1 << 60);
        let refused = FrameArena::reserve(1 << 60, 1 << 60).unwrap_err();
        assert!(refused.to_string().contains("memory"), "{refused}");
    }
}
