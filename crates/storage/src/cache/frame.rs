//! The header of a frame: its node, its pins and its CLOCK state. A header is one cache line, the
//! only one that a hit touches besides the page table and the node.
//!
//! State transitions of a frame, and their owners:
//!
//! ```text
//!        take (lane lock)        publish                evict: whoever took its word
//! FREE ------------------> FILLING ------> RESIDENT --------------------------------> RETIRED
//!   ^                         |                                                          |
//!   +--- give back: failed ---+                                                          |
//!   +------------- recycle: two epochs later, when nothing pins it ----------------------+
//! ```

use super::arena::ZeroedAtomics;
use crate::NodePointer;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A frame's number: its chunk, and its slot in the chunk's table of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FrameId(pub(super) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameState {
    /// In a list of free frames, or in a draining chunk.
    Free,
    /// Owned by one read or insertion.
    Filling,
    /// Holds a node and is in the page table, or was just removed from it.
    Resident,
    /// Removed from the page table. Guards may still read it.
    Retired,
}

/// The CLOCK bit: used since the hand last passed.
const REFERENCED: u32 = 1;
/// Not used by another reader since the node was brought in.
const COLD: u32 = 2;
/// Filled by a read-ahead: the next use is by the reader that requested it.
const AWAITED: u32 = 4;
/// Filled by a pass-through read.
const PASSING: u32 = 8;
/// The node will soon be dead, so its use does not protect it.
const DEMOTED: u32 = 16;
/// The frame's chunk is being drained: the frame must not enter a list.
const DRAINING: u32 = 1 << 8;
const _: () = assert!(
    REFERENCED | COLD | AWAITED | PASSING | DEMOTED == 31,
    "each mark has a bit of its own"
);

/// Initial CLOCK state of a node, by the use expected of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitialHeat {
    /// Kept as a hot node: it was missed again soon after its eviction, or it was inserted after
    /// being written.
    Proven,
    /// Used by the reader that requested it, and so far by no other; or offered after being
    /// written.
    Trial,
    /// Read ahead: the reader that requested it has not used it yet.
    Awaited,
    /// Expected to be used once.
    Passing,
}

/// The identity of a node: all fields of its pointer. It includes the checksum, so that a node
/// written over an abandoned one within the same generation has a different key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeKey([u64; 4]);

impl NodeKey {
    #[inline]
    pub(super) fn of(pointer: &NodePointer) -> NodeKey {
        let rest = u64::from(pointer.encoded_len)
            | u64::from(pointer.tier) << 32
            | u64::from(pointer.pages) << 40
            | u64::from(pointer.codec.number()) << 48;
        NodeKey([pointer.offset, pointer.birth, pointer.checksum, rest])
    }

    /// Returns a hash. Its high bits choose the bucket, its low bits are the tag.
    #[inline]
    pub(super) fn hash(&self) -> u64 {
        let [offset, birth, checksum, rest] = self.0;
        let mixed = checksum ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ birth.rotate_left(32) ^ rest;
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }
}

/// The header of one frame.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct FrameHeader {
    /// Written only while the frame is [`FrameState::Filling`]. It is therefore stable for a reader
    /// that found the frame under a guard.
    key: [AtomicU64; 4],
    /// The epoch at which the frame was retired.
    retired: AtomicU64,
    state: AtomicU32,
    /// Number of `FrameRef`s. While it is not 0, the frame is not reused.
    pins: AtomicU32,
    /// [`REFERENCED`], or [`COLD`] with [`AWAITED`] or [`PASSING`], or [`DEMOTED`], or 0.
    heat: AtomicU32,
    /// The size class, and [`DRAINING`].
    class: AtomicU32,
}

// SAFETY: every field is an atomic integer; zero is a free frame of class 0.
unsafe impl ZeroedAtomics for FrameHeader {}

#[cfg(not(alluvium_model_check))]
const _: () = assert!(size_of::<FrameHeader>() == 64);

impl FrameHeader {
    /// Initialises the header of a free frame. The caller must own the chunk exclusively.
    pub(super) fn cut(&self, class: usize) {
        assert!((class as u32) < DRAINING, "class {class} would be read as a mark");
        self.retired.store(0, Ordering::Relaxed);
        self.heat.store(0, Ordering::Relaxed);
        // The header may overlap a node of the chunk's previous class.
        self.pins.store(0, Ordering::Relaxed);
        self.class.store(class as u32, Ordering::Relaxed);
        self.state.store(FrameState::Free as u32, Ordering::Release);
    }

    pub(super) fn class(&self) -> usize {
        (self.class.load(Ordering::Relaxed) & !DRAINING) as usize
    }

    pub(super) fn is_draining(&self) -> bool {
        self.class.load(Ordering::Relaxed) & DRAINING != 0
    }

    pub(super) fn set_draining(&self) {
        self.class.fetch_or(DRAINING, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> FrameState {
        match self.state.load(Ordering::Acquire) {
            0 => FrameState::Free,
            1 => FrameState::Filling,
            2 => FrameState::Resident,
            _ => FrameState::Retired,
        }
    }

    fn step(&self, from: FrameState, to: FrameState) {
        let was = self.state();
        assert_eq!(was, from, "a frame goes from {from:?} to {to:?}");
        self.state.store(to as u32, Ordering::Release);
    }

    /// Takes a free frame for a read or an insertion. The caller has removed it from its list.
    pub(super) fn take(&self) {
        self.step(FrameState::Free, FrameState::Filling);
    }

    /// Frees a frame that was taken but never published.
    pub(super) fn give_back(&self) {
        self.step(FrameState::Filling, FrameState::Free);
    }

    /// Publishes the frame with its node's key. The bytes are already written; the caller adds it
    /// to the page table next.
    pub(super) fn publish(&self, key: &NodeKey, manner: InitialHeat) {
        for (word, value) in self.key.iter().zip(key.0) {
            word.store(value, Ordering::Relaxed);
        }
        let heat = match manner {
            InitialHeat::Proven => 0,
            InitialHeat::Trial => COLD,
            InitialHeat::Awaited => COLD | AWAITED,
            InitialHeat::Passing => COLD | PASSING,
        };
        self.heat.store(heat, Ordering::Relaxed);
        self.step(FrameState::Filling, FrameState::Resident);
    }

    /// Retires a frame whose word the caller has just removed from the page table.
    pub(super) fn retire(&self, epoch: u64) {
        self.retired.store(epoch, Ordering::Relaxed);
        self.step(FrameState::Resident, FrameState::Retired);
    }

    /// Returns the epoch at which the frame was retired.
    pub(super) fn retired_at(&self) -> u64 {
        debug_assert!(
            self.state() != FrameState::Filling,
            "a frame that is filled was not retired"
        );
        self.retired.load(Ordering::Relaxed)
    }

    /// Frees a retired frame unless it is pinned. Its epoch must be safe, so that no reader can
    /// start to pin it.
    pub(super) fn recycle(&self) -> bool {
        // Acquire: reads through the last reference precede the reuse of the frame.
        if self.pins.load(Ordering::Acquire) != 0 {
            return false;
        }
        self.step(FrameState::Retired, FrameState::Free);
        true
    }

    /// Returns the key of the node. The caller must have seen the frame resident under a guard that
    /// still lives.
    pub(super) fn key(&self) -> NodeKey {
        NodeKey(std::array::from_fn(|i| self.key[i].load(Ordering::Relaxed)))
    }

    /// Returns whether the frame, found under a guard that still lives, holds this node.
    #[inline]
    pub(super) fn holds(&self, key: &NodeKey) -> bool {
        // The four words are compared together: they share a cache line, and a branch for each
        // would cost more.
        let differ = self.key.iter().zip(key.0).fold(0, |differ, (word, value)| {
            differ | (word.load(Ordering::Relaxed) ^ value)
        });
        differ == 0
    }

    /// Marks the frame as used. Hot frames are only read: the bit is tested before it is set.
    #[inline]
    pub(super) fn touch(&self) {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat != REFERENCED && heat != DEMOTED {
            let is_first = heat & AWAITED != 0;
            let heat = if is_first { heat & !AWAITED } else { REFERENCED };
            self.heat.store(heat, Ordering::Relaxed);
        }
    }

    /// Clears the reference bit. Returns whether it was set.
    pub(super) fn cool(&self) -> bool {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat & REFERENCED != 0 {
            self.heat.store(heat & !REFERENCED, Ordering::Relaxed);
        }
        heat & REFERENCED != 0
    }

    /// Returns whether no other reader has used the node since it was brought in.
    pub(super) fn is_cold(&self) -> bool {
        self.heat.load(Ordering::Relaxed) & COLD != 0
    }

    /// Returns whether a pass-through read filled the frame and no other reader used it since.
    pub(super) fn is_passing(&self) -> bool {
        self.heat.load(Ordering::Relaxed) & PASSING != 0
    }

    /// Marks the frame to be evicted first. Returns whether it was not marked before.
    pub(super) fn demote(&self) -> bool {
        self.heat.swap(DEMOTED, Ordering::Relaxed) != DEMOTED
    }

    /// Returns whether the frame is marked to be evicted first.
    pub(super) fn is_demoted(&self) -> bool {
        self.heat.load(Ordering::Relaxed) == DEMOTED
    }

    /// Turns a cold frame into an ordinary one.
    pub(super) fn clear_cold(&self) {
        self.heat.store(0, Ordering::Relaxed);
    }

    /// Adds a reference that outlives guards. Returns whether it is the first. The caller must have
    /// a reference already, or a guard under which it found the frame.
    pub(super) fn pin(&self) -> bool {
        let before = self.pins.fetch_add(1, Ordering::Relaxed);
        assert!(
            before < u32::MAX / 2,
            "references to one frame are counted with 31 bits"
        );
        before == 0
    }

    /// Drops a reference. Returns whether it was the last.
    pub(super) fn unpin(&self) -> bool {
        let before = self.pins.fetch_sub(1, Ordering::Release);
        assert!(before > 0, "a reference is dropped once");
        before == 1
    }

    pub(super) fn pins(&self) -> u32 {
        self.pins.load(Ordering::Acquire)
    }
}

impl Default for FrameHeader {
    fn default() -> Self {
        FrameHeader {
            key: std::array::from_fn(|_| AtomicU64::new(0)),
            retired: AtomicU64::new(0),
            state: AtomicU32::new(FrameState::Free as u32),
            pins: AtomicU32::new(0),
            heat: AtomicU32::new(0),
            class: AtomicU32::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_frame_is_not_recycled_until_its_last_reference_is_dropped() {
        let header = FrameHeader::default();
        let key = NodeKey([1, 2, 3, 4]);
        header.take();
        header.publish(&key, InitialHeat::Proven);
        assert!(header.holds(&key) && !header.holds(&NodeKey([1, 2, 3, 5])));
        assert!(header.pin());
        assert!(!header.pin());
        header.retire(7);
        assert!(!header.recycle());
        assert!(!header.unpin());
        assert!(header.unpin());
        assert!(header.recycle());
        assert_eq!((header.state(), header.retired_at()), (FrameState::Free, 7));
    }

    #[test]
    fn a_use_warms_a_cold_frame_and_the_hand_forgets_it() {
        let header = FrameHeader::default();
        header.take();
        header.publish(&NodeKey([0; 4]), InitialHeat::Passing);
        assert!(header.is_cold() && header.is_passing() && !header.cool());
        header.touch();
        assert!(!header.is_cold() && !header.is_passing());
        assert!(header.cool());
        assert!(!header.cool() && !header.is_cold());
    }

    #[test]
    fn a_frame_marked_to_be_evicted_first_stays_so_until_it_has_another_node() {
        let header = FrameHeader::default();
        header.take();
        header.publish(&NodeKey([0; 4]), InitialHeat::Proven);
        assert!(!header.is_demoted());
        assert!(header.demote() && !header.demote());
        header.touch();
        assert!(header.is_demoted() && !header.is_cold() && !header.cool());
        header.retire(1);
        assert!(header.recycle());
        header.take();
        header.publish(&NodeKey([1; 4]), InitialHeat::Trial);
        assert!(!header.is_demoted() && header.is_cold());
    }

    #[test]
    fn the_first_use_of_what_was_asked_for_ahead_is_that_of_who_asked() {
        let header = FrameHeader::default();
        header.take();
        header.publish(&NodeKey([0; 4]), InitialHeat::Awaited);
        header.touch();
        assert!(header.is_cold() && !header.cool());
        header.touch();
        assert!(!header.is_cold() && header.cool());
    }
}
