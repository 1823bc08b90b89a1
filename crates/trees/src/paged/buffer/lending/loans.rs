//! The items that a buffer lends to frames, and each frame's state for these loans.

use super::item_pool::{ItemPool, NOTHING};
use super::peek::{OptimisticPage, PageSnapshots};
use super::pins::{NodeHints, PinPolicy, way_at};
use super::versions::FrameVersion;
use crate::paged::buffer::frame::{FramePin, PageFrame, PageReadGuard};
use crate::paged::buffer::hints::FrameHintTable;
use crate::paged::buffer::pool::{LEAST_FRAMES, PagePool, PoolOptions};
use crate::paged::buffer::{FrameHint, PAGE_HEADER, PageArena};
use crate::sync::AtomicU64;
use std::sync::atomic::{AtomicU32, Ordering};

/// A page is copied to a snapshot once it has been read this many times without a change. Copying
/// 16 KiB takes as long as acquiring a few dozen latches.
const READ_OFTEN: u64 = 12;
/// Number of bits in the read counter.
const READ_BITS: u32 = 4;
const _: () = assert!(READ_OFTEN < 1 << READ_BITS, "reads are counted");
/// Number of frames per snapshot. A snapshot uses one frame's memory.
const FRAMES_OF_SNAPSHOT: usize = 8;

/// The items lent to one frame, and the frame's version and counters.
#[derive(Debug)]
pub(in crate::paged::buffer) struct FrameLoans {
    /// The page's version, which is incremented whenever the latch is acquired exclusively or a
    /// page leaves the frame.
    pub(super) version: FrameVersion,
    /// The number of the page's snapshot. It is set under a shared latch, and cleared when the page
    /// leaves the frame.
    pub(super) snapshot: AtomicU32,
    /// The version in the high bits, and the number of reads at that version in the low bits.
    read: AtomicU64,
    /// The number of the item that contains the hints for the page's references. It is cleared with
    /// the snapshot's number.
    ways: AtomicU32,
}

impl FrameLoans {
    /// Creates the state of the frame with the number `frame` in a pool of `frames` frames. Frames
    /// exchange snapshots, so each frame starts with a different version.
    pub(in crate::paged::buffer) fn new(frame: usize, frames: usize) -> FrameLoans {
        FrameLoans {
            version: FrameVersion::new(FrameVersion::first_of(frame, frames)),
            snapshot: AtomicU32::new(NOTHING),
            read: AtomicU64::new(0),
            ways: AtomicU32::new(NOTHING),
        }
    }

    /// Increments the version before the page is changed. The caller must hold the latch
    /// exclusively.
    pub(in crate::paged::buffer) fn raise(&self) {
        self.version.raise();
    }

    /// Counts a read under the latch. Returns whether the page has been read often since its last
    /// change. A read may occasionally go uncounted.
    pub(super) fn is_read_often(&self) -> bool {
        let version = self.version.get() << READ_BITS;
        let before = self.read.load(Ordering::Relaxed);
        let count = match before & !((1 << READ_BITS) - 1) == version {
            true => (before - version + 1) % READ_OFTEN,
            false => 1,
        };
        self.read.store(version + count, Ordering::Relaxed);
        count == 0
    }
}

/// The items that a buffer can lend to its frames.
#[derive(Debug)]
pub(in crate::paged::buffer) struct LoanPool {
    pub(super) snapshots: PageSnapshots,
    pub(super) ways: ItemPool<NodeHints>,
}

impl LoanPool {
    /// Creates the items for pages that have `content_bytes` bytes for their owner.
    pub(in crate::paged::buffer) fn new(content_bytes: usize) -> LoanPool {
        LoanPool {
            snapshots: PageSnapshots::new(content_bytes),
            ways: ItemPool::new(),
        }
    }

    /// Creates the items for a pool with the given number of frames.
    pub(in crate::paged::buffer) fn of_pool(options: &PoolOptions, frames: usize) -> LoanPool {
        let loans = LoanPool::new(options.page_bytes - PAGE_HEADER);
        loans.ways.allow(options.pins.nodes(frames) as u32);
        loans
    }

    /// Takes back the items of a frame whose page is leaving it. The frame's version must already
    /// have been incremented.
    pub(in crate::paged::buffer) fn take_back(&self, lent: &FrameLoans) {
        if let Some(snapshot) = self.snapshots.kept.get(&lent.snapshot) {
            snapshot.clear();
        }
        self.snapshots.kept.take_back(&lent.snapshot);
        self.ways.take_back(&lent.ways);
    }

    /// Returns the number of frames whose memory is used for snapshots.
    pub(in crate::paged::buffer) fn frames(&self) -> usize {
        self.snapshots.kept.most() as usize
    }
}

impl PoolOptions {
    /// Returns the memory in bytes that each frame needs beyond its page.
    pub(in crate::paged::buffer) fn bytes_beside(&self) -> usize {
        self.pins.bytes_beside(self.page_bytes)
    }

    /// Creates the table of hints to the frames of pages.
    pub(in crate::paged::buffer) fn hints(&self, frames: usize) -> FrameHintTable {
        match self.pins {
            PinPolicy::Locked | PinPolicy::Swizzled => FrameHintTable::new(0),
            PinPolicy::Optimistic => FrameHintTable::new(frames),
        }
    }
}

/// The operations of a page buffer for readers that do not latch nodes.
pub trait LatchFreeAccess {
    /// Returns the hint to a child's frame. The hint belongs to the reference with the number
    /// `place` in the node.
    fn way(&self, _node: &PageReadGuard<'_>, _place: usize) -> Option<&FrameHint> {
        None
    }

    /// Like [`LatchFreeAccess::way`], but for a node that is not latched.
    fn way_seen(&self, _node: &OptimisticPage<'_>, _place: usize) -> Option<&FrameHint> {
        None
    }

    /// Enables snapshots of pages that are read often, for readers that do not latch nodes.
    /// Snapshots take their memory from frames that have no page.
    fn keep_snapshots(&self) {}

    /// Records that a page was read under its latch, and may make a snapshot of it if it is read
    /// often.
    fn offer(&self, _page: &PageReadGuard<'_>) {}

    /// Returns a page's snapshot, or `None` if there is none or it is out of date.
    fn peek(&self, _page: u64, _way: Option<&FrameHint>) -> Option<OptimisticPage<'_>> {
        None
    }
}

impl LatchFreeAccess for PageArena {
    fn keep_snapshots(&self) {
        self.loans.snapshots.kept.allow(u32::MAX / 2);
    }

    fn offer(&self, page: &PageReadGuard<'_>) {
        self.loans.snapshots.offer(page);
    }

    fn peek(&self, page: u64, _way: Option<&FrameHint>) -> Option<OptimisticPage<'_>> {
        self.loans.snapshots.peek(self.find(page)?, page)
    }
}

impl LatchFreeAccess for PagePool {
    fn way(&self, node: &PageReadGuard<'_>, place: usize) -> Option<&FrameHint> {
        let count = self.options.pins.ways(self.options.page_bytes);
        let make = || (0..count).map(|_| FrameHint::new()).collect();
        way_at(self.loans.ways.get_or_lend(&node.frame().lent.ways, make)?, place)
    }

    fn way_seen(&self, node: &OptimisticPage<'_>, place: usize) -> Option<&FrameHint> {
        way_at(self.loans.ways.get(&node.frame().lent.ways)?, place)
    }

    fn keep_snapshots(&self) {
        if self.loans.snapshots.kept.most() > 0 {
            return;
        }
        let most = (self.counted / FRAMES_OF_SNAPSHOT).min(self.counted - LEAST_FRAMES);
        let mut allowed = 0;
        for shard in &self.shards {
            let (used, all) = shard.lock().give_up(most);
            allowed += (all - used.len()) as u32;
            for frame in used {
                // After a failed read, a frame may still be pinned. Such a frame keeps its memory.
                if let Some(mut page) = self.frames[frame].latch.try_write() {
                    page.buffer
                        .take()
                        .into_iter()
                        .for_each(|buffer| self.memory.give_back(buffer));
                    allowed += 1;
                }
            }
        }
        self.loans.snapshots.kept.allow(allowed);
    }

    fn offer(&self, page: &PageReadGuard<'_>) {
        self.loans.snapshots.offer(page);
    }

    fn peek(&self, page: u64, way: Option<&FrameHint>) -> Option<OptimisticPage<'_>> {
        let number = way.and_then(FrameHint::get).or_else(|| self.hints.of(page))?;
        self.loans.snapshots.peek(self.frames.get(number)?, page)
    }
}

/// A page that was read and then unlatched. It stays pinned, so that changes can be detected.
#[derive(Debug)]
pub(in crate::paged) struct UnlatchedPage<'b> {
    pin: FramePin<'b>,
    version: u64,
}

impl UnlatchedPage<'_> {
    /// Returns whether no writer has changed the page since its latch was released.
    pub(in crate::paged) fn is_unchanged(&self) -> bool {
        self.pin.frame.lent.version.is_still(self.version)
    }
}

impl<'b> PageReadGuard<'b> {
    pub(super) fn frame(&self) -> &'b PageFrame {
        self.pin.frame
    }

    /// Releases the latch but keeps the pin.
    pub(in crate::paged) fn unlatch(self) -> UnlatchedPage<'b> {
        let PageReadGuard { page, pin } = self;
        // No writer can hold the latch here, because this thread still holds it in shared mode.
        let version = pin.frame.lent.version.get();
        drop(page);
        assert!(pin.frame.is_pinned(), "the page stays (PB2)");
        UnlatchedPage { pin, version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paged::buffer::frame::{FrameWaiters, PageWriteGuard};

    #[test]
    fn a_page_that_a_writer_had_is_seen_to_have_changed() {
        let (frame, waiters) = (PageFrame::new(512, 3), FrameWaiters::default());
        let read = || PageReadGuard::new(frame.latch.read(), FramePin::new(&frame, &waiters)).unlatch();
        let one = read();
        drop(read());
        assert!(one.is_unchanged() && frame.is_pinned());
        drop(PageWriteGuard::new(
            frame.latch.write(),
            FramePin::new(&frame, &waiters),
        ));
        assert!(!one.is_unchanged() && read().is_unchanged());
        drop(one);
        assert!(!frame.is_pinned());
    }
}
