//! Where pages were last seen: pins of pages in memory need no mutex.
//!
//! Either one table guesses, or each reference of a node in memory remembers the frame that its
//! page was found in: pointers are swizzled, in the words of the thesis (section 8.5). Frames are
//! remembered beside the page, so that nothing of them is ever written to a device.
//!
//! A page that is evicted is not looked for in its parent. The reference there is out of date from
//! then on, and the frame proves each time whose it is: by its owner behind the pin, or by its
//! version and owner behind a snapshot. Ending the reference instead would need frames that know
//! their parents, and the parent's latch under the buffer's mutex. The proof costs a load of a line
//! that is needed in any case.
//!
//! A place is for many pages; the last that was pinned under the mutex has it. What stands there
//! may be out of date, and is proven by the frame itself. The thesis loses throughput with each
//! thread because every pin takes the lock of its one table (section 6.4), and leaves a table
//! without it to later work (section 8.5).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// How pages that are in memory are pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinPolicy {
    /// Under the buffer's mutex, which guards one table and the queues, as in the thesis.
    Locked,
    /// Without it: a guess where the page is, proven after the pin. The queues learn of a
    /// reference when the page is to be evicted.
    #[default]
    Optimistic,
    /// Without it: each reference of a node remembers the frame of its page, and the frame proves
    /// it. A part in 65 of the memory remembers. The queues learn as with `Optimistic`.
    Swizzled,
}

/// Places for each frame: few pages share one.
const PLACES: usize = 4;
/// No frame.
const NONE: u32 = u32::MAX;
const _: () = assert!(PLACES > 1, "most pages in memory have a place of their own");

/// The frame in which a reference's page was last found.
#[derive(Debug)]
pub struct Way(AtomicU32);

impl Default for Way {
    fn default() -> Way {
        Way::new()
    }
}

impl Way {
    /// Returns one that remembers no frame.
    #[must_use]
    pub fn new() -> Way {
        Way(AtomicU32::new(NONE))
    }

    /// Returns the frame that the page may be in.
    pub(super) fn get(&self) -> Option<usize> {
        let frame = self.0.load(Ordering::Acquire);
        (frame != NONE).then_some(frame as usize)
    }

    /// Remembers where the page is.
    pub(super) fn set(&self, frame: usize) {
        assert!(frame < NONE as usize, "frames are numbered");
        self.0.store(frame as u32, Ordering::Release);
    }
}

/// Where the references of a node remember frames.
pub(super) type Ways = Box<[Way]>;

/// Bytes of a page for each reference that remembers.
const PAGE_OF_WAY: usize = 32;
/// One node whose references remember for this number of frames.
const FRAMES_OF_WAYS: usize = 8;

impl PinPolicy {
    /// Returns how many references of a node remember frames: a power of two, or none.
    pub(super) fn ways(self, page_bytes: usize) -> usize {
        assert!(page_bytes.is_power_of_two(), "pages have such sizes");
        match self {
            PinPolicy::Locked | PinPolicy::Optimistic => 0,
            PinPolicy::Swizzled => page_bytes / PAGE_OF_WAY,
        }
    }

    /// Returns how many nodes of a pool have references that remember.
    pub(super) fn nodes(self, frames: usize) -> usize {
        match self {
            PinPolicy::Locked | PinPolicy::Optimistic => 0,
            PinPolicy::Swizzled => frames.div_ceil(FRAMES_OF_WAYS),
        }
    }

    /// Returns how many bytes of memory each frame takes beside its page.
    pub(super) fn bytes_beside(self, page_bytes: usize) -> usize {
        size_of::<Way>() * self.ways(page_bytes) / FRAMES_OF_WAYS
    }
}

/// Returns the way of a reference; nodes with more references than ways share some.
pub(super) fn way_at(ways: &Ways, place: usize) -> Option<&Way> {
    let mask = ways.len().checked_sub(1)?;
    ways.get(place & mask)
}

/// Places that are made together, once one of them is needed.
const PLACES_TOGETHER: usize = 256;

/// Guesses which frame a page is in.
#[derive(Debug)]
pub(super) struct Hints {
    /// A power of two, or none.
    count: usize,
    chunks: Box<[OnceLock<Box<[Way]>>]>,
}

impl Hints {
    /// Bytes for each frame, at most.
    pub(super) const FRAME_BYTES: usize = 2 * PLACES * size_of::<Way>();

    /// Returns places for a number of frames; none if pins take the mutex.
    pub(super) fn new(frames: usize, pins: PinPolicy) -> Hints {
        assert!(frames < NONE as usize, "frames are numbered");
        let count = match pins {
            PinPolicy::Locked | PinPolicy::Swizzled => 0,
            PinPolicy::Optimistic => (PLACES * frames).next_power_of_two(),
        };
        let chunks = count.div_ceil(PLACES_TOGETHER);
        Hints {
            count,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Returns the chunk of a page's place, and the place in it.
    fn place(&self, page: u64) -> Option<(&OnceLock<Box<[Way]>>, usize)> {
        // Fibonacci hashing (Knuth 6.4): neighbours lie far apart.
        let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = mixed as usize & self.count.checked_sub(1)?;
        let chunk = self.chunks.get(place / PLACES_TOGETHER)?;
        Some((chunk, place % PLACES_TOGETHER))
    }

    /// Returns the frame that the page may be in.
    pub(super) fn of(&self, page: u64) -> Option<usize> {
        let (chunk, at) = self.place(page)?;
        chunk.get()?.get(at)?.get()
    }

    /// Notes where a page is.
    pub(super) fn set(&self, page: u64, frame: usize) {
        if let Some((chunk, at)) = self.place(page) {
            let places = chunk.get_or_init(|| (0..PLACES_TOGETHER).map(|_| Way::new()).collect());
            places[at].set(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_pages_in_memory_have_a_place_of_their_own() {
        let hints = Hints::new(1000, PinPolicy::Optimistic);
        (0..1000).for_each(|frame| hints.set(frame as u64 * 7, frame));
        let own = (0..1000).filter(|frame| hints.of(*frame as u64 * 7) == Some(*frame));
        assert!(own.count() > 800);
        assert_eq!(Hints::new(8, PinPolicy::Optimistic).of(5), None);
        let locked = Hints::new(8, PinPolicy::Locked);
        locked.set(5, 1);
        assert_eq!(locked.of(5), None, "the mutex tells");
        assert_eq!(Hints::new(8, PinPolicy::Swizzled).count, 0);
        assert_eq!(PinPolicy::Swizzled.ways(16 << 10), 512);
        assert_eq!(PinPolicy::Swizzled.bytes_beside(16 << 10), 256);
    }
}
