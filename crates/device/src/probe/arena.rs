//! Memory for the probe's requests: one region for all sizes, like a cache's. An allocator would
//! place buffers of each size on different pages, and describing each page to the device takes
//! time.

use crate::AlignedBuffer;
use rustix::mm::{Advice, madvise};
use std::ptr::NonNull;
use std::sync::Arc;

/// Size of the arena in bytes, and so the most that a window can have in flight.
pub(super) const ARENA: usize = 8 << 20;

/// Size of a huge page in bytes.
const HUGE: usize = 2 << 20;

/// Memory that is divided into buffers for one window at a time.
pub(super) struct ProbeArena {
    start: NonNull<u8>,
    /// The memory. Each buffer holds a reference to it, which reveals outstanding buffers.
    memory: Arc<AlignedBuffer>,
}

impl ProbeArena {
    /// Creates an arena of [`ARENA`] incompressible bytes, in huge pages if the system has them.
    pub(super) fn new(rng: &mut fastrand::Rng) -> ProbeArena {
        let mut memory = AlignedBuffer::zeroed(ARENA + HUGE);
        let before = memory.as_ptr().align_offset(HUGE).min(HUGE);
        let start = NonNull::new(memory.as_mut_ptr()).expect("a buffer has an address");
        // SAFETY: the result is inside the buffer, which is longer by as much.
        let start = unsafe { start.add(before) };
        // SAFETY: the range is inside the buffer, and the advice changes no bytes. It is only a
        // hint: without it, the pages are small.
        let _ = unsafe { madvise(start.as_ptr().cast(), ARENA, Advice::LinuxHugepage) };
        rng.fill(&mut memory);
        ProbeArena {
            start,
            memory: Arc::new(memory),
        }
    }

    /// Divides the arena into buffers.
    ///
    /// # Panics
    /// If the arena is too small, or if buffers of an earlier call still exist.
    pub(super) fn cut(&mut self, bytes: u64, count: u32) -> Vec<AlignedBuffer> {
        assert!(
            bytes * u64::from(count) <= ARENA as u64,
            "{count} buffers of {bytes} bytes in {ARENA}"
        );
        assert_eq!(Arc::strong_count(&self.memory), 1, "buffers are in use");
        (0..count as usize)
            .map(|number| {
                let keeper = Arc::clone(&self.memory);
                // SAFETY: the piece is inside the memory, as asserted above, and aligned, because
                // request sizes are multiples of a block. No other piece overlaps it: those of this
                // cut are next to it, and none of an earlier cut is left, because each holds the
                // memory. The arena itself never touches the bytes again.
                unsafe {
                    let start = self.start.add(number * bytes as usize);
                    AlignedBuffer::from_region(start, bytes as usize, keeper)
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_of_the_arena_and_apart() {
        let mut arena = ProbeArena::new(&mut fastrand::Rng::with_seed(1));
        let mut buffers = arena.cut(65_536, 64);
        for (number, buffer) in (0..).zip(&mut buffers) {
            buffer.fill(number);
        }
        for (number, buffer) in (0..).zip(&buffers) {
            assert!(buffer.len() == 65_536 && buffer.iter().all(|&byte| byte == number));
        }
        drop(buffers);
        assert_eq!(arena.cut(4 << 20, 1).remove(0)[(4 << 20) - 1], 63);
    }

    #[test]
    #[should_panic(expected = "buffers are in use")]
    fn no_byte_is_in_two_buffers() {
        let mut arena = ProbeArena::new(&mut fastrand::Rng::with_seed(1));
        let first = arena.cut(4096, 1);
        let second = arena.cut(4096, 1);
        drop((first, second));
    }
}
