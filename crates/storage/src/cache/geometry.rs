//! Layout of the arena. The arena is divided into chunks of equal size. Each chunk starts with a
//! table of frame headers, followed by frames of a single size class. This module is pure
//! arithmetic.
//!
//! ```text
//! chunk  = headers, 64 bytes each, padded to 4 KiB | frame 0 | frame 1 | ... | rest, unused
//! frame  = as many pages as its class says: class c holds nodes of c + 1 pages
//! ```
//!
//! Each chunk stores the headers of its own frames. The headers therefore go back to the system
//! with the chunk, one huge page covers both, and the frame number is enough to find the header.

use super::arena::HUGE_PAGE;
use super::frame::{FrameHeader, FrameId};
use crate::PageSize;
use crate::node::MAX_PAGES;
use alluvium_device::BUFFER_ALIGNMENT;

/// Number of size classes, one for each possible number of pages in a node.
pub(super) const CLASSES: usize = MAX_PAGES as usize;
/// Maximum number of pages in a chunk. With pages of 4 KiB, such a chunk fills a huge page.
const MAX_CHUNK_PAGES: usize = 512;
/// Minimum number of pages in a chunk. A chunk must hold its headers and a node of the largest
/// class.
const MIN_CHUNK_PAGES: usize = 32;
/// Minimum number of chunks that a cache should have, so that every size class can get some.
const WANTED_CHUNKS: u64 = 32;
/// Memory in bytes that a frame needs outside its chunk, for its entries in the lists of free,
/// retired, cold and demoted frames.
const LIST_BYTES_PER_FRAME: usize = 28;

const _: () = assert!(MIN_CHUNK_PAGES > MAX_PAGES as usize && MAX_CHUNK_PAGES * 4096 == HUGE_PAGE);

/// Layout of a chunk that is divided into frames of one class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkLayout {
    pub(super) frames: usize,
    /// Size of a frame in bytes.
    pub(super) frame_bytes: usize,
    /// Size of the table of headers in bytes. The first frame follows the table.
    pub(super) header_bytes: usize,
}

/// Layout of a cache's arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArenaGeometry {
    pub(super) chunk_bytes: usize,
    slot_bits: u32,
    cuts: [ChunkLayout; CLASSES],
}

impl ArenaGeometry {
    /// Computes the layout for a cache with this initial budget in bytes.
    pub(super) fn new(page_size: PageSize, budget: u64) -> ArenaGeometry {
        let pages = (budget / WANTED_CHUNKS / page_size.bytes() as u64).max(1);
        let pages = (1usize << pages.ilog2()).clamp(MIN_CHUNK_PAGES, MAX_CHUNK_PAGES);
        let chunk_bytes = pages * page_size.bytes();
        let cuts = std::array::from_fn(|class| Self::cut_of(chunk_bytes, (class + 1) * page_size.bytes()));
        assert!(cuts.is_sorted_by(|one: &ChunkLayout, next| one.frames >= next.frames));
        let slot_bits = cuts[0].frames.next_power_of_two().trailing_zeros();
        ArenaGeometry {
            chunk_bytes,
            slot_bits,
            cuts,
        }
    }

    fn cut_of(chunk_bytes: usize, frame_bytes: usize) -> ChunkLayout {
        let header_bytes =
            |frames: usize| (frames * size_of::<FrameHeader>()).next_multiple_of(BUFFER_ALIGNMENT);
        let mut frames = chunk_bytes / frame_bytes;
        while header_bytes(frames) + frames * frame_bytes > chunk_bytes {
            frames -= 1;
        }
        assert!(frames > 0, "a chunk of {chunk_bytes} bytes has no frame");
        ChunkLayout {
            frames,
            frame_bytes,
            header_bytes: header_bytes(frames),
        }
    }

    pub(super) fn cut(&self, class: usize) -> ChunkLayout {
        self.cuts[class]
    }

    /// Returns the maximum number of frames in a chunk, which is the number for the smallest class.
    pub(super) fn max_frames(&self) -> usize {
        self.cuts[0].frames
    }

    /// Returns the memory in bytes that a chunk needs, including the list entries of its frames.
    pub(super) fn chunk_cost(&self) -> u64 {
        (self.chunk_bytes + self.max_frames() * LIST_BYTES_PER_FRAME) as u64
    }

    #[inline]
    pub(super) fn frame(&self, chunk: u32, slot: usize) -> FrameId {
        debug_assert!(slot < 1 << self.slot_bits, "slot {slot}");
        debug_assert!(u64::from(chunk) < self.max_chunks(), "chunk {chunk}");
        FrameId(chunk << self.slot_bits | slot as u32)
    }

    #[inline]
    pub(super) fn chunk_of(&self, frame: FrameId) -> u32 {
        frame.0 >> self.slot_bits
    }

    #[inline]
    fn slot_of(&self, frame: FrameId) -> usize {
        (frame.0 & ((1 << self.slot_bits) - 1)) as usize
    }

    /// Returns the offset of a chunk in the arena in bytes.
    #[inline]
    pub(super) fn chunk_at(&self, chunk: u32) -> usize {
        chunk as usize * self.chunk_bytes
    }

    /// Returns the offset of a frame's header in the arena in bytes.
    #[inline]
    pub(super) fn header_at(&self, frame: FrameId) -> usize {
        self.chunk_at(self.chunk_of(frame)) + self.slot_of(frame) * size_of::<FrameHeader>()
    }

    /// Returns the offset in bytes at which the node of a frame of this class begins in the arena.
    #[inline]
    pub(super) fn data_at(&self, frame: FrameId, class: usize) -> usize {
        debug_assert!(self.slot_of(frame) < self.cuts[class].frames, "{frame:?}");
        let cut = self.cuts[class];
        self.chunk_at(self.chunk_of(frame)) + cut.header_bytes + self.slot_of(frame) * cut.frame_bytes
    }

    /// Returns the maximum number of chunks that frame numbers can address.
    pub(super) fn max_chunks(&self) -> u64 {
        1 << (u32::BITS - self.slot_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_frames_of_every_class_fit_their_chunk_and_do_not_overlap() {
        for page in [4096, 16384, 65536] {
            for budget in [1 << 20, 16 << 20, 64 << 20, 4 << 30] {
                let geometry = ArenaGeometry::new(PageSize::new(page).unwrap(), budget);
                for class in 0..CLASSES {
                    let cut = geometry.cut(class);
                    assert!(cut.frames >= 1 && cut.frames <= 1 << geometry.slot_bits);
                    let last = geometry.data_at(geometry.frame(3, cut.frames - 1), class) + cut.frame_bytes;
                    assert!(last <= geometry.chunk_at(4));
                    let header = geometry.header_at(geometry.frame(3, cut.frames - 1));
                    assert!(header + 64 <= geometry.data_at(geometry.frame(3, 0), class));
                    assert_eq!(
                        geometry.data_at(geometry.frame(3, 0), class) % BUFFER_ALIGNMENT,
                        0
                    );
                    assert_eq!(geometry.chunk_of(geometry.frame(3, cut.frames - 1)), 3);
                }
            }
        }
    }

    #[test]
    fn headers_cost_less_than_two_hundredths_of_large_caches() {
        let geometry = ArenaGeometry::new(PageSize::MIN, 1 << 30);
        assert_eq!(geometry.chunk_bytes, HUGE_PAGE);
        let cut = geometry.cut(0);
        assert!(cut.frames * cut.frame_bytes * 100 >= geometry.chunk_bytes * 98);
    }
}
