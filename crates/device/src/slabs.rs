//! Allocates memory for large buffers as pieces of slabs. Each slab is one huge page if the system
//! provides huge pages.
//!
//! The kernel describes a request's memory to the device page by page. A quarter of a mebibyte of
//! ordinary pages takes 64 entries, which the kernel pins and releases one by one, even in the
//! interrupt that completes the request. Part of a huge page is a single entry. Slabs also let the
//! next stream reuse the memory of the previous one.
//!
//! Unused slabs are returned to the system, except for one that is kept for reuse.

use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::{self, NonNull};

/// Size in bytes of a slab, and of the largest buffer in it.
pub(super) const SLAB: usize = 2 << 20;
/// Size of a piece, the allocation unit of a slab.
const PIECE: usize = SLAB / u32::BITS as usize;

/// All slabs of the process, oldest first.
static SLABS: Mutex<Vec<Slab>> = Mutex::new(Vec::new());

struct Slab {
    start: NonNull<u8>,
    /// Bitmap of the pieces in use.
    used: u32,
    /// Bitmap of the pieces used since the system provided the slab's memory.
    touched: u32,
}

// SAFETY: only the owners of a slab's pieces can reach its memory.
unsafe impl Send for Slab {}

/// Returns a bitmask with one bit, from bit 0 up, for each piece that a buffer of `len` bytes
/// needs.
fn pieces(len: usize) -> u32 {
    u32::MAX >> (u32::BITS - len.div_ceil(PIECE) as u32)
}

/// Allocates `len` bytes of zeroed memory, aligned to a piece, to which the caller has exclusive
/// access until `give_back`. Returns `None` if the system is out of memory.
///
/// # Panics
/// If `len` is zero or larger than a slab.
pub(super) fn take(len: usize) -> Option<NonNull<u8>> {
    assert!((1..=SLAB).contains(&len), "{len} bytes of a slab");
    let pieces = pieces(len);
    let (start, dirty) = {
        let mut slabs = SLABS.lock();
        let fitting = slabs
            .iter_mut()
            .find_map(|slab| slab.place(pieces).map(|shift| (slab, shift)));
        match fitting {
            Some((slab, shift)) => slab.take(pieces, shift),
            None => {
                slabs.push(Slab::map()?);
                slabs.last_mut()?.take(pieces, 0)
            }
        }
    };
    if dirty {
        // SAFETY: the pieces are inside the slab, and belong to this thread alone since they were
        // marked.
        unsafe { start.write_bytes(0, len) };
    }
    Some(start)
}

/// Frees allocated memory.
///
/// # Safety
/// `take` must have returned `start` for this `len`. The memory must be freed only once and not be
/// used afterwards.
pub(super) unsafe fn give_back(start: NonNull<u8>, len: usize) {
    let address = start.as_ptr() as usize;
    let over = {
        let mut slabs = SLABS.lock();
        let at = slabs
            .iter()
            .position(|slab| (slab.address()..slab.address() + SLAB).contains(&address));
        let Some(at) = at else {
            debug_assert!(false, "memory of no slab");
            return;
        };
        slabs[at].used &= !(pieces(len) << ((address - slabs[at].address()) / PIECE));
        let is_spare = |slab: &Slab| slab.used == 0;
        // Keep at most one unused slab.
        (is_spare(&slabs[at]) && slabs.iter().filter(|slab| is_spare(slab)).count() > 1)
            .then(|| slabs.remove(at))
    };
    if let Some(slab) = over {
        slab.unmap();
    }
}

impl Slab {
    /// Maps a new slab. The system provides its memory on first access.
    fn map() -> Option<Slab> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the system chooses the address, so no memory in use is replaced.
        let mapping = unsafe { mmap_anonymous(ptr::null_mut(), 2 * SLAB, protection, flags) }.ok()?;
        let before = mapping.cast::<u8>().align_offset(SLAB);
        // SAFETY: `before` is less than one of the two slabs mapped.
        let start = unsafe { mapping.cast::<u8>().add(before) };
        for (at, len) in [(0, before), (before + SLAB, SLAB - before)] {
            if len > 0 {
                // SAFETY: the range is before or after the slab in its mapping, and nothing refers
                // to it.
                let unmapped = unsafe { munmap(mapping.cast::<u8>().add(at).cast(), len) };
                debug_assert!(unmapped.is_ok(), "{unmapped:?}");
            }
        }
        // SAFETY: the advice concerns memory that was just mapped. If there are no huge pages, it
        // has no effect.
        let _ = unsafe { madvise(start.cast(), SLAB, Advice::LinuxHugepage) };
        Some(Slab {
            start: NonNull::new(start)?,
            used: 0,
            touched: 0,
        })
    }

    fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Returns the position of enough consecutive free pieces.
    fn place(&self, pieces: u32) -> Option<u32> {
        (0..=pieces.leading_zeros()).find(|&shift| self.used & (pieces << shift) == 0)
    }

    /// Marks pieces as used. Returns their address, and whether their contents may be non-zero.
    fn take(&mut self, pieces: u32, shift: u32) -> (NonNull<u8>, bool) {
        let taken = pieces << shift;
        let dirty = self.touched & taken != 0;
        self.used |= taken;
        self.touched |= taken;
        // SAFETY: each bit stands for a piece of the slab.
        (unsafe { self.start.add(shift as usize * PIECE) }, dirty)
    }

    fn unmap(self) {
        // SAFETY: the slab was mapped with this length and is unmapped only once, and none of its
        // pieces is in use.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), SLAB) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_in_a_row_and_are_found_again() {
        let mut slab = Slab {
            start: NonNull::dangling(),
            used: 0b1011,
            touched: 0b1011,
        };
        assert_eq!(slab.place(pieces(1)), Some(2));
        assert_eq!(slab.place(pieces(PIECE + 1)), Some(4));
        assert_eq!(slab.place(pieces(28 * PIECE)), Some(4));
        assert_eq!(slab.place(pieces(29 * PIECE)), None);
        slab.used = 0;
        assert_eq!(slab.place(pieces(SLAB)), Some(0));
        slab.used = 1 << 31;
        assert_eq!(slab.place(pieces(SLAB)), None);
    }

    #[test]
    fn what_is_taken_is_zero_and_nobody_elses() {
        std::thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mut held: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
                    for step in 0..2000_u32 {
                        if held.len() < 6 && random.bool() {
                            let len = random.usize(1..=SLAB / 4);
                            let (start, mark) = (take(len).unwrap(), step as u8 | 1);
                            assert_eq!(start.as_ptr() as usize % PIECE, 0);
                            // SAFETY: the memory was taken with this length.
                            let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) };
                            assert!(bytes.iter().all(|&byte| byte == 0));
                            bytes.fill(mark);
                            held.push((start, len, mark));
                        } else if !held.is_empty() {
                            let (start, len, mark) = held.swap_remove(random.usize(..held.len()));
                            // SAFETY: the memory was taken with this length, and is given back
                            // below.
                            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) };
                            assert!(
                                bytes.iter().all(|&byte| byte == mark),
                                "somebody else wrote there"
                            );
                            // SAFETY: as above, once.
                            unsafe { give_back(start, len) };
                        }
                    }
                    for (start, len, _) in held {
                        // SAFETY: as above, once.
                        unsafe { give_back(start, len) };
                    }
                });
            }
        });
    }
}
