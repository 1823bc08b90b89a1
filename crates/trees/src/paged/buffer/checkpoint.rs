//! Creates and opens page files, and writes checkpoints of their pages.

use super::PageBuffer;
use super::evict::WRITTEN_TOGETHER;
use super::format::{
    HostedMeta, MOST_META, OverwriteState, PageFileSuperblock, SUPERBLOCK, SuperblockError, VERSION,
    is_later, read_free, seal_lost,
};
use super::frame::{NO_PAGE, PageFrame};
use super::journal::{PageJournal, RolledBack};
use super::pool::{FIRST_PAGE, PagePool, PageValidator, PoolOptions, check_page_bytes};
use super::segments::{FIRST_SEGMENT, FileSegments};
use crate::paged::error::{damaged_page, no_tree};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions};
use alluvium_storage::{DiskLocation, Error, OnDiskObject, Result};
use parking_lot::RwLockWriteGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of bytes per read when all pages are checked.
const LOOKED_AT_TOGETHER: usize = 1 << 20;

fn journal_name(name: &str) -> String {
    format!("{name}.journal")
}

/// Returns the file offset of a checkpoint's superblock. Successive checkpoints alternate between
/// two locations.
pub(super) fn place_of(epoch: u64) -> u64 {
    (epoch % 2) * SUPERBLOCK as u64
}

/// Returns the number of pages that fit into the file at its current length.
pub(super) fn pages_in(device: &dyn Device, page_bytes: usize) -> u64 {
    assert!(page_bytes > 0, "pages have bytes");
    device.len().saturating_sub(FIRST_PAGE) / page_bytes as u64
}

/// What to do about a damaged free list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeLists {
    /// Refuse to open the file, and return an error.
    Whole,
    /// Treat all pages of the damaged list as in use. The caller must free those that turn out to
    /// be unreachable.
    Salvaged,
}

/// The result of reading a file's two superblocks.
#[derive(Debug)]
pub(super) struct FoundSuperblock {
    /// The newer of the valid superblocks.
    pub(super) superblock: PageFileSuperblock,
    /// Whether the other superblock is valid too, or was never written.
    pub(super) is_other_whole: bool,
}

impl FoundSuperblock {
    /// Returns whether pages of the checkpoint `root` may have been overwritten since it was
    /// written.
    pub(super) fn overwrites_since(&self, root: &PageFileSuperblock) -> OverwriteState {
        let meta = HostedMeta::decode(&self.superblock.meta);
        match meta {
            Some(meta) if self.is_other_whole && self.superblock.epoch == root.epoch => meta.overwrites,
            _ => OverwriteState::Possible,
        }
    }
}

/// Reads both superblocks and returns the newer one. If both belong to the same checkpoint, the one
/// that says that pages may have been overwritten is newer.
pub(super) fn read_superblock(device: &dyn Device) -> Result<FoundSuperblock> {
    let refused = |why: &str| no_tree(device.name(), why);
    if device.len() < FIRST_PAGE {
        return Err(refused("it is shorter than two superblocks"));
    }
    let bytes = device.read_at(0, FIRST_PAGE as usize, Purpose::Superblock)?;
    let order = |superblock: &PageFileSuperblock| {
        let hosted = HostedMeta::decode(&superblock.meta);
        let is_noted = hosted.is_some_and(|hosted| hosted.overwrites == OverwriteState::Possible);
        (superblock.epoch, is_noted)
    };
    let mut newest: Option<PageFileSuperblock> = None;
    let mut reasons = Vec::new();
    let mut is_other_whole = true;
    for half in bytes.chunks_exact(SUPERBLOCK) {
        match PageFileSuperblock::decode(half) {
            Ok(found) if newest.as_ref().is_none_or(|newest| order(newest) < order(&found)) => {
                newest = Some(found);
            }
            Ok(_) => {}
            Err(SuperblockError::Wrong(why)) => {
                is_other_whole &= half.iter().all(|byte| *byte == 0);
                reasons.push(why);
            }
            Err(SuperblockError::Newer(found)) => {
                return Err(Error::NewerFormat {
                    place: DiskLocation::new(OnDiskObject::Node, device.name(), 0),
                    found,
                    supported: VERSION,
                });
            }
        }
    }
    assert!(newest.is_some() || reasons.len() == 2, "each superblock was read");
    let newest = newest.map(|superblock| FoundSuperblock {
        superblock,
        is_other_whole,
    });
    newest.ok_or_else(|| refused(&format!("its superblocks have {}", reasons.join(", and "))))
}

impl PagePool {
    /// Creates a page file and its journal in a directory. When this returns, the empty file is
    /// durable. `identity` must differ from the identity of every other store.
    ///
    /// # Errors
    /// An error if files with these names already exist or if options contradict each other; I/O
    /// errors.
    pub fn create(
        directory: &dyn Directory,
        name: &str,
        identity: u128,
        options: PoolOptions,
        validate: Arc<PageValidator>,
    ) -> Result<PagePool> {
        check_page_bytes(options.page_bytes)?;
        let device = directory.create(name, FileOptions::DIRECT)?;
        let journal = directory.create(&journal_name(name), FileOptions::DIRECT)?;
        device.grow(FIRST_PAGE)?;
        let journal = PageJournal::new(vec![journal], options.page_bytes, 0, 0);
        let segments = FileSegments::new(FIRST_SEGMENT);
        let pool = PagePool::over(device, journal, identity, options, segments, 0, validate)?;
        pool.checkpoint(&[])?;
        directory.sync()?;
        assert_eq!(
            pool.epoch.load(Ordering::Relaxed),
            1,
            "the first checkpoint is that of no pages"
        );
        Ok(pool)
    }

    /// Opens a page file in the state of its last checkpoint. Returns the pool, and the data that
    /// the owner stored with that checkpoint. The file's page size overrides `page_bytes` in the
    /// options.
    ///
    /// # Errors
    /// An error if the file does not exist or is damaged; I/O errors.
    pub fn open(
        directory: &dyn Directory,
        name: &str,
        mut options: PoolOptions,
        validate: Arc<PageValidator>,
    ) -> Result<(PagePool, Vec<u8>)> {
        let device = directory.open(name, FileOptions::DIRECT)?;
        let superblock = read_superblock(&*device)?.superblock;
        options.page_bytes = superblock.page_bytes as usize;
        check_page_bytes(options.page_bytes)?;
        let Some(segments) = FileSegments::of(&superblock, pages_in(&*device, options.page_bytes)) else {
            let (last, bytes) = (superblock.high_water, device.len());
            let expected = format!("{last} pages");
            return Err(damaged_page(name, last, 0, expected, format!("{bytes} bytes")));
        };
        let journal = directory.open(&journal_name(name), FileOptions::DIRECT)?;
        let pages = segments.high_water();
        let journal = PageJournal::new(vec![journal], options.page_bytes, superblock.epoch, pages);
        let (identity, epoch) = (superblock.identity, superblock.epoch);
        let pool = PagePool::over(device, journal, identity, options, segments, epoch, validate)?;
        pool.recover(epoch, pages, OverwriteState::Possible)?;
        pool.read_free_lists(&superblock, FreeLists::Whole)?;
        Ok((pool, superblock.meta))
    }

    /// Restores the pages of the checkpoint by writing the journal's images back. A page that was
    /// overwritten without leaving an image in the journal is marked as lost.
    pub(super) fn recover(&self, epoch: u64, pages: u64, overwrites: OverwriteState) -> Result<()> {
        let write = |page, bytes: &[u8]| -> Result<()> {
            self.device
                .write_at(self.offset(page), AlignedBuffer::padded(bytes), Purpose::Recovery)?;
            Ok(())
        };
        let rolled_back = self.journal.roll_back(self.identity, epoch, pages, write)?;
        assert!(
            rolled_back.images.is_empty() || pages > 0,
            "images are of pages of the checkpoint"
        );
        let lost = match overwrites {
            OverwriteState::None => 0,
            OverwriteState::Possible => self.mark_lost(epoch, pages, &rolled_back, write)?,
        };
        if lost > 0 || !rolled_back.images.is_empty() {
            // The restored pages must be durable before the journal's space is reused.
            self.device.sync(Purpose::Recovery)?;
        }
        Ok(())
    }

    /// Checks all pages after a rollback to a checkpoint. Marks pages that are still newer than the
    /// checkpoint as lost, and returns their number.
    fn mark_lost(
        &self,
        epoch: u64,
        pages: u64,
        rolled_back: &RolledBack,
        write: impl Fn(u64, &[u8]) -> Result<()>,
    ) -> Result<u64> {
        let page_bytes = self.options.page_bytes;
        let together = (LOOKED_AT_TOGETHER / page_bytes) as u64;
        assert!(together > 0, "pages are shorter than what is read");
        let (mut at, mut lost) = (0, 0);
        while at < pages {
            let count = together.min(pages - at);
            let mut bytes =
                self.device
                    .read_at(self.offset(at), count as usize * page_bytes, Purpose::Recovery)?;
            for (page, bytes) in (at..).zip(bytes.chunks_exact_mut(page_bytes)) {
                if is_later(bytes, page, self.identity, epoch) {
                    let place = rolled_back.place_of(page);
                    let place = place.and_then(|(file, offset)| Some((u8::try_from(file).ok()?, offset)));
                    seal_lost(bytes, page, self.identity, place);
                    write(page, bytes)?;
                    lost += 1;
                }
            }
            at += count;
        }
        Ok(lost)
    }

    /// Reads the free list of each segment.
    pub(super) fn read_free_lists(&self, superblock: &PageFileSuperblock, lists: FreeLists) -> Result<()> {
        for (segment, (head, len)) in superblock.free.iter().enumerate() {
            match (self.read_free_list(segment, *head, *len), lists) {
                (Err(Error::Corrupt { .. }), FreeLists::Salvaged) => {}
                (read, _) => read?,
            }
        }
        let listed: u64 = superblock.free.iter().map(|(_, len)| len).sum();
        assert!(
            self.free_pages().len() as u64 == listed || lists == FreeLists::Salvaged,
            "every list was walked (PB7)"
        );
        Ok(())
    }

    fn read_free_list(&self, segment: usize, head: Option<u64>, len: u64) -> Result<()> {
        let mut pages = Vec::new();
        let mut at = head;
        while let Some(page) = at {
            // If the damaged list refers to a page that was never allocated, pinning that page
            // fails.
            let content = self.pin_shared(page)?;
            let next = read_free(&content)
                .ok_or_else(|| self.corrupt(page, "a free page", "another one on the free list"))?;
            pages.push(page);
            if pages.len() as u64 > len {
                return Err(self.corrupt(page, format!("a free list of {len} pages"), "a longer one"));
            }
            at = next;
        }
        if pages.len() as u64 != len {
            let found = format!("one of {}", pages.len());
            return Err(self.corrupt(head.unwrap_or(0), format!("a free list of {len} pages"), found));
        }
        pages.reverse();
        let mut segments = self.segments.lock();
        let holes = pages.clone();
        let set = segments.set_free(segment, pages);
        if set.is_ok() && self.gives_space_back() {
            segments.note_holes(holes);
        }
        drop(segments);
        set.map_err(|found| self.corrupt(head.unwrap_or(0), "a free list", found))
    }

    /// Writes the dirty pages without blocking other threads, so that the next checkpoint has less
    /// to write.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write_dirty(&self) -> Result<()> {
        self.writable()?;
        let is_dirty = |frame: &usize| {
            let frame = self.frames.get(*frame);
            frame.is_some_and(|frame| frame.is_dirty.load(Ordering::Acquire))
        };
        let mut first = 0;
        for shard in &self.shards {
            let end = first + shard.lock().len();
            let dirty: Vec<usize> = (first..end).filter(is_dirty).collect();
            first = end;
            for some in dirty.chunks(WRITTEN_TOGETHER) {
                let mut state = shard.lock();
                let is_free = |frame: &usize| !state.is_written(*frame) && state.page_of(*frame) != NO_PAGE;
                let some: Vec<usize> = some.iter().copied().filter(is_free).collect();
                let pins = self.begin_writing(&mut state, &some);
                drop(state);
                let written = {
                    let _writing = self.writing.read();
                    self.write_back(&some)
                };
                self.end_writing(&some, pins);
                written?;
            }
        }
        assert!(first == self.frames.len(), "every frame belongs to a shard");
        Ok(())
    }

    /// Makes all pages durable, and `meta` with them, as the state that a crash rolls back to. The
    /// caller must prevent page changes during the call.
    ///
    /// # Errors
    /// I/O errors. After any error except a full disk, the pool refuses changes.
    ///
    /// # Panics
    /// If `meta` is longer than 1024 bytes, or if pages are changed concurrently.
    pub fn checkpoint(&self, meta: &[u8]) -> Result<()> {
        assert!(meta.len() <= MOST_META, "what the owner keeps fits (PB6)");
        let _alone = self.write_all()?;
        let epoch = self.epoch.load(Ordering::Acquire) + 1;
        let superblock = self.superblock(epoch, meta);
        let written = self.install(&superblock);
        if let Err(error) = &written {
            self.fail(error);
            return written;
        }
        self.epoch.store(epoch, Ordering::Release);
        self.journal.restart(epoch, superblock.high_water)
    }

    /// Writes every dirty page. No other thread writes pages until the returned guard is dropped.
    pub(super) fn write_all(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        self.writable()?;
        self.settle_returned()?;
        loop {
            self.write_dirty()?;
            // Once this lock is granted, all writes by evicting threads have completed. An evicting
            // thread may have skipped a page because its latch was held, so check for dirty pages
            // again.
            let alone = self.writing.write();
            let is_dirty = |frame: &PageFrame| frame.is_dirty.load(Ordering::Acquire);
            if !self.frames.made().any(is_dirty) {
                return Ok(alone);
            }
            drop(alone);
            self.waiters.wait(Duration::from_millis(1));
        }
    }

    /// Returns the superblock for a checkpoint of the pages as they are now.
    pub(super) fn superblock(&self, epoch: u64, meta: &[u8]) -> PageFileSuperblock {
        let segments = self.segments.lock();
        PageFileSuperblock {
            page_bytes: self.options.page_bytes as u32,
            identity: self.identity,
            epoch,
            high_water: segments.high_water(),
            first_segment: segments.first(),
            free: segments.heads(),
            meta: meta.to_vec(),
        }
    }

    /// Makes a superblock durable, after the pages that it describes.
    fn install(&self, superblock: &PageFileSuperblock) -> Result<()> {
        self.device.sync(Purpose::Incorporate)?;
        let place = place_of(superblock.epoch);
        self.device.write_at(
            place,
            AlignedBuffer::padded(&superblock.encode()),
            Purpose::Superblock,
        )?;
        self.device.sync(Purpose::Superblock)?;
        Ok(())
    }

    /// Reads every page that was ever in use from the device, even if a frame holds it. Returns a
    /// sentence for each error found. The pool should have just been opened or checkpointed.
    ///
    /// # Errors
    /// I/O errors. Damage is part of the result, not an error.
    pub fn check_pages(&self) -> Result<Vec<String>> {
        let pages = self.segments.lock().high_water();
        let mut wrong = Vec::new();
        for page in 0..pages {
            let bytes = self
                .device
                .read_at(self.offset(page), self.options.page_bytes, Purpose::Check)?;
            if let Err(error) = self.check(page, &bytes) {
                wrong.push(error.to_string());
            }
        }
        assert!(wrong.len() as u64 <= pages, "a page is wrong once");
        Ok(wrong)
    }
}
