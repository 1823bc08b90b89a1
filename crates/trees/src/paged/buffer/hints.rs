//! Hints to the frames of pages. A hint lets a thread pin a page in memory without acquiring a
//! mutex.
//!
//! Many pages share one hint, which refers to the frame of whichever of them was last pinned under
//! the mutex. A hint may be out of date, so the frame itself is checked. In the thesis, every pin
//! locks the only table, so throughput falls with each additional thread (section 6.4). A table
//! without this lock is left to future work there (section 8.5).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of hints per frame. There are enough that few pages in memory share a hint.
const PLACES: usize = 4;
/// The frame number that stands for "no frame".
const NONE: u32 = u32::MAX;
const _: () = assert!(PLACES > 1, "most pages in memory have a place of their own");

/// A hint that is stored with a reference to a page: the frame that most recently held the page.
#[derive(Debug)]
pub struct FrameHint(AtomicU32);

impl Default for FrameHint {
    fn default() -> FrameHint {
        FrameHint::new()
    }
}

impl FrameHint {
    #[must_use]
    pub fn new() -> FrameHint {
        FrameHint(AtomicU32::new(NONE))
    }

    /// Returns the number of the frame that may contain the page, if there is a hint.
    pub(super) fn get(&self) -> Option<usize> {
        let frame = self.0.load(Ordering::Acquire);
        (frame != NONE).then_some(frame as usize)
    }

    /// Stores the number of the frame that contains the page.
    pub(super) fn set(&self, frame: usize) {
        assert!(frame < NONE as usize, "frames are numbered");
        self.0.store(frame as u32, Ordering::Release);
    }
}

/// Number of hints that are allocated together on first use.
const PLACES_TOGETHER: usize = 256;

/// A hash table of hints, indexed by page number.
#[derive(Debug)]
pub(super) struct FrameHintTable {
    /// Number of hints, which is a power of two, or 0.
    count: usize,
    chunks: Box<[OnceLock<Box<[FrameHint]>>]>,
}

impl FrameHintTable {
    /// Maximum memory of the table in bytes per frame.
    pub(super) const FRAME_BYTES: usize = 2 * PLACES * size_of::<FrameHint>();

    /// Creates a table for a number of frames. With 0 frames the table has no hints, so every pin
    /// acquires the mutex.
    pub(super) fn new(frames: usize) -> FrameHintTable {
        assert!(frames < NONE as usize, "frames are numbered");
        let count = match frames {
            0 => 0,
            _ => (PLACES * frames).next_power_of_two(),
        };
        let chunks = count.div_ceil(PLACES_TOGETHER);
        FrameHintTable {
            count,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Returns the chunk that contains a page's hint, and the index of the hint within the chunk.
    fn place(&self, page: u64) -> Option<(&OnceLock<Box<[FrameHint]>>, usize)> {
        // Fibonacci hashing (Knuth 6.4) spreads pages with neighbouring numbers over the table.
        let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = mixed as usize & self.count.checked_sub(1)?;
        let chunk = self.chunks.get(place / PLACES_TOGETHER)?;
        Some((chunk, place % PLACES_TOGETHER))
    }

    /// Returns the number of the frame that may contain a page, if there is a hint.
    pub(super) fn of(&self, page: u64) -> Option<usize> {
        let (chunk, at) = self.place(page)?;
        chunk.get()?.get(at)?.get()
    }

    /// Stores the number of the frame that contains a page.
    pub(super) fn set(&self, page: u64, frame: usize) {
        if let Some((chunk, at)) = self.place(page) {
            let places = chunk.get_or_init(|| (0..PLACES_TOGETHER).map(|_| FrameHint::new()).collect());
            places[at].set(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_pages_in_memory_have_a_place_of_their_own() {
        let hints = FrameHintTable::new(1000);
        (0..1000).for_each(|frame| hints.set(frame as u64 * 7, frame));
        let own = (0..1000).filter(|frame| hints.of(*frame as u64 * 7) == Some(*frame));
        assert!(own.count() > 800);
        assert_eq!(FrameHintTable::new(8).of(5), None);
        let none = FrameHintTable::new(0);
        none.set(5, 1);
        assert_eq!(none.of(5), None, "the mutex tells");
    }
}
