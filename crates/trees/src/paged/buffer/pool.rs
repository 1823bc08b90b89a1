//! A page buffer over a file. It assigns a limited number of frames to pages (thesis, section 5.3).

use super::format::{PAGE_HEADER, PageFault, check_page, write_free};
use super::frame::{FramePage, FramePin, FrameWaiters, NO_PAGE, PageFrame, PageReadGuard, PageWriteGuard};
use super::frames::FrameTable;
use super::hints::FrameHintTable;
use super::journal::PageJournal;
use super::lending::LoanPool;
#[cfg(feature = "couplings")]
use super::lending::PinPolicy;
use super::queue::QueuePolicy;
use super::segments::FileSegments;
use super::shard::ShardState;
use super::slab::PageMemory;
use super::{FrameHint, PageBuffer};
use crate::paged::error::{all_pinned, damaged_page, foreign_page};
use alluvium_base::Purpose;
use alluvium_device::{BLOCK, Device, IoBatch};
use alluvium_storage::{Error, Result};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Minimum number of frames of a pool: as many as a descent may pin, including a page that is being
/// split.
pub(super) const LEAST_FRAMES: usize = 8;
/// Number of spare frames per shard, which are not part of the memory budget. After a failed write,
/// changed pages must stay in their frames. The spare frames then let the failed operation finish
/// and readers continue.
const SPARE_FRAMES: usize = 64;
/// How long a thread waits for a frame before it tries again without being woken.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Offset of the first page in the file.
pub(super) const FIRST_PAGE: u64 = 2 * super::format::SUPERBLOCK as u64;
const _: () = assert!(FIRST_PAGE.is_multiple_of(BLOCK), "pages are read directly");
/// The frame number that stands for "no frame".
pub(super) const NO_FRAME: u32 = u32::MAX;
/// Overhead of a frame in bytes, beyond the memory of its page. It includes the frame's share of
/// the pool's tables.
pub(in crate::paged) const FRAME_BYTES: usize =
    size_of::<PageFrame>() + FrameHintTable::FRAME_BYTES + ShardState::FRAME_BYTES;

/// A function that checks whether a page's content is valid for the pages' owner, and returns the
/// reason if it is not.
pub type PageValidator = dyn Fn(&[u8]) -> std::result::Result<(), String> + Send + Sync;

#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Size of a page in bytes, which must be a power of two from 512 to 65536.
    pub page_bytes: usize,
    /// Memory for pages in bytes. Each page in memory needs about 200 bytes more for its frame.
    pub memory_bytes: usize,
    pub policy: QueuePolicy,
    /// How long a thread waits for a frame at most while all frames are pinned.
    pub longest_wait: Duration,
    /// How threads pin a page that is in memory.
    #[cfg(feature = "couplings")]
    pub pins: PinPolicy,
    /// Number of shards. Each shard has its own mutex, and its part of the frames, the table and
    /// the queues. A page's number determines its shard, so each shard must have enough frames.
    pub shards: usize,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            page_bytes: 16 << 10,
            memory_bytes: 64 << 20,
            policy: QueuePolicy::Quarter,
            longest_wait: Duration::from_secs(2),
            #[cfg(feature = "couplings")]
            pins: PinPolicy::default(),
            shards: 1,
        }
    }
}

/// Counters of a pool, which start at zero when it is opened, and its current sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Number of pins that found the page in memory.
    pub hits: u64,
    /// Number of pages read from the device.
    pub reads: u64,
    /// Number of pages written to the device.
    pub writes: u64,
    /// Number of old page images written to the journal.
    pub images: u64,
    /// Number of pages, including free ones.
    pub pages: u64,
    pub free: u64,
}

/// A buffer for the pages of a file. It keeps the most recently used pages in memory, within a
/// memory budget.
///
/// Pinning a page in memory needs no mutex: a hint gives the frame, which is checked after it has
/// been pinned. The queues are updated later, when the page is considered for eviction. No thread
/// does I/O while it holds a mutex (PB3). If all frames are pinned, a thread that needs one waits
/// for a bounded time and then returns an error.
pub struct PagePool {
    pub(super) device: Arc<dyn Device>,
    pub(super) journal: PageJournal,
    pub(super) identity: u128,
    pub(super) options: PoolOptions,
    /// The frames of all shards, in shard order. Each shard has ordinary frames first and spare
    /// ones after them.
    pub(super) frames: FrameTable,
    pub(super) memory: PageMemory,
    /// Number of frames per shard that are part of the memory budget.
    pub(super) counted: usize,
    pub(super) shards: Box<[Mutex<ShardState>]>,
    pub(super) hints: FrameHintTable,
    pub(super) loans: LoanPool,
    pub(super) waiters: FrameWaiters,
    pub(super) segments: Mutex<FileSegments>,
    /// Numbers of the pages that were free at the last checkpoint.
    pub(super) free_before: Mutex<BTreeSet<u64>>,
    /// The epoch of the last checkpoint.
    pub(super) epoch: AtomicU64,
    /// Threads that write pages hold this lock in shared mode. It is held exclusively while a
    /// checkpoint is being made durable.
    pub(super) writing: RwLock<()>,
    validate: Arc<PageValidator>,
    poison: OnceLock<String>,
    reads: AtomicU64,
    pub(super) writes: AtomicU64,
}

/// The result of pinning a frame for a page.
enum PinnedFrame<'b> {
    /// The frame contains the page, or another thread is reading the page into it.
    There(FramePin<'b>),
    /// The frame is empty. It is latched, so that the page can be read into it.
    Empty(PageWriteGuard<'b>),
}

/// Returns an error unless the page size is allowed.
pub(in crate::paged) fn check_page_bytes(page_bytes: usize) -> Result<()> {
    if page_bytes.is_power_of_two() && (512..=64 << 10).contains(&page_bytes) {
        return Ok(());
    }
    Err(Error::BadOption {
        option: "page_bytes",
        why: format!("{page_bytes} is not a power of two from 512 to 65536"),
    })
}

impl PagePool {
    /// Creates a pool over an open file, which was either just created or already existed.
    pub(super) fn over(
        device: Arc<dyn Device>,
        journal: PageJournal,
        identity: u128,
        options: PoolOptions,
        segments: FileSegments,
        epoch: u64,
        validate: Arc<PageValidator>,
    ) -> Result<PagePool> {
        check_page_bytes(options.page_bytes)?;
        let frames = options.memory_bytes / (options.page_bytes + options.bytes_beside());
        let counted = frames.checked_div(options.shards).unwrap_or_default();
        if counted < LEAST_FRAMES || frames + options.shards * SPARE_FRAMES >= NO_FRAME as usize {
            let why = format!(
                "{frames} pages fit into memory, but each of {} parts needs at least {LEAST_FRAMES}",
                options.shards
            );
            return Err(Error::BadOption {
                option: "memory_bytes",
                why,
            });
        }
        let all = counted + SPARE_FRAMES;
        let state = |shard| ShardState::new(shard, counted, SPARE_FRAMES, &options);
        Ok(PagePool {
            device,
            journal,
            identity,
            options,
            frames: FrameTable::new(all * options.shards),
            memory: PageMemory::new(options.page_bytes),
            counted,
            shards: (0..options.shards)
                .map(|shard| Mutex::new(state(shard)))
                .collect(),
            hints: options.hints(frames),
            loans: LoanPool::of_pool(&options, frames),
            waiters: FrameWaiters::default(),
            segments: Mutex::new(segments),
            free_before: Mutex::default(),
            epoch: AtomicU64::new(epoch),
            writing: RwLock::new(()),
            validate,
            poison: OnceLock::new(),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        })
    }

    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        let segments = self.segments.lock();
        let (pages, free) = (segments.high_water(), segments.free_count());
        assert!(free <= pages, "free pages were in use before (PB7)");
        let quick = self.frames.made().map(|frame| &frame.quick_hits);
        let quick: u64 = quick.map(|hits| hits.load(Ordering::Relaxed)).sum();
        PoolStatistics {
            hits: self.shards.iter().map(|shard| shard.lock().hits).sum::<u64>() + quick,
            reads: self.reads.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            images: self.journal.images(),
            pages,
            free,
        }
    }

    /// Returns how often a mutex was needed to pin a page that was in memory.
    #[cfg(all(test, feature = "couplings"))]
    pub(in crate::paged) fn locked_pins(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().hits).sum()
    }

    /// Returns the memory in bytes that the pages in memory and their frames use. It grows with the
    /// number of pages in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let used: usize = self.shards.iter().map(|shard| shard.lock().used()).sum();
        let each = self.options.page_bytes + self.options.bytes_beside();
        (used * (each + FRAME_BYTES)) as u64
    }

    /// Returns the number of pinned frames.
    #[must_use]
    pub fn pinned(&self) -> usize {
        self.frames.made().filter(|frame| frame.is_pinned()).count()
    }

    /// Returns the numbers of all free pages, sorted.
    #[must_use]
    pub fn free_pages(&self) -> Vec<u64> {
        self.segments.lock().free_pages()
    }

    /// Returns the identity of the store that the pages belong to.
    #[must_use]
    pub fn identity(&self) -> u128 {
        self.identity
    }

    pub(super) fn offset(&self, page: u64) -> u64 {
        assert!(page != NO_PAGE, "the page has a number");
        FIRST_PAGE + page * self.options.page_bytes as u64
    }

    pub(super) fn corrupt(&self, page: u64, expected: impl Into<String>, found: impl Display) -> Error {
        let offset = FIRST_PAGE.saturating_add(page.saturating_mul(self.options.page_bytes as u64));
        damaged_page(self.device.name(), page, offset, expected, found)
    }

    fn shard_of(&self, page: u64) -> &Mutex<ShardState> {
        &self.shards[(page % self.shards.len() as u64) as usize]
    }

    pub(super) fn shard_of_frame(&self, frame: usize) -> &Mutex<ShardState> {
        &self.shards[frame / (self.counted + SPARE_FRAMES)]
    }

    /// Pins a page's frame without the mutex. If this returns `None`, the caller must search for
    /// the page under the mutex.
    fn find_quickly(&self, page: u64, way: Option<&FrameHint>) -> Option<FramePin<'_>> {
        let number = way.and_then(FrameHint::get).or_else(|| self.hints.of(page))?;
        let frame = self.frames.get(number)?;
        let pin = FramePin::optimistic(frame, page, &self.waiters)?;
        frame.quick_hits.fetch_add(1, Ordering::Relaxed);
        frame.touch();
        Some(pin)
    }

    /// Updates the hints to the frame that contains a page.
    fn note(&self, page: u64, frame: usize, way: Option<&FrameHint>) {
        self.hints.set(page, frame);
        if let Some(way) = way {
            way.set(frame);
        }
    }

    /// Pins the frame that contains a page. If the page is not in memory, pins and latches an empty
    /// frame for it.
    fn find(&self, page: u64, way: Option<&FrameHint>) -> Result<PinnedFrame<'_>> {
        if let Some(pin) = self.find_quickly(page, way) {
            return Ok(PinnedFrame::There(pin));
        }
        let mut since = None;
        loop {
            let mut state = self.shard_of(page).lock();
            if let Some(frame) = state.frame_of(page) {
                state.hits += 1;
                state.touch(frame);
                self.note(page, frame, way);
                return Ok(PinnedFrame::There(FramePin::new(
                    &self.frames[frame],
                    &self.waiters,
                )));
            }
            let is_idle = |frame: usize| !self.frames[frame].is_pinned();
            if let Some(number) = state.take_free(is_idle) {
                state.install(page, number);
                let frame = &self.frames[number];
                let pin = FramePin::new(frame, &self.waiters);
                // The frame was not pinned, so no thread holds its latch. Other threads that need
                // the page will wait for this latch.
                let latched = frame.latch.try_write();
                let latched = latched.expect("a frame without a pin is not latched (PB2)");
                let mut empty = PageWriteGuard::new(latched, pin);
                // From now on, threads that do not hold the mutex also wait for the latch.
                frame.owner.store(page, Ordering::Release);
                self.note(page, number, way);
                let buffer = &mut empty.page_mut().buffer;
                buffer.get_or_insert_with(|| self.memory.take());
                return Ok(PinnedFrame::Empty(empty));
            }
            if !self.make_space(state)? {
                if since.get_or_insert_with(Instant::now).elapsed() > self.options.longest_wait {
                    let frames = self.counted - self.loans.frames() / self.shards.len();
                    return Err(all_pinned(frames));
                }
                self.waiters.wait(LOOK_AGAIN);
            }
        }
    }

    /// Pins a page, and reads it if it is not in memory. If another thread was reading it, that
    /// read may have failed, so the caller must check the page number in the frame.
    fn fetch(&self, page: u64, way: Option<&FrameHint>) -> Result<PinnedFrame<'_>> {
        let found = self.find(page, way)?;
        let PinnedFrame::Empty(mut empty) = found else {
            return Ok(found);
        };
        let read = match self.read(page, empty.page_mut()) {
            // A failed read has changed nothing, so try once more. The second attempt matters
            // because messages may be moving to the page, which would be lost.
            Err(Error::Device(_)) => self.read(page, empty.page_mut()),
            read => read,
        };
        if let Err(error) = read {
            empty.page_mut().number = NO_PAGE;
            self.forget(page);
            return Err(error);
        }
        Ok(PinnedFrame::Empty(empty))
    }

    /// Removes the page from a frame and makes the frame available. If the page could not be read,
    /// other threads may still have the frame pinned, but they check the page number once they hold
    /// the latch.
    pub(super) fn detach(&self, state: &mut ShardState, frame: usize) {
        self.frames[frame].leave(&self.loans);
        state.detach(frame);
        assert!(state.page_of(frame) == NO_PAGE, "the frame has no page (PB1)");
    }

    /// After a failed read, removes the page from the table.
    fn forget(&self, page: u64) {
        let mut state = self.shard_of(page).lock();
        let frame = state.frame_of(page);
        assert!(frame.is_some(), "a page that is read has a frame (PB1)");
        if let Some(frame) = frame {
            self.detach(&mut state, frame);
        }
    }

    /// Reads a page from the device and checks it (PB5).
    fn read(&self, page: u64, into: &mut FramePage) -> Result<()> {
        let high_water = self.segments.lock().high_water();
        if page >= high_water {
            return Err(self.corrupt(page, format!("a page below {high_water}"), "a pointer to it"));
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let buffer = into.buffer.take().unwrap_or_else(|| self.memory.take());
        let mut batch = IoBatch::with_capacity(1);
        batch.read(self.offset(page), buffer, Purpose::Lookup);
        let outcome = self.device.perform(batch).pop();
        let outcome = outcome.expect("a batch of one request has one outcome");
        into.buffer = outcome.buffer;
        outcome.result?;
        assert_eq!(
            into.bytes().len(),
            self.options.page_bytes,
            "a frame has a page's bytes"
        );
        self.check(page, into.bytes())?;
        into.number = page;
        Ok(())
    }

    /// Checks a page that was read from the device (PB5).
    pub(super) fn check(&self, page: u64, bytes: &[u8]) -> Result<()> {
        let newest = self.epoch.load(Ordering::Acquire) + 1;
        match check_page(bytes, page, self.identity, newest) {
            Ok(()) => {}
            Err(PageFault::Damaged { expected, found }) => return Err(self.corrupt(page, expected, found)),
            Err(PageFault::Foreign(found)) => {
                return Err(foreign_page(self.device.name(), page, self.identity, found));
            }
        }
        let content = bytes.get(PAGE_HEADER..).unwrap_or_default();
        (self.validate)(content).map_err(|found| self.corrupt(page, "a page of a tree", found))
    }

    fn number_of(&self, segments: &mut FileSegments) -> Result<u64> {
        loop {
            let Some(page) = segments.take() else {
                self.grow(segments, 1)?;
                continue;
            };
            if segments.is_hole(page)
                && let Err(error) = self.back(segments, page..page + 1)
            {
                segments.give_back(page);
                return Err(error);
            }
            return Ok(page);
        }
    }

    /// Allocates space in the file for pages whose space may have been released.
    fn back(&self, segments: &mut FileSegments, pages: Range<u64>) -> Result<()> {
        self.device
            .allocate(self.offset(pages.start)..self.offset(pages.end))?;
        segments.fill_holes(pages);
        Ok(())
    }

    /// Grows the file to the end of a segment. If the disk has too little space for that, grows the
    /// file by only `wanted` pages.
    fn grow(&self, segments: &mut FileSegments, wanted: u64) -> Result<()> {
        let is_cut = segments.backed() < segments.pages();
        let end = match is_cut {
            true => segments.pages(),
            false => segments.grown()?,
        };
        let least = end.min(segments.backed() + wanted.max(1));
        let mut backed = end;
        if let Err(error) = self.device.grow(self.offset(end)) {
            if !error.is_disk_full() || least == end {
                return Err(error.into());
            }
            self.device.grow(self.offset(least))?;
            backed = least;
        }
        if !is_cut {
            segments.add(end);
        }
        segments.note_backed(backed);
        Ok(())
    }

    /// Pins and latches a frame for a page that is being allocated, and clears the page. The frame
    /// is empty or still holds the page's old content.
    fn claim(&self, number: u64) -> Result<PageWriteGuard<'_>> {
        let mut page = match self.find(number, None)? {
            PinnedFrame::Empty(empty) => empty,
            PinnedFrame::There(pin) => {
                let frame = pin.frame;
                PageWriteGuard::new(frame.latch.write(), pin)
            }
        };
        page.page_mut().number = number;
        page.fill(0);
        Ok(page)
    }

    /// Latches a page for writing without reading it, and clears it.
    pub(in crate::paged) fn take_over(&self, page: u64) -> Result<PageWriteGuard<'_>> {
        assert!(
            page < self.segments.lock().high_water(),
            "page {page} is in use (PB7)"
        );
        self.claim(page)
    }

    /// Frees pages that nothing refers to. The next checkpoint adds them to the free lists.
    pub(in crate::paged) fn give_up(&self, pages: Vec<u64>) {
        let mut segments = self.segments.lock();
        pages.into_iter().for_each(|page| segments.give_up(page));
    }

    /// Adds pages to the free lists that were numbered but whose allocation then failed.
    pub(super) fn settle_returned(&self) -> Result<()> {
        loop {
            let Some(number) = self.segments.lock().take_returned() else {
                return Ok(());
            };
            match self.claim(number) {
                Ok(page) => self.free(page),
                Err(error) => {
                    self.segments.lock().give_up(number);
                    return Err(error);
                }
            }
        }
    }
}

impl PageBuffer for PagePool {
    fn pin_shared(&self, page: u64) -> Result<PageReadGuard<'_>> {
        self.pin_shared_by(page, None)
    }

    fn pin_exclusive(&self, page: u64) -> Result<PageWriteGuard<'_>> {
        self.pin_exclusive_by(page, None)
    }

    fn pin_shared_by(&self, page: u64, way: Option<&FrameHint>) -> Result<PageReadGuard<'_>> {
        loop {
            match self.fetch(page, way)? {
                PinnedFrame::There(pin) => {
                    let frame = pin.frame;
                    let latched = frame.latch.read();
                    if latched.number == page {
                        return Ok(PageReadGuard::new(latched, pin));
                    }
                }
                PinnedFrame::Empty(filled) => return Ok(filled.downgrade()),
            }
        }
    }

    fn pin_exclusive_by(&self, page: u64, way: Option<&FrameHint>) -> Result<PageWriteGuard<'_>> {
        loop {
            match self.fetch(page, way)? {
                PinnedFrame::There(pin) => {
                    let frame = pin.frame;
                    let latched = frame.latch.write();
                    if latched.number == page {
                        return Ok(PageWriteGuard::new(latched, pin));
                    }
                }
                PinnedFrame::Empty(filled) => return Ok(filled),
            }
        }
    }

    fn allocate(&self) -> Result<PageWriteGuard<'_>> {
        self.writable()?;
        let number = self.number_of(&mut self.segments.lock())?;
        self.claim(number)
            .inspect_err(|_| self.segments.lock().give_up(number))
    }

    fn free(&self, mut page: PageWriteGuard<'_>) {
        let mut segments = self.segments.lock();
        let next = segments.give_back(page.number());
        assert!(next != Some(page.number()), "a page is given back once (PB7)");
        // Hold the latch until the page has the content of a free page, so that a thread that
        // allocates the page waits. The rest of the page is zeros, so its space may be released to
        // the file system.
        page.fill(0);
        write_free(&mut page, next);
    }

    fn reserve(&self, pages: u64) -> Result<()> {
        self.writable()?;
        let mut segments = self.segments.lock();
        loop {
            let spare = segments.spare(pages);
            if spare >= pages {
                return Ok(());
            }
            let wanted = pages - spare;
            let holes = segments.first_holes(wanted);
            if holes.is_empty() {
                self.grow(&mut segments, wanted)?;
            }
            for row in holes {
                self.back(&mut segments, row)?;
            }
        }
    }

    fn content_bytes(&self) -> usize {
        self.options.page_bytes - PAGE_HEADER
    }

    fn frames(&self) -> Option<usize> {
        // Return the number of frames of a single shard, because all pages that are pinned at the
        // same time may belong to the same shard.
        Some(self.counted)
    }

    fn poison(&self, cause: &str) {
        self.poison.get_or_init(|| cause.to_owned());
    }

    fn writable(&self) -> Result<()> {
        let cause = self.poison.get();
        cause.map_or(Ok(()), |cause| Err(Error::Poisoned { cause: cause.clone() }))
    }
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagePool")
            .field("file", &self.device.name())
            .field("frames", &self.frames.len())
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}
