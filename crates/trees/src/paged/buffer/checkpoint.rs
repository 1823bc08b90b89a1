//! Creating and opening a file of pages, and checkpoints of it.

use super::PageBuffer;
use super::evict::WRITTEN_TOGETHER;
use super::format::{
    HostedMeta, MOST_META, Overwrites, Refusal, SUPERBLOCK, Superblock, VERSION, is_later, read_free,
    seal_lost,
};
use super::frame::{Frame, NO_PAGE};
use super::journal::{Journal, RolledBack};
use super::pool::{FIRST_PAGE, Pool, PoolOptions, Validate, check_page_bytes};
use super::segments::{FIRST_SEGMENT, Segments};
use crate::paged::error::{damaged_page, no_tree};
use alluvium_base::Purpose;
use alluvium_device::{Buffer, Device, Directory, FileOptions};
use alluvium_storage::{Error, Place, Result, Structure};
use parking_lot::RwLockWriteGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of pages that are looked at together.
const LOOKED_AT_TOGETHER: usize = 1 << 20;

/// Returns the name of a file's journal.
fn journal_name(name: &str) -> String {
    format!("{name}.journal")
}

/// The place of a checkpoint's superblock: they take turns.
pub(super) fn place_of(epoch: u64) -> u64 {
    (epoch % 2) * SUPERBLOCK as u64
}

/// Returns for how many pages a file is long enough.
pub(super) fn pages_in(device: &dyn Device, page_bytes: usize) -> u64 {
    assert!(page_bytes > 0, "pages have bytes");
    device.len().saturating_sub(FIRST_PAGE) / page_bytes as u64
}

/// What becomes of free lists that are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeLists {
    /// The file is not opened.
    Whole,
    /// Their pages count as in use: who opens the file finds out that nothing leads to them.
    Salvaged,
}

/// What a file's superblocks say.
#[derive(Debug)]
pub(super) struct FoundSuperblock {
    /// The newer one.
    pub(super) superblock: Superblock,
    /// Whether the other one is whole, or was never written.
    pub(super) is_other_whole: bool,
}

impl FoundSuperblock {
    /// Returns whether pages of a root may have been written over, which others keep.
    pub(super) fn overwrites_since(&self, root: &Superblock) -> Overwrites {
        let meta = HostedMeta::decode(&self.superblock.meta);
        match meta {
            Some(meta) if self.is_other_whole && self.superblock.epoch == root.epoch => meta.overwrites,
            _ => Overwrites::Possible,
        }
    }
}

/// Reads both superblocks and returns the newer. Of two of one checkpoint, that counts which says
/// that pages may have been written over since.
pub(super) fn read_superblock(device: &dyn Device) -> Result<FoundSuperblock> {
    let refused = |why: &str| no_tree(device.name(), why);
    if device.len() < FIRST_PAGE {
        return Err(refused("it is shorter than two superblocks"));
    }
    let bytes = device.read_at(0, FIRST_PAGE as usize, Purpose::Superblock)?;
    let order = |superblock: &Superblock| {
        let hosted = HostedMeta::decode(&superblock.meta);
        let is_noted = hosted.is_some_and(|hosted| hosted.overwrites == Overwrites::Possible);
        (superblock.epoch, is_noted)
    };
    let mut newest: Option<Superblock> = None;
    let mut reasons = Vec::new();
    let mut is_other_whole = true;
    for half in bytes.chunks_exact(SUPERBLOCK) {
        match Superblock::decode(half) {
            Ok(found) if newest.as_ref().is_none_or(|newest| order(newest) < order(&found)) => {
                newest = Some(found);
            }
            Ok(_) => {}
            Err(Refusal::Wrong(why)) => {
                is_other_whole &= half.iter().all(|byte| *byte == 0);
                reasons.push(why);
            }
            Err(Refusal::Newer(found)) => {
                return Err(Error::NewerFormat {
                    place: Place::new(Structure::Node, device.name(), 0),
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

impl Pool {
    /// Creates a file of pages, and its journal, in a directory. They are durable, with no
    /// pages, when this returns. `identity` is one that no other store has.
    ///
    /// # Errors
    /// Files of that name; options that do not fit; as the device says.
    pub fn create(
        directory: &dyn Directory,
        name: &str,
        identity: u128,
        options: PoolOptions,
        validate: Arc<Validate>,
    ) -> Result<Pool> {
        check_page_bytes(options.page_bytes)?;
        let device = directory.create(name, FileOptions::DIRECT)?;
        let journal = directory.create(&journal_name(name), FileOptions::DIRECT)?;
        device.grow(FIRST_PAGE)?;
        let journal = Journal::new(vec![journal], options.page_bytes, 0, 0);
        let segments = Segments::new(FIRST_SEGMENT);
        let pool = Pool::over(device, journal, identity, options, segments, 0, validate)?;
        pool.checkpoint(&[])?;
        directory.sync()?;
        assert_eq!(
            pool.epoch.load(Ordering::Relaxed),
            1,
            "the first checkpoint is that of no pages"
        );
        Ok(pool)
    }

    /// Opens a file of pages as the last checkpoint left it, and returns what its owner kept
    /// with that. `page_bytes` of the options is replaced by that of the file.
    ///
    /// # Errors
    /// No such file; damage; as the device says.
    pub fn open(
        directory: &dyn Directory,
        name: &str,
        mut options: PoolOptions,
        validate: Arc<Validate>,
    ) -> Result<(Pool, Vec<u8>)> {
        let device = directory.open(name, FileOptions::DIRECT)?;
        let superblock = read_superblock(&*device)?.superblock;
        options.page_bytes = superblock.page_bytes as usize;
        check_page_bytes(options.page_bytes)?;
        let Some(segments) = Segments::of(&superblock, pages_in(&*device, options.page_bytes)) else {
            let (last, bytes) = (superblock.high_water, device.len());
            let expected = format!("{last} pages");
            return Err(damaged_page(name, last, 0, expected, format!("{bytes} bytes")));
        };
        let journal = directory.open(&journal_name(name), FileOptions::DIRECT)?;
        let pages = segments.high_water();
        let journal = Journal::new(vec![journal], options.page_bytes, superblock.epoch, pages);
        let (identity, epoch) = (superblock.identity, superblock.epoch);
        let pool = Pool::over(device, journal, identity, options, segments, epoch, validate)?;
        pool.recover(epoch, pages, Overwrites::Possible)?;
        pool.read_free_lists(&superblock, FreeLists::Whole)?;
        Ok((pool, superblock.meta))
    }

    /// Writes the journal's images back, so that the pages are those of the checkpoint. A page that
    /// was written over, and whose image the journal does not have, is made a lost one.
    pub(super) fn recover(&self, epoch: u64, pages: u64, overwrites: Overwrites) -> Result<()> {
        let write = |page, bytes: &[u8]| -> Result<()> {
            self.device
                .write_at(self.offset(page), Buffer::padded(bytes), Purpose::Recovery)?;
            Ok(())
        };
        let rolled_back = self.journal.roll_back(self.identity, epoch, pages, write)?;
        assert!(
            rolled_back.images.is_empty() || pages > 0,
            "images are of pages of the checkpoint"
        );
        let lost = match overwrites {
            Overwrites::None => 0,
            Overwrites::Possible => self.mark_lost(epoch, pages, &rolled_back, write)?,
        };
        if lost > 0 || !rolled_back.images.is_empty() {
            // Before the journal's places are used again.
            self.device.sync(Purpose::Recovery)?;
        }
        Ok(())
    }

    /// Looks at all pages of a checkpoint that was gone back to, and makes those lost ones that
    /// were written over since. Returns how many there are.
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

    /// Walks the free list of each segment.
    pub(super) fn read_free_lists(&self, superblock: &Superblock, lists: FreeLists) -> Result<()> {
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
            // A page that is not in use is refused by its pin.
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

    /// Writes dirty pages, while others go on, so that the next checkpoint has less to write.
    ///
    /// # Errors
    /// As the device says.
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

    /// Makes all pages, and `meta`, the state that a crash leaves. No page is changed
    /// meanwhile.
    ///
    /// # Errors
    /// As the device says. Unless it is a full disk, changes are refused from then on.
    ///
    /// # Panics
    /// When `meta` has over 1024 bytes, or pages are changed meanwhile.
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

    /// Writes every dirty page; none is written before what is returned is dropped.
    pub(super) fn write_all(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        self.writable()?;
        self.settle_returned()?;
        loop {
            self.write_dirty()?;
            // What evictors had begun is written once this is granted. One may have left a page
            // because a reader held its latch.
            let alone = self.writing.write();
            let is_dirty = |frame: &Frame| frame.is_dirty.load(Ordering::Acquire);
            if !self.frames.made().any(is_dirty) {
                return Ok(alone);
            }
            drop(alone);
            self.waiters.wait(Duration::from_millis(1));
        }
    }

    /// Returns what a checkpoint of the pages as they are says.
    pub(super) fn superblock(&self, epoch: u64, meta: &[u8]) -> Superblock {
        let segments = self.segments.lock();
        Superblock {
            page_bytes: self.options.page_bytes as u32,
            identity: self.identity,
            epoch,
            high_water: segments.high_water(),
            first_segment: segments.first(),
            free: segments.heads(),
            meta: meta.to_vec(),
        }
    }

    /// Makes a superblock durable, behind the pages that it is about.
    fn install(&self, superblock: &Superblock) -> Result<()> {
        self.device.sync(Purpose::Incorporate)?;
        let place = place_of(superblock.epoch);
        self.device
            .write_at(place, Buffer::padded(&superblock.encode()), Purpose::Superblock)?;
        self.device.sync(Purpose::Superblock)?;
        Ok(())
    }

    /// Reads every page that was ever in use past the frames, and returns what is wrong, a
    /// sentence each. Meant for a pool that was just opened or checkpointed.
    ///
    /// # Errors
    /// As the device says. Damage is reported, not returned.
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
