//! Alternative ways to pin pages in memory: under the mutex, and by hints in references.
//!
//! Each reference of a node in memory stores the frame in which its page was found: the thesis
//! calls this pointer swizzling (section 8.5). The hints are stored outside the page, so they are
//! never written to a device.
//!
//! Eviction does not update the parent of a page. Its reference becomes out of date, and each use
//! is validated by the frame: by its owner after a pin, or by its version and owner after reading a
//! snapshot. Invalidating the reference would require that frames know their parents, and latching
//! the parent under the buffer's mutex. Validation costs one load of a cache line that is needed
//! anyway.

use crate::paged::buffer::FrameHint;

/// How pages in memory are pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinPolicy {
    /// Under the buffer's mutex, which protects one table and the queues, as in the thesis.
    Locked,
    /// Without the mutex: by a hint, validated after the pin. The queues are updated with the
    /// reference when the page is about to be evicted.
    #[default]
    Optimistic,
    /// Without the mutex: each reference of a node stores a hint, validated by the frame. The hints
    /// use 1/65 of the memory. The queues are updated as with `Optimistic`.
    Swizzled,
}

/// The hints of the references in a node.
pub(in crate::paged::buffer) type NodeHints = Box<[FrameHint]>;

/// Bytes of a page for each hint.
const PAGE_OF_WAY: usize = 32;
/// One node in this many frames has hints.
const FRAMES_OF_WAYS: usize = 8;

impl PinPolicy {
    /// Returns the number of hints of a node: a power of two, or 0.
    pub(in crate::paged::buffer) fn ways(self, page_bytes: usize) -> usize {
        assert!(page_bytes.is_power_of_two(), "pages have such sizes");
        match self {
            PinPolicy::Locked | PinPolicy::Optimistic => 0,
            PinPolicy::Swizzled => page_bytes / PAGE_OF_WAY,
        }
    }

    /// Returns the number of nodes in a pool that have hints.
    pub(in crate::paged::buffer) fn nodes(self, frames: usize) -> usize {
        match self {
            PinPolicy::Locked | PinPolicy::Optimistic => 0,
            PinPolicy::Swizzled => frames.div_ceil(FRAMES_OF_WAYS),
        }
    }

    /// Returns the bytes of memory for each frame in addition to its page.
    pub(in crate::paged::buffer) fn bytes_beside(self, page_bytes: usize) -> usize {
        size_of::<FrameHint>() * self.ways(page_bytes) / FRAMES_OF_WAYS
    }
}

/// Returns the hint of a reference. In nodes with more references than hints some references share
/// one.
pub(in crate::paged::buffer) fn way_at(ways: &NodeHints, place: usize) -> Option<&FrameHint> {
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
