//! Other ways to pin pages in memory: under the mutex, and by what references remember.
//!
//! Each reference of a node in memory remembers the frame that its page was found in: pointers are
//! swizzled, in the words of the thesis (section 8.5). Frames are remembered beside the page, so
//! that nothing of them is ever written to a device.
//!
//! A page that is evicted is not looked for in its parent. The reference there is out of date from
//! then on, and the frame proves each time whose it is: by its owner behind the pin, or by its
//! version and owner behind a snapshot. Ending the reference instead would need frames that know
//! their parents, and the parent's latch under the buffer's mutex. The proof costs a load of a line
//! that is needed in any case.

use crate::paged::buffer::Way;

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

/// Where the references of a node remember frames.
pub(in crate::paged::buffer) type Ways = Box<[Way]>;

/// Bytes of a page for each reference that remembers.
const PAGE_OF_WAY: usize = 32;
/// One node whose references remember for this number of frames.
const FRAMES_OF_WAYS: usize = 8;

impl PinPolicy {
    /// Returns how many references of a node remember frames: a power of two, or none.
    pub(in crate::paged::buffer) fn ways(self, page_bytes: usize) -> usize {
        assert!(page_bytes.is_power_of_two(), "pages have such sizes");
        match self {
            PinPolicy::Locked | PinPolicy::Optimistic => 0,
            PinPolicy::Swizzled => page_bytes / PAGE_OF_WAY,
        }
    }

    /// Returns how many nodes of a pool have references that remember.
    pub(in crate::paged::buffer) fn nodes(self, frames: usize) -> usize {
        match self {
            PinPolicy::Locked | PinPolicy::Optimistic => 0,
            PinPolicy::Swizzled => frames.div_ceil(FRAMES_OF_WAYS),
        }
    }

    /// Returns how many bytes of memory each frame takes beside its page.
    pub(in crate::paged::buffer) fn bytes_beside(self, page_bytes: usize) -> usize {
        size_of::<Way>() * self.ways(page_bytes) / FRAMES_OF_WAYS
    }
}

/// Returns the way of a reference; nodes with more references than ways share some.
pub(in crate::paged::buffer) fn way_at(ways: &Ways, place: usize) -> Option<&Way> {
    let mask = ways.len().checked_sub(1)?;
    ways.get(place & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_memory_remembers() {
        assert_eq!(PinPolicy::Swizzled.ways(16 << 10), 512);
        assert_eq!(PinPolicy::Swizzled.bytes_beside(16 << 10), 256);
        assert_eq!(PinPolicy::Optimistic.bytes_beside(16 << 10), 0);
    }
}
