//! Selects the pages that get snapshots, and lets readers use them without a latch.
//!
//! A snapshot pays off for a node that is read many times between two changes: most inner nodes,
//! and all inner nodes of a B⁺-tree. A node is copied once it has been read several times at the
//! same version. Snapshots have limited memory, which a pool takes from frames that it sets aside.

use super::item_pool::ItemPool;
use super::versions::PageSnapshot;
use crate::paged::buffer::frame::{PageFrame, PageReadGuard};
use std::fmt;

/// The snapshots of a buffer's pages.
#[derive(Debug)]
pub(in crate::paged::buffer) struct PageSnapshots {
    content_bytes: usize,
    pub(in crate::paged::buffer) kept: ItemPool<PageSnapshot>,
}

impl PageSnapshots {
    /// Creates an empty set, which may not have any snapshots yet.
    pub(in crate::paged::buffer) fn new(content_bytes: usize) -> PageSnapshots {
        assert!(content_bytes > 0, "a page has content");
        PageSnapshots {
            content_bytes,
            kept: ItemPool::new(),
        }
    }

    /// Makes a snapshot of a page if the page has been read often since its last change.
    pub(in crate::paged::buffer) fn offer(&self, page: &PageReadGuard<'_>) {
        let frame = page.frame();
        if self.kept.most() == 0 || !frame.lent.is_read_often() {
            return;
        }
        // The page is pinned, so it cannot leave its frame while it is copied.
        let make = || PageSnapshot::new(self.content_bytes);
        if let Some(snapshot) = self.kept.get_or_lend(&frame.lent.snapshot, make) {
            snapshot.fill(frame.lent.version.get(), page);
        }
    }

    /// Gives access to a page without a latch. Returns `None` unless the frame has an up-to-date
    /// snapshot of the page.
    pub(in crate::paged::buffer) fn peek<'b>(
        &'b self,
        frame: &'b PageFrame,
        page: u64,
    ) -> Option<OptimisticPage<'b>> {
        let snapshot = self.kept.get(&frame.lent.snapshot)?;
        let version = snapshot.prove(&frame.lent.version, &frame.owner, page)?;
        frame.touch();
        Some(OptimisticPage {
            frame,
            snapshot,
            version,
            page,
        })
    }
}

/// A page that is read without a latch or a pin. Data read from it may be arbitrary until a later
/// call of [`OptimisticPage::is_unchanged`] returns true.
pub struct OptimisticPage<'b> {
    frame: &'b PageFrame,
    snapshot: &'b PageSnapshot,
    version: u64,
    page: u64,
}

impl<'b> OptimisticPage<'b> {
    #[must_use]
    pub fn number(&self) -> u64 {
        self.page
    }

    /// Returns whether the page has neither changed nor left its frame since this value was
    /// created. If so, everything read from it so far is valid.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.frame.lent.version.is_still(self.version)
    }

    pub(in crate::paged::buffer) fn frame(&self) -> &'b PageFrame {
        self.frame
    }

    /// Returns the eight bytes of the content at word index `at` as a little-endian number, or 0 if
    /// the index is past the content.
    pub(in crate::paged) fn word(&self, at: usize) -> u64 {
        self.snapshot.word(at)
    }
}

impl fmt::Debug for OptimisticPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peek(page {} at {})", self.page, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FrameLoans, LoanPool};
    use super::*;
    use crate::paged::buffer::PAGE_HEADER;
    use crate::paged::buffer::frame::{FramePage, FramePin, FrameWaiters, PageWriteGuard};
    use alluvium_device::AlignedBuffer;
    use std::sync::atomic::Ordering;

    struct SnapshotFixture {
        loans: LoanPool,
        waiters: FrameWaiters,
    }

    impl SnapshotFixture {
        fn new(most: u32) -> SnapshotFixture {
            let loans = LoanPool::new(512 - PAGE_HEADER);
            loans.snapshots.kept.allow(most);
            SnapshotFixture {
                loans,
                waiters: FrameWaiters::default(),
            }
        }

        fn read(&self, frame: &PageFrame) {
            let page = PageReadGuard::new(frame.latch.read(), FramePin::new(frame, &self.waiters));
            self.loans.snapshots.offer(&page);
        }

        fn write(&self, frame: &PageFrame, byte: u8) {
            PageWriteGuard::new(frame.latch.write(), FramePin::new(frame, &self.waiters))[8] = byte;
        }
    }

    #[test]
    fn a_page_that_is_read_often_is_copied_and_one_that_changes_is_not() {
        let (world, frame) = (SnapshotFixture::new(1), PageFrame::new(512, 3));
        for round in 0..100 {
            world.write(&frame, round);
            world.read(&frame);
            assert!(world.loans.snapshots.peek(&frame, 3).is_none(), "read once");
        }
        (0..20).for_each(|_| world.read(&frame));
        let peek = world.loans.snapshots.peek(&frame, 3).unwrap();
        assert_eq!((peek.word(1) & 255, peek.number()), (99, 3));
        assert!(peek.is_unchanged() && world.loans.snapshots.peek(&frame, 4).is_none());
        world.write(&frame, 7);
        assert!(!peek.is_unchanged() && world.loans.snapshots.peek(&frame, 3).is_none());
        (0..20).for_each(|_| world.read(&frame));
        assert_eq!(world.loans.snapshots.peek(&frame, 3).unwrap().word(1) & 255, 7);
    }

    #[test]
    fn a_snapshot_that_was_given_back_is_of_another_page_next() {
        let (world, frames) = (
            SnapshotFixture::new(1),
            [PageFrame::new(512, 3), PageFrame::new(512, 4)],
        );
        world.write(&frames[0], 30);
        // After this write, both frames have the same number of changes.
        world.write(&frames[1], 41);
        (0..20).for_each(|_| world.read(&frames[0]));
        (0..20).for_each(|_| world.read(&frames[1]));
        let peek = world.loans.snapshots.peek(&frames[0], 3).unwrap();
        assert!(
            world.loans.snapshots.peek(&frames[1], 4).is_none(),
            "there is one only"
        );
        frames[0].leave(&world.loans);
        assert!(!peek.is_unchanged());
        (0..20).for_each(|_| world.read(&frames[1]));
        let other = world.loans.snapshots.peek(&frames[1], 4).unwrap();
        assert_eq!(other.word(1) & 255, 41);
        assert!(world.loans.snapshots.peek(&frames[0], 3).is_none() && !peek.is_unchanged());
    }

    #[test]
    fn a_reader_who_slept_does_not_take_the_words_of_another_frame_for_its_own() {
        let world = SnapshotFixture::new(1);
        let first = |at| {
            let page = FramePage {
                buffer: Some(AlignedBuffer::zeroed(512)),
                number: 3,
            };
            PageFrame::of(page, FrameLoans::new(at, 2))
        };
        let frames = [first(0), first(1)];
        world.write(&frames[0], 30);
        (0..20).for_each(|_| world.read(&frames[0]));
        // A reader looks up the first frame's snapshot and is then suspended. Meanwhile, the page
        // leaves that frame and returns to it, and the snapshot is lent to the other frame.
        let asleep = world.loans.snapshots.kept.get(&frames[0].lent.snapshot).unwrap();
        frames[0].leave(&world.loans);
        world.write(&frames[0], 30);
        frames[0].owner.store(3, Ordering::Release);
        // After these writes, both frames have been changed the same number of times.
        (0..3).for_each(|_| world.write(&frames[1], 41));
        (0..20).for_each(|_| world.read(&frames[1]));
        let proven = asleep.prove(&frames[0].lent.version, &frames[0].owner, 3);
        assert_eq!(proven, None, "the words are those of another page");
    }
}
