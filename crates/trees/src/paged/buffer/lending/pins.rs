//! Alternative ways to pin pages in memory: under the mutex, or with hints that are stored for each
//! reference in a node.
//!
//! The hint of a reference remembers the frame in which the referenced page was found. The thesis
//! calls this pointer swizzling (section 8.5). Hints are not part of the page, so they are never
//! written to a device.
//!
//! Evicting a page does not update the reference in its parent, so hints become out of date. Each
//! use of a hint is therefore validated with the frame: after a pin by the frame's page number, and
//! after reading a snapshot by the frame's version and page number. To update the reference
//! instead, a frame would have to know the parent of its page, and the parent would have to be
//! latched under the buffer's mutex. Validation costs only one load from a cache line that is
//! needed anyway.

use crate::paged::buffer::FrameHint;

/// How threads pin a page that is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinPolicy {
    /// Under the buffer's mutex, which protects one table and the queues, as in the thesis.
    Locked,
    /// Without the mutex, through a hint that is validated after the frame has been pinned. The
    /// queues are updated later, when the page is considered for eviction.
    #[default]
    Optimistic,
    /// Without the mutex, through a hint for each reference in a node, which is validated with the
    /// frame. The hints use 1/65 of the memory. The queues are updated as with `Optimistic`.
    Swizzled,
}

/// The hints for one node's references.
pub(in crate::paged::buffer) type NodeHints = Box<[FrameHint]>;

/// A node has one hint for this many bytes of its page.
const PAGE_OF_WAY: usize = 32;
/// Number of frames for each node with hints.
const FRAMES_OF_WAYS: usize = 8;

impl PinPolicy {
    /// Returns the number of hints per node, which is a power of two, or 0.
    pub(in crate::paged::buffer) fn ways(self, page_bytes: usize) -> usize {
        assert!(page_bytes.is_power_of_two(), "pages have such sizes");
        match self {
            PinPolicy::Locked | PinPolicy::Optimistic => 0,
            PinPolicy::Swizzled => page_bytes / PAGE_OF_WAY,
        }
    }

    /// Returns how many nodes in a pool can have hints.
    pub(in crate::paged::buffer) fn nodes(self, frames: usize) -> usize {
        match self {
            PinPolicy::Locked | PinPolicy::Optimistic => 0,
            PinPolicy::Swizzled => frames.div_ceil(FRAMES_OF_WAYS),
        }
    }

    /// Returns the memory in bytes that each frame needs beyond its page.
    pub(in crate::paged::buffer) fn bytes_beside(self, page_bytes: usize) -> usize {
        size_of::<FrameHint>() * self.ways(page_bytes) / FRAMES_OF_WAYS
    }
}

/// Returns the hint for a reference. If a node has more references than hints, references share
/// hints.
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
