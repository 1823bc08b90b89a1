//! A page buffer that keeps all pages in memory. This is the "optimal" buffer of the thesis
//! (section 5.3): it has no table, no queue and no I/O.

use super::PageBuffer;
use super::format::PAGE_HEADER;
use super::frame::{FramePin, FrameWaiters, PageFrame, PageReadGuard, PageWriteGuard};
#[cfg(feature = "couplings")]
use super::lending::LoanPool;
use crate::paged::error::{damaged_page, too_many_pages};
use alluvium_storage::{Error, Result};
use parking_lot::Mutex;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of pages in the first chunk. Each further chunk has twice as many as the one before.
const FIRST_CHUNK: u64 = 64;
/// Number of chunks of an arena, enough for more than 10¹⁰ pages.
const CHUNKS: usize = 28;
const _: () = assert!(
    FIRST_CHUNK.is_power_of_two(),
    "a page's chunk is found by its bits"
);

/// A page buffer whose pages always stay in memory. A page's number is its index.
///
/// ```
/// use alluvium_trees::paged::buffer::{PageArena, PageBuffer};
/// let arena = PageArena::new(4096)?;
/// let mut page = arena.allocate()?;
/// page[0] = 7;
/// let number = page.number();
/// drop(page);
/// assert_eq!(arena.pin_shared(number)?[0], 7);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub struct PageArena {
    page_bytes: usize,
    chunks: [OnceLock<Box<[OnceLock<PageFrame>]>>; CHUNKS],
    pages: AtomicU64,
    free: Mutex<Vec<u64>>,
    #[cfg(feature = "couplings")]
    pub(super) loans: LoanPool,
    waiters: FrameWaiters,
    poison: OnceLock<String>,
}

impl PageArena {
    /// Creates an arena without pages.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the page size is invalid.
    pub fn new(page_bytes: usize) -> Result<PageArena> {
        super::pool::check_page_bytes(page_bytes)?;
        Ok(PageArena {
            page_bytes,
            chunks: [const { OnceLock::new() }; CHUNKS],
            pages: AtomicU64::new(0),
            free: Mutex::default(),
            #[cfg(feature = "couplings")]
            loans: LoanPool::new(page_bytes - PAGE_HEADER),
            waiters: FrameWaiters::default(),
            poison: OnceLock::new(),
        })
    }

    /// Returns the number of pages that have been allocated and not freed.
    #[must_use]
    pub fn pages_in_use(&self) -> u64 {
        self.pages.load(Ordering::Relaxed) - self.free.lock().len() as u64
    }

    /// Returns the numbers of all pages that are latched.
    #[cfg(test)]
    pub(in crate::paged) fn latched(&self) -> Vec<u64> {
        let pages = 0..self.pages.load(Ordering::Relaxed);
        let is_latched = |page: &u64| self.frame(*page).unwrap().latch.try_write().is_none();
        pages.filter(is_latched).collect()
    }

    /// Returns the index of a page's chunk, the length of that chunk, and the page's index within
    /// the chunk.
    fn place(page: u64) -> (usize, u64, usize) {
        let shifted = page + FIRST_CHUNK;
        let chunk = (shifted / FIRST_CHUNK).ilog2();
        let len = FIRST_CHUNK << chunk;
        (chunk as usize, len, (shifted - len) as usize)
    }

    pub(super) fn find(&self, page: u64) -> Option<&PageFrame> {
        let (chunk, _, at) = Self::place(page.min(u64::MAX / 2));
        self.chunks.get(chunk)?.get()?.get(at)?.get()
    }

    fn frame(&self, page: u64) -> Result<&PageFrame> {
        self.find(page)
            .ok_or_else(|| damaged_page("memory", page, 0, "a page in use", "none"))
    }
}

impl PageBuffer for PageArena {
    fn pin_shared(&self, page: u64) -> Result<PageReadGuard<'_>> {
        let frame = self.frame(page)?;
        let pin = FramePin::new(frame, &self.waiters);
        Ok(PageReadGuard::new(frame.latch.read(), pin))
    }

    fn pin_exclusive(&self, page: u64) -> Result<PageWriteGuard<'_>> {
        let frame = self.frame(page)?;
        let pin = FramePin::new(frame, &self.waiters);
        Ok(PageWriteGuard::new(frame.latch.write(), pin))
    }

    fn allocate(&self) -> Result<PageWriteGuard<'_>> {
        let again = self.free.lock().pop();
        if let Some(page) = again {
            let mut page = self.pin_exclusive(page)?;
            page.fill(0);
            return Ok(page);
        }
        let page = self.pages.fetch_add(1, Ordering::Relaxed);
        let (chunk, len, at) = Self::place(page);
        let Some(chunk) = self.chunks.get(chunk) else {
            return Err(too_many_pages(page));
        };
        let frames = chunk.get_or_init(|| (0..len).map(|_| OnceLock::new()).collect());
        let frame = frames[at].get_or_init(|| PageFrame::new(self.page_bytes, page));
        let pin = FramePin::new(frame, &self.waiters);
        let latched = frame.latch.write();
        assert_eq!(latched.number, page, "a page is at its place (PB1)");
        Ok(PageWriteGuard::new(latched, pin))
    }

    fn free(&self, page: PageWriteGuard<'_>) {
        let number = page.number();
        drop(page);
        let mut free = self.free.lock();
        debug_assert!(!free.contains(&number), "a page is given back once (PB7)");
        free.push(number);
    }

    fn reserve(&self, _pages: u64) -> Result<()> {
        Ok(())
    }

    fn content_bytes(&self) -> usize {
        self.page_bytes - PAGE_HEADER
    }

    fn frames(&self) -> Option<usize> {
        None
    }

    fn poison(&self, cause: &str) {
        self.poison.get_or_init(|| cause.to_owned());
    }

    fn writable(&self) -> Result<()> {
        let cause = self.poison.get();
        cause.map_or(Ok(()), |cause| Err(Error::Poisoned { cause: cause.clone() }))
    }
}

impl fmt::Debug for PageArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageArena")
            .field("page_bytes", &self.page_bytes)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_a_place_of_its_own() {
        let mut expected = Vec::new();
        for chunk in 0..5 {
            expected.extend((0..FIRST_CHUNK << chunk).map(|at| (chunk, at as usize)));
        }
        for (page, (chunk, at)) in expected.into_iter().enumerate() {
            let (found, len, place) = PageArena::place(page as u64);
            assert_eq!((found, place), (chunk, at), "page {page}");
            assert!((place as u64) < len);
        }
    }

    #[test]
    fn pages_keep_what_was_written_and_come_back_as_zeros() {
        let arena = PageArena::new(512).unwrap();
        for number in 0..1000u64 {
            let mut page = arena.allocate().unwrap();
            assert_eq!(page.number(), number);
            page[..2].copy_from_slice(&(number as u16).to_le_bytes());
        }
        for number in (0..1000).rev() {
            assert_eq!(
                arena.pin_shared(number).unwrap()[..2],
                (number as u16).to_le_bytes()
            );
        }
        arena.free(arena.pin_exclusive(77).unwrap());
        assert_eq!(arena.pages_in_use(), 999);
        let page = arena.allocate().unwrap();
        assert!(page.number() == 77 && page.iter().all(|byte| *byte == 0));
        assert!(arena.pin_shared(1000).is_err() && arena.pin_shared(u64::MAX).is_err());
    }

    #[test]
    fn threads_never_get_the_same_page() {
        let arena = PageArena::new(512).unwrap();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        (0..300)
                            .map(|_| arena.allocate().unwrap().number())
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..2400).collect::<Vec<u64>>());
    }
}
