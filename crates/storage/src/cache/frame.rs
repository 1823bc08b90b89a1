//! The header of a frame: the key of its node, its pin count and its CLOCK state. A header occupies
//! one cache line. Besides this line, a hit touches only the page table and the node.
//!
//! State transitions of a frame, and who makes each of them:
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

/// Number of a frame, which encodes the chunk and the index of the frame's header in that chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FrameId(pub(super) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameState {
    /// The frame is in a list of free frames, or free in a draining chunk.
    Free,
    /// The frame is owned by one read or insertion, which is writing a node to it.
    Filling,
    /// The frame contains a node. It is in the page table, or has just been removed and will be
    /// retired.
    Resident,
    /// The frame was removed from the page table, but readers that hold guards may still access it.
    Retired,
}

/// The CLOCK bit: the node has been used since the clock hand last passed the frame.
const REFERENCED: u32 = 1;
/// No other reader has used the node since it was loaded.
const COLD: u32 = 2;
/// The node was read ahead, so its next use is expected to be by the reader that requested it.
const AWAITED: u32 = 4;
/// The node was loaded by a pass-through read.
const PASSING: u32 = 8;
/// The node will soon be dead, so using it does not prevent its eviction.
const DEMOTED: u32 = 16;
/// The frame's chunk is being drained, so the frame must not go into any list of frames.
const DRAINING: u32 = 1 << 8;
const _: () = assert!(
    REFERENCED | COLD | AWAITED | PASSING | DEMOTED == 31,
    "each mark has a bit of its own"
);

/// Initial CLOCK state of a node, which depends on its expected use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitialHeat {
    /// The node counts as hot, because it was missed again soon after its eviction or was inserted
    /// after being written.
    Proven,
    /// Only the reader that requested the node has used it, or the node was offered to the cache
    /// after being written.
    Trial,
    /// The node was read ahead, and the reader that requested it has yet to use it.
    Awaited,
    /// The node is expected to be used only once.
    Passing,
}

/// Identity of a node: all fields of its pointer. They include the checksum, so that a node differs
/// from an abandoned node that it overwrites in the same generation.
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

    /// Returns a hash of the key. Its high bits select the page table bucket, and its low bits are
    /// the tag.
    #[inline]
    pub(super) fn hash(&self) -> u64 {
        let [offset, birth, checksum, rest] = self.0;
        let mixed = checksum ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ birth.rotate_left(32) ^ rest;
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }
}

/// The header of a frame, which describes the node in the frame and its use.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct FrameHeader {
    /// Key of the node. It is written only in state [`FrameState::Filling`], so it stays the same
    /// for a reader that found the frame under a guard.
    key: [AtomicU64; 4],
    /// The epoch at which the frame was retired.
    retired: AtomicU64,
    state: AtomicU32,
    /// Number of `FrameRef`s to this frame. The frame is not reused until this is 0.
    pins: AtomicU32,
    /// The CLOCK state: [`REFERENCED`], [`DEMOTED`], 0, or [`COLD`] alone or with [`AWAITED`] or
    /// [`PASSING`].
    heat: AtomicU32,
    /// The size class of the frame, combined with the [`DRAINING`] bit.
    class: AtomicU32,
}

// SAFETY: every field is an atomic integer, for which zero is valid. A zeroed header describes a
// free frame of class 0.
unsafe impl ZeroedAtomics for FrameHeader {}

#[cfg(not(alluvium_model_check))]
const _: () = assert!(size_of::<FrameHeader>() == 64);

impl FrameHeader {
    /// Initialises the header of a free frame when its chunk is divided into frames. The caller
    /// must have exclusive access to the chunk.
    pub(super) fn cut(&self, class: usize) {
        assert!((class as u32) < DRAINING, "class {class} would be read as a mark");
        self.retired.store(0, Ordering::Relaxed);
        self.heat.store(0, Ordering::Relaxed);
        // This memory may have belonged to a node of the chunk's previous size class, so clear the
        // pin count.
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

    /// Changes a free frame to `Filling` for a read or an insertion. The caller must have removed
    /// the frame from its list.
    pub(super) fn take(&self) {
        self.step(FrameState::Free, FrameState::Filling);
    }

    /// Changes a frame that was never published from `Filling` back to `Free`.
    pub(super) fn give_back(&self) {
        self.step(FrameState::Filling, FrameState::Free);
    }

    /// Stores the key of a node that is already written, and changes the frame to `Resident`. The
    /// caller must then add the frame to the page table.
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

    /// Changes the frame to `Retired` at `epoch`. The caller must just have removed the frame from
    /// the page table.
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

    /// Frees a retired frame unless it is pinned, and returns whether it was freed. The epoch at
    /// which it was retired must be safe, so that no reader can still pin the frame.
    pub(super) fn recycle(&self) -> bool {
        // Acquire ordering: reads through the last `FrameRef` happen before the frame is reused.
        if self.pins.load(Ordering::Acquire) != 0 {
            return false;
        }
        self.step(FrameState::Retired, FrameState::Free);
        true
    }

    /// Returns the key of the node. The caller must have found the frame resident under a guard
    /// that still lives.
    pub(super) fn key(&self) -> NodeKey {
        NodeKey(std::array::from_fn(|i| self.key[i].load(Ordering::Relaxed)))
    }

    /// Returns whether the frame contains the node with this key. The caller must have found the
    /// frame under a guard that still lives.
    #[inline]
    pub(super) fn holds(&self, key: &NodeKey) -> bool {
        // Compare the four words without branches. They share a cache line, so a branch after each
        // word would cost more than it saves.
        let differ = self.key.iter().zip(key.0).fold(0, |differ, (word, value)| {
            differ | (word.load(Ordering::Relaxed) ^ value)
        });
        differ == 0
    }

    /// Marks the node as used. Testing the bit before setting it ensures that the header of a hot
    /// node is only read.
    #[inline]
    pub(super) fn touch(&self) {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat != REFERENCED && heat != DEMOTED {
            let is_first = heat & AWAITED != 0;
            let heat = if is_first { heat & !AWAITED } else { REFERENCED };
            self.heat.store(heat, Ordering::Relaxed);
        }
    }

    /// Clears the CLOCK bit, and returns whether it was set.
    pub(super) fn cool(&self) -> bool {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat & REFERENCED != 0 {
            self.heat.store(heat & !REFERENCED, Ordering::Relaxed);
        }
        heat & REFERENCED != 0
    }

    /// Returns whether no other reader has used the node since it was loaded.
    pub(super) fn is_cold(&self) -> bool {
        self.heat.load(Ordering::Relaxed) & COLD != 0
    }

    /// Returns whether the node was loaded by a pass-through read and has not been used by another
    /// reader since.
    pub(super) fn is_passing(&self) -> bool {
        self.heat.load(Ordering::Relaxed) & PASSING != 0
    }

    /// Marks the frame for eviction before all unmarked frames. Returns whether the frame was
    /// unmarked before.
    pub(super) fn demote(&self) -> bool {
        self.heat.swap(DEMOTED, Ordering::Relaxed) != DEMOTED
    }

    /// Returns whether the frame is marked for eviction before all unmarked frames.
    pub(super) fn is_demoted(&self) -> bool {
        self.heat.load(Ordering::Relaxed) == DEMOTED
    }

    /// Clears all CLOCK bits of a cold frame, after which the clock hand treats it like any other
    /// frame.
    pub(super) fn clear_cold(&self) {
        self.heat.store(0, Ordering::Relaxed);
    }

    /// Increments the pin count, and returns whether the frame was unpinned before. The caller must
    /// already hold a reference, or a guard under which it found the frame.
    pub(super) fn pin(&self) -> bool {
        let before = self.pins.fetch_add(1, Ordering::Relaxed);
        assert!(
            before < u32::MAX / 2,
            "references to one frame are counted with 31 bits"
        );
        before == 0
    }

    /// Decrements the pin count, and returns whether the frame is now unpinned.
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
