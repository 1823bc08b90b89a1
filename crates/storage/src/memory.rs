//! Anonymous memory from the operating system. Address space is reserved in advance, and memory is
//! committed when it is first touched.
//!
//! Apart from `device`, only this module makes system calls. It performs no storage I/O, because
//! anonymous memory is not a file, and only `device` accesses files (rule 1 of `CONTRIBUTING.md`).

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Size in bytes of a huge page, to which reservations are aligned.
pub const HUGE_PAGE: usize = 2 << 20;
const _: () = assert!(HUGE_PAGE.is_power_of_two() && MAPPED < HUGE_PAGE);

/// A reserved range of address space, which is unmapped as a whole on drop. Its bytes read as zero
/// until they are written.
///
/// ```
/// use alluvium_storage::memory::{AnonymousMemory, HUGE_PAGE};
/// let memory = AnonymousMemory::reserve(1 << 30)?;
/// assert_eq!((memory.len(), memory.start().as_ptr() as usize % HUGE_PAGE), (1 << 30, 0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AnonymousMemory {
    start: NonNull<u8>,
    len: usize,
    mapping: NonNull<u8>,
    mapping_len: usize,
}

// SAFETY: the value merely represents an address range. Code that accesses memory through its start
// address is responsible for synchronisation.
unsafe impl Send for AnonymousMemory {}
// SAFETY: as for `Send` above.
unsafe impl Sync for AnonymousMemory {}

impl AnonymousMemory {
    /// Reserves `len` bytes of address space.
    ///
    /// # Errors
    /// The operating system's error if it cannot create the mapping.
    pub fn reserve(len: usize) -> io::Result<AnonymousMemory> {
        let mapping_len = len.checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the kernel chooses the address of a new anonymous mapping, so no existing memory
        // is affected.
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
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("a mapping is not at address zero");
        let skip = mapping.as_ptr().align_offset(HUGE_PAGE);
        assert!(skip < HUGE_PAGE, "an address can be aligned");
        // SAFETY: `skip` is less than `HUGE_PAGE`, and the mapping is longer than `len` by
        // `HUGE_PAGE`, so the result is inside the mapping.
        let start = unsafe { mapping.add(skip) };
        debug_assert!(skip + len <= mapping_len, "the reservation lies in its mapping");
        Ok(AnonymousMemory {
            start,
            len,
            mapping,
            mapping_len,
        })
    }

    /// Returns a pointer to the first of [`AnonymousMemory::len`] bytes, which can be read and
    /// written while the reservation lives.
    #[must_use]
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the size of the reservation in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the reservation is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn check(&self, at: usize, len: usize) {
        assert!(
            at <= self.len && len <= self.len - at,
            "{len} bytes at {at} of a reservation of {}",
            self.len
        );
    }

    /// Advises the operating system to use huge pages for a range. This is only a hint, which has
    /// no effect on a range shorter than a huge page.
    ///
    /// # Panics
    /// If the range is not inside the reservation.
    pub fn prefer_huge_pages(&self, at: usize, len: usize) {
        self.check(at, len);
        if len >= HUGE_PAGE {
            // SAFETY: the range is inside the mapping, and the advice does not change its contents.
            unsafe { libc::madvise(self.start.add(at).as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
    }

    /// Prefaults the pages of a range, so that the first access does not cause a page fault. This
    /// is only a hint, and leaves the contents unchanged.
    ///
    /// # Panics
    /// If the range is not inside the reservation.
    pub fn populate(&self, at: usize, len: usize) {
        self.check(at, len);
        #[cfg(target_os = "linux")]
        // SAFETY: the range is inside the mapping, and its contents are not changed.
        unsafe {
            libc::madvise(self.start.add(at).as_ptr().cast(), len, libc::MADV_POPULATE_WRITE)
        };
    }

    /// Returns the memory of a range to the operating system. The range then reads as zeros.
    ///
    /// # Panics
    /// If the range is not inside the reservation.
    ///
    /// # Safety
    /// The contents of the range must no longer be needed, and there must be no reference to
    /// non-atomic data in the range.
    pub unsafe fn give_back(&self, at: usize, len: usize) {
        self.check(at, len);
        // SAFETY: the range is inside the mapping, and the caller guarantees that its contents are
        // not needed.
        let failed = unsafe { libc::madvise(self.start.add(at).as_ptr().cast(), len, libc::MADV_DONTNEED) };
        assert_eq!(failed, 0, "memory of an anonymous mapping can be given back");
    }
}

impl Drop for AnonymousMemory {
    fn drop(&mut self) {
        // SAFETY: `reserve` created the mapping with this length. Every reference to the mapping
        // keeps this value alive, so no such reference remains.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_len) };
    }
}

/// Minimum size in bytes of a mapped buffer. Smaller buffers are allocated on the heap.
const MAPPED: usize = 64 << 10;

/// A zero-initialised byte buffer whose memory is committed when it is first touched. A large
/// buffer is mapped rather than allocated on the heap, because an allocator would hold on to the
/// freed memory, which may be too short for a later request.
///
/// ```
/// use alluvium_storage::memory::ZeroedBuffer;
/// let mut bytes = ZeroedBuffer::zeroed(1 << 20);
/// bytes[7] = 1;
/// assert_eq!((bytes.len(), bytes[6], bytes[7]), (1 << 20, 0, 1));
/// ```
#[derive(Debug)]
pub struct ZeroedBuffer(ZeroedMemory);

#[derive(Debug)]
enum ZeroedMemory {
    Mapped(AnonymousMemory),
    Heap(Box<[u8]>),
}

impl ZeroedBuffer {
    /// Returns a buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> ZeroedBuffer {
        let mapped = (len >= MAPPED).then(|| AnonymousMemory::reserve(len));
        match mapped {
            Some(Ok(memory)) => ZeroedBuffer(ZeroedMemory::Mapped(memory)),
            // If the operating system cannot create a mapping, the heap may still have memory.
            Some(Err(_)) | None => ZeroedBuffer(ZeroedMemory::Heap(vec![0; len].into_boxed_slice())),
        }
    }

    /// Shortens the buffer to `len` bytes if it is longer. In a mapped buffer, touched memory
    /// beyond `len` stays committed until the buffer is dropped.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            ZeroedMemory::Mapped(memory) => memory.len = memory.len.min(len),
            ZeroedMemory::Heap(bytes) => {
                let mut kept = std::mem::take(bytes).into_vec();
                kept.truncate(len);
                *bytes = kept.into_boxed_slice();
            }
        }
    }
}

impl Default for ZeroedBuffer {
    fn default() -> ZeroedBuffer {
        ZeroedBuffer::zeroed(0)
    }
}

impl Deref for ZeroedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: the reservation has `len` initialised bytes, which are zero at first. Only
            // this owner can access them.
            ZeroedMemory::Mapped(memory) => unsafe {
                slice::from_raw_parts(memory.start().as_ptr(), memory.len())
            },
            ZeroedMemory::Heap(bytes) => bytes,
        }
    }
}

impl DerefMut for ZeroedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            // SAFETY: as in `deref`, and the owner is borrowed exclusively.
            ZeroedMemory::Mapped(memory) => unsafe {
                slice::from_raw_parts_mut(memory.start().as_ptr(), memory.len())
            },
            ZeroedMemory::Heap(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_zero_and_their_owners_whatever_their_number() {
        for len in [0, 1, MAPPED - 1, MAPPED, MAPPED + 1, 3 << 20] {
            let (mut one, other) = (ZeroedBuffer::zeroed(len), ZeroedBuffer::zeroed(len));
            assert!(one.len() == len && one.iter().all(|&byte| byte == 0));
            one.fill(7);
            assert!(one.iter().all(|&byte| byte == 7) && other.iter().all(|&byte| byte == 0));
            one.truncate(len + 1);
            assert_eq!(one.len(), len);
            one.truncate(len / 2);
            assert!(one.len() == len / 2 && one.iter().all(|&byte| byte == 7));
        }
        assert!(ZeroedBuffer::default().is_empty());
    }
}
