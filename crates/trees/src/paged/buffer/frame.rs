//! A frame, which consists of the memory for one page, its latch and its pins, and the guards
//! through which a page is accessed.

use super::format::PAGE_HEADER;
use super::lending::{FrameLoans, LoanPool};
use crate::sync::AtomicU64;
use alluvium_device::AlignedBuffer;
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// The page number that stands for "no page".
pub(super) const NO_PAGE: u64 = u64::MAX;
/// The value of `pins` while a page is being removed from its frame. No pin can then be added.
const CLOSED: u32 = 1 << 31;

/// The data that a frame's latch protects.
#[derive(Debug)]
pub(super) struct FramePage {
    /// The page's memory. `None` before the frame has its first page.
    pub(super) buffer: Option<AlignedBuffer>,
    /// The page number, or [`NO_PAGE`] after a failed read.
    pub(super) number: u64,
}

impl FramePage {
    /// Returns the page's bytes. The slice is empty before the frame has its first page.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

/// A frame, which can hold one page.
#[derive(Debug)]
pub(super) struct PageFrame {
    pub(super) latch: RwLock<FramePage>,
    /// Number of threads that use the page or wait for its latch, or [`CLOSED`].
    pub(super) pins: AtomicU32,
    /// The number of the page in the frame, for threads that do not hold the buffer's mutex. It is
    /// set under the latch, and cleared under the mutex.
    pub(super) owner: AtomicU64,
    /// Whether the page has been pinned without the mutex since the queues were last updated.
    pub(super) is_touched: AtomicBool,
    /// Number of pins that were added without the mutex.
    pub(super) quick_hits: AtomicU64,
    pub(super) lent: FrameLoans,
    /// Whether the page has changed since it was last written to the device. The flag is set under
    /// the exclusive latch, and cleared under a shared latch.
    pub(super) is_dirty: AtomicBool,
}

impl PageFrame {
    /// Creates a frame whose page is filled with zeros.
    pub(super) fn new(page_bytes: usize, number: u64) -> PageFrame {
        assert!(page_bytes > PAGE_HEADER, "a page has content");
        let page = FramePage {
            buffer: Some(AlignedBuffer::zeroed(page_bytes)),
            number,
        };
        PageFrame::of(page, FrameLoans::new(0, 1))
    }

    /// Creates a frame that has no memory for a page yet.
    pub(super) fn unused(lent: FrameLoans) -> PageFrame {
        let page = FramePage {
            buffer: None,
            number: NO_PAGE,
        };
        PageFrame::of(page, lent)
    }

    pub(super) fn of(page: FramePage, lent: FrameLoans) -> PageFrame {
        let number = page.number;
        PageFrame {
            latch: RwLock::new(page),
            pins: AtomicU32::new(0),
            owner: AtomicU64::new(number),
            is_touched: AtomicBool::new(false),
            quick_hits: AtomicU64::new(0),
            lent,
            is_dirty: AtomicBool::new(false),
        }
    }

    /// Records that the page was used without the buffer's mutex. The queues are updated when the
    /// frame is next considered for eviction.
    pub(super) fn touch(&self) {
        if !self.is_touched.load(Ordering::Relaxed) {
            self.is_touched.store(true, Ordering::Relaxed);
        }
    }

    /// Removes the page from the frame, and takes back the items lent to the frame. The caller must
    /// hold the buffer's mutex, and either the frame must be closed or the caller must hold its
    /// latch exclusively.
    pub(super) fn leave(&self, loans: &LoanPool) {
        // Increment the version first, so that a reader notices changes that are made to the page
        // later, in another frame.
        self.lent.raise();
        self.owner.store(NO_PAGE, Ordering::Release);
        self.is_touched.store(false, Ordering::Relaxed);
        loans.take_back(&self.lent);
        assert!(
            self.owner.load(Ordering::Relaxed) == NO_PAGE,
            "the frame has no page (PB1)"
        );
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) & !CLOSED > 0
    }

    /// Prevents further pins. If the frame is pinned already, changes nothing and returns `false`.
    /// The caller must hold the buffer's mutex until it calls [`PageFrame::reopen`].
    pub(super) fn close(&self) -> bool {
        self.pins
            .compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Allows pins again after [`PageFrame::close`].
    pub(super) fn reopen(&self) {
        let before = self.pins.swap(0, Ordering::AcqRel);
        assert!(before == CLOSED, "no pin is added to a closed frame (PB2)");
    }
}

/// The threads that are waiting for an unpinned frame.
#[derive(Debug, Default)]
pub(super) struct FrameWaiters {
    count: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl FrameWaiters {
    /// Waits until a frame may have become unpinned, but no longer than `most`.
    pub(super) fn wait(&self, most: Duration) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut lock = self.lock.lock();
        self.wake.wait_for(&mut lock, most);
        drop(lock);
        let before = self.count.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "who waits is counted");
    }

    /// Wakes all waiting threads. Without waiting threads, the cost is a single load.
    pub(super) fn notify(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.wake.notify_all();
        }
    }
}

/// A pin, which keeps a page in its frame (PB2).
#[derive(Debug)]
pub(super) struct FramePin<'b> {
    pub(super) frame: &'b PageFrame,
    waiters: &'b FrameWaiters,
}

impl<'b> FramePin<'b> {
    /// Pins a frame. The caller must hold the buffer's mutex or another pin of the frame.
    pub(super) fn new(frame: &'b PageFrame, waiters: &'b FrameWaiters) -> FramePin<'b> {
        let before = frame.pins.fetch_add(1, Ordering::AcqRel);
        debug_assert!(before < CLOSED, "a frame is closed under the mutex only (PB2)");
        FramePin { frame, waiters }
    }

    /// Pins a page's frame. Returns `None` if the frame holds another page or is being evicted. The
    /// caller needs neither a lock nor a pin.
    ///
    /// The page number is checked after the pin has been added. A page is evicted only while its
    /// frame is closed, so once the pin exists, the page number can no longer change.
    pub(super) fn optimistic(
        frame: &'b PageFrame,
        page: u64,
        waiters: &'b FrameWaiters,
    ) -> Option<FramePin<'b>> {
        assert!(page != NO_PAGE, "the page has a number");
        let add = |pins: u32| (pins < CLOSED).then_some(pins + 1);
        frame
            .pins
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, add)
            .ok()?;
        let pin = FramePin { frame, waiters };
        (frame.owner.load(Ordering::Acquire) == page).then_some(pin)
    }
}

impl Drop for FramePin<'_> {
    fn drop(&mut self) {
        let before = self.frame.pins.fetch_sub(1, Ordering::AcqRel);
        assert!((1..CLOSED).contains(&before), "a pin is taken back once (PB2)");
        if before == 1 {
            self.waiters.notify();
        }
    }
}

/// Read access to a page, which stays pinned and latched in shared mode.
pub struct PageReadGuard<'b> {
    // Rust drops fields in this order, so the latch is released before the pin.
    pub(super) page: RwLockReadGuard<'b, FramePage>,
    /// Keeps the page pinned. Only readers that release the latch before the pin read this field.
    #[cfg_attr(not(feature = "couplings"), expect(dead_code))]
    pub(super) pin: FramePin<'b>,
}

/// Write access to a page, which stays pinned and latched exclusively.
pub struct PageWriteGuard<'b> {
    page: RwLockWriteGuard<'b, FramePage>,
    pin: FramePin<'b>,
}

impl<'b> PageReadGuard<'b> {
    pub(super) fn new(page: RwLockReadGuard<'b, FramePage>, pin: FramePin<'b>) -> PageReadGuard<'b> {
        debug_assert!(pin.frame.is_pinned(), "what is latched is pinned");
        PageReadGuard { page, pin }
    }

    #[must_use]
    pub fn number(&self) -> u64 {
        self.page.number
    }
}

impl<'b> PageWriteGuard<'b> {
    pub(super) fn new(page: RwLockWriteGuard<'b, FramePage>, pin: FramePin<'b>) -> PageWriteGuard<'b> {
        debug_assert!(pin.frame.is_pinned(), "what is latched is pinned");
        // Increment the version under the latch, before any change. Suppose that a thread changes
        // this page and another one together. A reader that latches the other page and sees its
        // change must also see the new version of this page.
        pin.frame.lent.raise();
        PageWriteGuard { page, pin }
    }

    #[must_use]
    pub fn number(&self) -> u64 {
        self.page.number
    }

    pub(super) fn page_mut(&mut self) -> &mut FramePage {
        &mut self.page
    }

    /// Converts the exclusive latch into a shared one.
    #[must_use]
    pub fn downgrade(self) -> PageReadGuard<'b> {
        PageReadGuard::new(RwLockWriteGuard::downgrade(self.page), self.pin)
    }
}

impl Deref for PageReadGuard<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.page.bytes()[PAGE_HEADER..]
    }
}

impl Deref for PageWriteGuard<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.page.bytes()[PAGE_HEADER..]
    }
}

impl DerefMut for PageWriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // Relaxed ordering is enough: only the thread that holds the exclusive latch sets the mark,
        // and others read it only after the latch has been released.
        self.pin.frame.is_dirty.store(true, Ordering::Relaxed);
        &mut self.page.bytes_mut()[PAGE_HEADER..]
    }
}

impl fmt::Debug for PageReadGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared(page {})", self.page.number)
    }
}

impl fmt::Debug for PageWriteGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exclusive(page {})", self.page.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_makes_a_page_dirty_and_reading_does_not() {
        let (frame, waiters) = (PageFrame::new(512, 3), FrameWaiters::default());
        let page = PageWriteGuard::new(frame.latch.write(), FramePin::new(&frame, &waiters));
        assert_eq!((page.number(), page.len()), (3, 512 - PAGE_HEADER));
        assert!(!frame.is_dirty.load(Ordering::Relaxed));
        let mut page = page;
        page[0] = 1;
        assert!(frame.is_dirty.load(Ordering::Relaxed));
        let shared = page.downgrade();
        assert!(frame.is_pinned() && shared[0] == 1 && frame.latch.try_read().is_some());
        drop(shared);
        assert!(!frame.is_pinned());
    }

    #[test]
    fn a_closed_frame_and_that_of_another_page_take_no_pin() {
        let (frame, waiters) = (PageFrame::new(512, 3), FrameWaiters::default());
        assert!(FramePin::optimistic(&frame, 4, &waiters).is_none());
        assert!(frame.close());
        assert!(FramePin::optimistic(&frame, 3, &waiters).is_none());
        frame.reopen();
        let pin = FramePin::optimistic(&frame, 3, &waiters).unwrap();
        assert!(frame.is_pinned() && !frame.close(), "a pinned page stays (PB2)");
        drop(pin);
        assert!(frame.close());
        frame.owner.store(NO_PAGE, Ordering::Release);
        frame.reopen();
        assert!(FramePin::optimistic(&frame, 3, &waiters).is_none());
    }

    #[test]
    fn a_wait_ends() {
        FrameWaiters::default().wait(Duration::from_millis(1));
    }
}
