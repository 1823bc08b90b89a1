//! Memory of one page, with its latch and its pins, and the guards that give access to it.

use super::format::PAGE_HEADER;
use alluvium_device::Buffer;
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// The number of no page.
pub(super) const NO_PAGE: u64 = u64::MAX;

/// What a frame's latch protects.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) bytes: Buffer,
    /// Which page the bytes are; [`NO_PAGE`] after a failed read.
    pub(super) number: u64,
}

/// Memory of one page.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) latch: RwLock<Page>,
    /// Who uses the page or waits for its latch. It rises under the buffer's mutex only.
    pub(super) pins: AtomicU32,
    /// Whether the page was written since it was last on the device. Set under the exclusive
    /// latch, taken back under a shared one.
    pub(super) is_dirty: AtomicBool,
}

impl Frame {
    pub(super) fn new(page_bytes: usize, number: u64) -> Frame {
        assert!(page_bytes > PAGE_HEADER, "a page has content");
        Frame {
            latch: RwLock::new(Page {
                bytes: Buffer::zeroed(page_bytes),
                number,
            }),
            pins: AtomicU32::new(0),
            is_dirty: AtomicBool::new(false),
        }
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) > 0
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
        frame.pins.fetch_add(1, Ordering::AcqRel);
        Pin { frame, waiters }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let before = self.frame.pins.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a pin is taken back once (PB2)");
        if before == 1 {
            self.waiters.notify();
        }
    }
}

/// A page that may be read: pinned, with a shared latch.
pub struct Shared<'b> {
    // Fields are dropped in this order: the latch is free before the pin is.
    page: RwLockReadGuard<'b, Page>,
    _pin: Pin<'b>,
}

/// A page that may be written: pinned, with an exclusive latch.
pub struct Exclusive<'b> {
    page: RwLockWriteGuard<'b, Page>,
    pin: Pin<'b>,
}

impl<'b> Shared<'b> {
    pub(super) fn new(page: RwLockReadGuard<'b, Page>, pin: Pin<'b>) -> Shared<'b> {
        debug_assert!(pin.frame.is_pinned(), "what is latched is pinned");
        Shared { page, _pin: pin }
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
        &self.page.bytes[PAGE_HEADER..]
    }
}

impl Deref for Exclusive<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.page.bytes[PAGE_HEADER..]
    }
}

impl DerefMut for Exclusive<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // Only the holder of the exclusive latch sets it, and it is read after the latch is
        // free.
        self.pin.frame.is_dirty.store(true, Ordering::Relaxed);
        &mut self.page.bytes[PAGE_HEADER..]
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
    fn a_wait_ends() {
        Waiters::default().wait(Duration::from_millis(1));
    }
}
