//! Where pages were last seen: pins of pages in memory need no mutex.
//!
//! A place is for many pages; the last that was pinned under the mutex has it. What stands there
//! may be out of date, and is proven by the frame itself. The thesis loses throughput with each
//! thread because every pin takes the lock of its one table (section 6.4), and leaves a table
//! without it to later work (section 8.5).

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
}

/// Places for each frame: few pages share one.
const PLACES: usize = 4;
/// No frame.
const NONE: u32 = u32::MAX;
const _: () = assert!(PLACES > 1, "most pages in memory have a place of their own");

/// Guesses which frame a page is in.
#[derive(Debug)]
pub(super) struct Hints {
    places: Box<[AtomicU32]>,
}

impl Hints {
    /// Returns places for a number of frames; none if pins take the mutex.
    pub(super) fn new(frames: usize, pins: PinPolicy) -> Hints {
        assert!(frames < NONE as usize, "frames are numbered");
        let places = match pins {
            PinPolicy::Locked => 0,
            PinPolicy::Optimistic => (PLACES * frames).next_power_of_two(),
        };
        Hints {
            places: (0..places).map(|_| AtomicU32::new(NONE)).collect(),
        }
    }

    fn place(&self, page: u64) -> Option<&AtomicU32> {
        // Fibonacci hashing (Knuth 6.4): neighbours lie far apart.
        let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mask = self.places.len().checked_sub(1)?;
        self.places.get(mixed as usize & mask)
    }

    /// Returns the frame that the page may be in.
    pub(super) fn of(&self, page: u64) -> Option<usize> {
        let frame = self.place(page)?.load(Ordering::Acquire);
        (frame != NONE).then_some(frame as usize)
    }

    /// Notes where a page is.
    pub(super) fn set(&self, page: u64, frame: usize) {
        if let Some(place) = self.place(page) {
            place.store(frame as u32, Ordering::Release);
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
    }
}
