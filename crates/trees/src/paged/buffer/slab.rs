//! Memory for pages. A separately allocated buffer is aligned to [`BUFFER_ALIGNMENT`], which would
//! waste memory for shorter pages, so their memory is cut from larger slabs.

use alluvium_device::{AlignedBuffer, BLOCK, BUFFER_ALIGNMENT};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::Arc;

/// Size of a slab in bytes.
const SLAB: usize = 4 * BUFFER_ALIGNMENT;

/// An allocator of memory for pages of one size. It reuses returned memory.
#[derive(Debug)]
pub(super) struct PageMemory {
    page_bytes: usize,
    free: Mutex<Vec<AlignedBuffer>>,
}

impl PageMemory {
    /// Creates an allocator that has no memory yet.
    pub(super) fn new(page_bytes: usize) -> PageMemory {
        assert!(
            (page_bytes as u64).is_multiple_of(BLOCK),
            "pages are read and written directly"
        );
        PageMemory {
            page_bytes,
            free: Mutex::default(),
        }
    }

    /// Returns memory for a page. Its content is arbitrary.
    pub(super) fn take(&self) -> AlignedBuffer {
        if self.page_bytes >= BUFFER_ALIGNMENT {
            return AlignedBuffer::zeroed(self.page_bytes);
        }
        let mut free = self.free.lock();
        if free.is_empty() {
            *free = pieces(self.page_bytes);
        }
        let piece = free.pop();
        piece.expect("a slab has a piece")
    }

    /// Takes the memory of a page back for reuse.
    #[cfg(feature = "couplings")]
    pub(super) fn give_back(&self, buffer: AlignedBuffer) {
        if self.page_bytes < BUFFER_ALIGNMENT {
            self.free.lock().push(buffer);
        }
    }
}

/// Allocates a slab and divides it into pieces of `len` bytes.
fn pieces(len: usize) -> Vec<AlignedBuffer> {
    assert!(
        len > 0 && (len as u64).is_multiple_of(BLOCK) && len <= SLAB,
        "pieces begin at blocks"
    );
    let mut slab = AlignedBuffer::zeroed(SLAB);
    let start = NonNull::new(slab.as_mut_ptr()).expect("memory has an address");
    let keeper = Arc::new(slab);
    (0..SLAB / len)
        .map(|piece| {
            // SAFETY: the slab is initialised memory, and each piece keeps the slab alive through
            // `keeper`. The slab begins at a multiple of the buffer alignment, so each piece begins
            // at a multiple of the block size. The pieces do not overlap. Nothing else accesses the
            // slab, because `keeper` is never used except to be dropped.
            unsafe { AlignedBuffer::from_region(start.add(piece * len), len, keeper.clone()) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_shorter_than_the_alignment_share_slabs_and_nothing_else() {
        let memory = PageMemory::new(512);
        let mut all: Vec<AlignedBuffer> = (0..100).map(|_| memory.take()).collect();
        for (number, page) in all.iter_mut().enumerate() {
            assert_eq!((page.len(), page.as_ptr() as usize % 512), (512, 0));
            page.fill(number as u8);
        }
        for (number, page) in all.iter().enumerate() {
            assert!(page.iter().all(|byte| *byte == number as u8), "{number}");
        }
        let mut starts: Vec<usize> = all.iter().map(|page| page.as_ptr() as usize).collect();
        starts.sort_unstable();
        let slabs = starts.chunk_by(|one, next| one + 512 == *next).count();
        assert!(slabs <= 4, "{slabs} slabs of 32 pages");
        #[cfg(feature = "couplings")]
        {
            let last = all.pop().unwrap();
            let at = last.as_ptr();
            memory.give_back(last);
            assert_eq!(memory.take().as_ptr(), at, "it is used again");
        }
        let whole = PageMemory::new(16 << 10).take();
        assert_eq!(
            (whole.len(), whole.as_ptr() as usize % BUFFER_ALIGNMENT),
            (16 << 10, 0)
        );
    }
}
