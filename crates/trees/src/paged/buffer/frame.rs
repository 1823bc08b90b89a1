//! Memory of one page, with its latch and its pins, and the guards that give access to it.

use super::format::PAGE_HEADER;
use super::lending::{Lent, Loans};
use crate::sync::AtomicU64;
use alluvium_device::Buffer;
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// The number of no page.
pub(super) const NO_PAGE: u64 = u64::MAX;
/// In place of pins while a page is taken out of its frame: none can be added meanwhile.
const CLOSED: u32 = 1 << 31;

/// What a frame's latch protects.
#[derive(Debug)]
pub(super) struct Page {
    /// None before the frame's first page.
    pub(super) buffer: Option<Buffer>,
    /// Which page the bytes are; [`NO_PAGE`] after a failed read.
    pub(super) number: u64,
}

impl Page {
    /// Returns the bytes; none of a frame that had no page yet.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

/// Memory of one page.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) latch: RwLock<Page>,
    /// Who uses the page or waits for its latch, or [`CLOSED`].
    pub(super) pins: AtomicU32,
    /// Which page the frame is of, for those who come without the buffer's mutex. It is set once
    /// the latch is held, and taken back under the mutex.
    pub(super) owner: AtomicU64,
    /// Whether the page was pinned without the mutex since the queues were told.
    pub(super) is_touched: AtomicBool,
    /// How often it was pinned without the mutex.
    pub(super) quick_hits: AtomicU64,
    pub(super) lent: Lent,
    /// Whether the page was written since it was last on the device. Set under the exclusive
    /// latch, taken back under a shared one.
    pub(super) is_dirty: AtomicBool,
}

impl Frame {
    /// Returns one with an empty page.
    pub(super) fn new(page_bytes: usize, number: u64) -> Frame {
        assert!(page_bytes > PAGE_HEADER, "a page has content");
        let page = Page {
            buffer: Some(Buffer::zeroed(page_bytes)),
            number,
        };
        Frame::of(page, Lent::new(0, 1))
    }

    /// Returns one without memory for a page.
    pub(super) fn unused(lent: Lent) -> Frame {
        let page = Page {
            buffer: None,
            number: NO_PAGE,
        };
        Frame::of(page, lent)
    }

    pub(super) fn of(page: Page, lent: Lent) -> Frame {
        let number = page.number;
        Frame {
            latch: RwLock::new(page),
            pins: AtomicU32::new(0),
            owner: AtomicU64::new(number),
            is_touched: AtomicBool::new(false),
            quick_hits: AtomicU64::new(0),
            lent,
            is_dirty: AtomicBool::new(false),
        }
    }

    /// Notes that the page was used without the buffer's mutex. The queues learn of it when the
    /// frame is the next to be evicted.
    pub(super) fn touch(&self) {
        if !self.is_touched.load(Ordering::Relaxed) {
            self.is_touched.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the frame that of no page, and takes back what it was lent. The caller holds the
    /// buffer's mutex, and either the frame is closed, or the caller holds its latch exclusively.
    pub(super) fn leave(&self, loans: &Loans) {
        // First, so that no reader takes for unchanged what another frame's writer changes.
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

    /// Refuses further pins, and returns whether it does: not while there are any. The caller holds
    /// the buffer's mutex until it calls [`Frame::reopen`].
    pub(super) fn close(&self) -> bool {
        self.pins
            .compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends what [`Frame::close`] has begun.
    pub(super) fn reopen(&self) {
        let before = self.pins.swap(0, Ordering::AcqRel);
        assert!(before == CLOSED, "no pin is added to a closed frame (PB2)");
    }
}

/// Where threads wait for a frame that is not pinned.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    count: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Waiters {
    /// Waits until a frame may have become free, at most some milliseconds.
    pub(super) fn wait(&self, most: Duration) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut lock = self.lock.lock();
        self.wake.wait_for(&mut lock, most);
        drop(lock);
        let before = self.count.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "who waits is counted");
    }

    /// Wakes those who wait, if there are any.
    pub(super) fn notify(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.wake.notify_all();
        }
    }
}

/// Keeps a page in its frame (PB2).
#[derive(Debug)]
pub(super) struct Pin<'b> {
    pub(super) frame: &'b Frame,
    waiters: &'b Waiters,
}

impl<'b> Pin<'b> {
    /// Adds a pin. The caller holds the buffer's mutex, or a pin.
    pub(super) fn new(frame: &'b Frame, waiters: &'b Waiters) -> Pin<'b> {
        let before = frame.pins.fetch_add(1, Ordering::AcqRel);
        debug_assert!(before < CLOSED, "a frame is closed under the mutex only (PB2)");
        Pin { frame, waiters }
    }

    /// Adds a pin to the frame of a page, unless it is that of another page, or is just losing it.
    /// The caller holds nothing.
    ///
    /// Which page it is of is looked at behind the pin: a page is evicted only while its frame is
    /// closed, so what is seen then stays.
    pub(super) fn optimistic(frame: &'b Frame, page: u64, waiters: &'b Waiters) -> Option<Pin<'b>> {
        assert!(page != NO_PAGE, "the page has a number");
        let add = |pins: u32| (pins < CLOSED).then_some(pins + 1);
        frame
            .pins
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, add)
            .ok()?;
        let pin = Pin { frame, waiters };
        (frame.owner.load(Ordering::Acquire) == page).then_some(pin)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let before = self.frame.pins.fetch_sub(1, Ordering::AcqRel);
        assert!((1..CLOSED).contains(&before), "a pin is taken back once (PB2)");
        if before == 1 {
            self.waiters.notify();
        }
    }
}

/// A page that may be read: pinned, with a shared latch.
pub struct Shared<'b> {
    // Fields are dropped in this order: the latch is free before the pin is.
    pub(super) page: RwLockReadGuard<'b, Page>,
    /// Held for its end alone, unless readers leave the latch before it.
    #[cfg_attr(not(feature = "couplings"), expect(dead_code))]
    pub(super) pin: Pin<'b>,
}

/// A page that may be written: pinned, with an exclusive latch.
pub struct Exclusive<'b> {
    page: RwLockWriteGuard<'b, Page>,
    pin: Pin<'b>,
}

impl<'b> Shared<'b> {
    pub(super) fn new(page: RwLockReadGuard<'b, Page>, pin: Pin<'b>) -> Shared<'b> {
        debug_assert!(pin.frame.is_pinned(), "what is latched is pinned");
        Shared { page, pin }
    }

    /// Returns the page's number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.page.number
    }
}

impl<'b> Exclusive<'b> {
    pub(super) fn new(page: RwLockWriteGuard<'b, Page>, pin: Pin<'b>) -> Exclusive<'b> {
        debug_assert!(pin.frame.is_pinned(), "what is latched is pinned");
        // Before anything is changed, under the latch: who reads it later behind the latch of a
        // page that was changed with this one sees it.
        pin.frame.lent.raise();
        Exclusive { page, pin }
    }

    /// Returns the page's number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.page.number
    }

    pub(super) fn page_mut(&mut self) -> &mut Page {
        &mut self.page
    }

    /// Lets others read the page, too.
    #[must_use]
    pub fn downgrade(self) -> Shared<'b> {
        Shared::new(RwLockWriteGuard::downgrade(self.page), self.pin)
    }
}

impl Deref for Shared<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.page.bytes()[PAGE_HEADER..]
    }
}

impl Deref for Exclusive<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.page.bytes()[PAGE_HEADER..]
    }
}

impl DerefMut for Exclusive<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // Only the holder of the exclusive latch sets it, and it is read after the latch is
        // free.
        self.pin.frame.is_dirty.store(true, Ordering::Relaxed);
        &mut self.page.bytes_mut()[PAGE_HEADER..]
    }
}

impl fmt::Debug for Shared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared(page {})", self.page.number)
    }
}

impl fmt::Debug for Exclusive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exclusive(page {})", self.page.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_makes_a_page_dirty_and_reading_does_not() {
        let (frame, waiters) = (Frame::new(512, 3), Waiters::default());
        let page = Exclusive::new(frame.latch.write(), Pin::new(&frame, &waiters));
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
        let (frame, waiters) = (Frame::new(512, 3), Waiters::default());
        assert!(Pin::optimistic(&frame, 4, &waiters).is_none());
        assert!(frame.close());
        assert!(Pin::optimistic(&frame, 3, &waiters).is_none());
        frame.reopen();
        let pin = Pin::optimistic(&frame, 3, &waiters).unwrap();
        assert!(frame.is_pinned() && !frame.close(), "a pinned page stays (PB2)");
        drop(pin);
        assert!(frame.close());
        frame.owner.store(NO_PAGE, Ordering::Release);
        frame.reopen();
        assert!(Pin::optimistic(&frame, 3, &waiters).is_none());
    }

    #[test]
    fn a_wait_ends() {
        Waiters::default().wait(Duration::from_millis(1));
    }
}
