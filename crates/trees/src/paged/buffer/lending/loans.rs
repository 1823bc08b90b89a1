//! What a buffer lends, and what a frame has of it.

use super::kept::{Kept, NOTHING};
use super::peek::{Peek, Snapshots};
use super::pins::{PinPolicy, Ways, way_at};
use super::versions::Version;
use crate::paged::buffer::frame::{Frame, Pin, Shared};
use crate::paged::buffer::hints::Hints;
use crate::paged::buffer::pool::{LEAST_FRAMES, Pool, PoolOptions};
use crate::paged::buffer::{Arena, PAGE_HEADER, Way};
use crate::sync::AtomicU64;
use std::sync::atomic::{AtomicU32, Ordering};

/// Reads of a page since it was changed after which a snapshot of it is made. Copying 16 KiB takes
/// as long as some dozen latches.
const READ_OFTEN: u64 = 12;
/// Bits for them.
const READ_BITS: u32 = 4;
const _: () = assert!(READ_OFTEN < 1 << READ_BITS, "reads are counted");
/// One snapshot for this number of frames. It takes the memory of one.
const FRAMES_OF_SNAPSHOT: usize = 8;

/// What a frame is lent.
#[derive(Debug)]
pub(in crate::paged::buffer) struct Lent {
    /// How often the latch was held exclusively, or a page left the frame.
    pub(super) version: Version,
    /// Which snapshot is that of the page. It is given under a shared latch, and taken back when
    /// the page leaves.
    pub(super) snapshot: AtomicU32,
    /// How often the page was read at a version: that, and the count in the lowest bits.
    read: AtomicU64,
    /// Which ways are those of the page's references. Taken back as the snapshot is.
    ways: AtomicU32,
}

impl Lent {
    /// Returns that of a frame among others. Frames of a pool lend snapshots to each other, so each
    /// begins with another version.
    pub(in crate::paged::buffer) fn new(frame: usize, frames: usize) -> Lent {
        Lent {
            version: Version::new(Version::first_of(frame, frames)),
            snapshot: AtomicU32::new(NOTHING),
            read: AtomicU64::new(0),
            ways: AtomicU32::new(NOTHING),
        }
    }

    /// Notes that the page may be changed from here on: its latch is held exclusively.
    pub(in crate::paged::buffer) fn raise(&self) {
        self.version.raise();
    }

    /// Counts a read under the latch, and returns whether the page was read often since it was
    /// changed. Now and then a count is lost.
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

/// What a buffer lends.
#[derive(Debug)]
pub(in crate::paged::buffer) struct Loans {
    pub(super) snapshots: Snapshots,
    pub(super) ways: Kept<Ways>,
}

impl Loans {
    /// Returns those of pages with `content_bytes` for their owner.
    pub(in crate::paged::buffer) fn new(content_bytes: usize) -> Loans {
        Loans {
            snapshots: Snapshots::new(content_bytes),
            ways: Kept::new(),
        }
    }

    /// Returns those of a pool with a number of frames.
    pub(in crate::paged::buffer) fn of_pool(options: &PoolOptions, frames: usize) -> Loans {
        let loans = Loans::new(options.page_bytes - PAGE_HEADER);
        loans.ways.allow(options.pins.nodes(frames) as u32);
        loans
    }

    /// Takes back what a frame was lent whose page leaves. The frame's version has risen.
    pub(in crate::paged::buffer) fn take_back(&self, lent: &Lent) {
        if let Some(snapshot) = self.snapshots.kept.get(&lent.snapshot) {
            snapshot.clear();
        }
        self.snapshots.kept.take_back(&lent.snapshot);
        self.ways.take_back(&lent.ways);
    }

    /// Returns how many frames were given up for snapshots.
    pub(in crate::paged::buffer) fn frames(&self) -> usize {
        self.snapshots.kept.most() as usize
    }
}

impl PoolOptions {
    /// Returns how many bytes of memory each frame takes beside its page.
    pub(in crate::paged::buffer) fn bytes_beside(&self) -> usize {
        self.pins.bytes_beside(self.page_bytes)
    }

    /// Returns the guesses where pages are.
    pub(in crate::paged::buffer) fn hints(&self, frames: usize) -> Hints {
        match self.pins {
            PinPolicy::Locked | PinPolicy::Swizzled => Hints::new(0),
            PinPolicy::Optimistic => Hints::new(frames),
        }
    }
}

/// What couplings without latches ask of a page buffer.
pub trait Lending {
    /// Returns where the reference at a place of a node remembers its page's frame, if it does.
    fn way(&self, _node: &Shared<'_>, _place: usize) -> Option<&Way> {
        None
    }

    /// The same of a node that is not latched.
    fn way_seen(&self, _node: &Peek<'_>, _place: usize) -> Option<&Way> {
        None
    }

    /// Makes snapshots of pages that are read often, for readers without latches. They take memory
    /// of pages that are free.
    fn keep_snapshots(&self) {}

    /// Is told of a page that was read under its latch, so that a snapshot can be made of it.
    fn offer(&self, _page: &Shared<'_>) {}

    /// Returns a page's snapshot, if there is one and it is of this moment.
    fn peek(&self, _page: u64, _way: Option<&Way>) -> Option<Peek<'_>> {
        None
    }
}

impl Lending for Arena {
    fn keep_snapshots(&self) {
        self.loans.snapshots.kept.allow(u32::MAX / 2);
    }

    fn offer(&self, page: &Shared<'_>) {
        self.loans.snapshots.offer(page);
    }

    fn peek(&self, page: u64, _way: Option<&Way>) -> Option<Peek<'_>> {
        self.loans.snapshots.peek(self.find(page)?, page)
    }
}

impl Lending for Pool {
    fn way(&self, node: &Shared<'_>, place: usize) -> Option<&Way> {
        let count = self.options.pins.ways(self.options.page_bytes);
        let make = || (0..count).map(|_| Way::new()).collect();
        way_at(self.loans.ways.get_or_lend(&node.frame().lent.ways, make)?, place)
    }

    fn way_seen(&self, node: &Peek<'_>, place: usize) -> Option<&Way> {
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
                // One that a failed read left may be pinned still: its memory stays with it.
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

    fn offer(&self, page: &Shared<'_>) {
        self.loans.snapshots.offer(page);
    }

    fn peek(&self, page: u64, way: Option<&Way>) -> Option<Peek<'_>> {
        let number = way.and_then(Way::get).or_else(|| self.hints.of(page))?;
        self.loans.snapshots.peek(self.frames.get(number)?, page)
    }
}

/// A page that was read, without its latch: pinned, so that it can be said whether it changed.
#[derive(Debug)]
pub(in crate::paged) struct Unlatched<'b> {
    pin: Pin<'b>,
    version: u64,
}

impl Unlatched<'_> {
    /// Returns whether no writer has had the page since it was read.
    pub(in crate::paged) fn is_unchanged(&self) -> bool {
        self.pin.frame.lent.version.is_still(self.version)
    }
}

impl<'b> Shared<'b> {
    pub(super) fn frame(&self) -> &'b Frame {
        self.pin.frame
    }

    /// Lets writers have the page, and keeps it in its frame.
    pub(in crate::paged) fn unlatch(self) -> Unlatched<'b> {
        let Shared { page, pin } = self;
        // No writer has it now.
        let version = pin.frame.lent.version.get();
        drop(page);
        assert!(pin.frame.is_pinned(), "the page stays (PB2)");
        Unlatched { pin, version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paged::buffer::frame::{Exclusive, Waiters};

    #[test]
    fn a_page_that_a_writer_had_is_seen_to_have_changed() {
        let (frame, waiters) = (Frame::new(512, 3), Waiters::default());
        let read = || Shared::new(frame.latch.read(), Pin::new(&frame, &waiters)).unlatch();
        let one = read();
        drop(read());
        assert!(one.is_unchanged() && frame.is_pinned());
        drop(Exclusive::new(frame.latch.write(), Pin::new(&frame, &waiters)));
        assert!(!one.is_unchanged() && read().is_unchanged());
        drop(one);
        assert!(!frame.is_pinned());
    }
}
