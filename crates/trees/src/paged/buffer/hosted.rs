//! Hosted pages: their checkpoints are made durable by another store, the host, with its own state.
//!
//! A checkpoint briefly stops changes while it writes and syncs the pages and returns a root to the
//! host. The host makes the root durable later, or never. The pages do not find out which before
//! the next checkpoint, so they keep the images of every checkpoint whose root may be the durable
//! one. To open the pages, the host passes the root that it has stored.
//!
//! ```text
//!   stand            dirty pages are written, their old images first     NAME, NAME.0 or NAME.1
//!                    the file's own superblock: which roots it can go back to
//!                    sync
//!                    the root before is durable: what was kept for older ones goes
//!   first overwrite  the other superblock: pages may be written over from here on; sync
//!   open             images back to the root that is named, sync, empty the journal
//! ```

use super::PageBuffer;
use super::checkpoint::{FreeLists, pages_in, place_of, read_superblock};
use super::format::{HostedMeta, OverwriteState, PageFileSuperblock, SUPERBLOCK};
use super::journal::{JournalState, PageJournal};
use super::pool::{FIRST_PAGE, FRAME_BYTES, PagePool, PageValidator, PoolOptions, check_page_bytes};
use super::segments::{FIRST_SEGMENT, FileSegments};
use crate::paged::error::{foreign_page, not_these_pages};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device, Directory, Error as DeviceError, FileOptions};
use alluvium_storage::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether the root that was returned most recently would survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastRoot {
    /// The most recent root is durable.
    Durable,
    /// It is unknown whether the most recent root is, or ever will be, durable.
    Unknown,
}

/// Minimum number of pages in memory for a hosted file.
const LEAST_HOSTED: usize = 16;
const _: () = assert!(
    LEAST_HOSTED >= super::pool::LEAST_FRAMES,
    "a descent has its pages"
);

pub(super) fn journals(name: &str) -> [String; 2] {
    [format!("{name}.0"), format!("{name}.1")]
}

/// Returns how much of the memory budget is for the pages themselves; the rest is frame overhead.
/// The minimum number of pages is always available, so that existing data can be read.
fn memory_of_pages(options: &PoolOptions) -> usize {
    let pages = options.memory_bytes / (options.page_bytes + FRAME_BYTES);
    pages.max(LEAST_HOSTED) * options.page_bytes
}

/// Returns the superblock that the file keeps until a page of the checkpoint is overwritten. Its
/// owner data contains the oldest checkpoint to which the file can be rolled back.
pub(super) fn own(superblock: &PageFileSuperblock, oldest: u64) -> PageFileSuperblock {
    let meta = HostedMeta {
        oldest,
        overwrites: OverwriteState::None,
    };
    PageFileSuperblock {
        meta: meta.encode(),
        ..superblock.clone()
    }
}

/// Checks whether a page file can be rolled back to the checkpoint that the host's root refers to.
/// If it cannot, returns the reason as an error.
fn reaches(found: &PageFileSuperblock, root: &PageFileSuperblock) -> std::result::Result<(), String> {
    let oldest = HostedMeta::decode(&found.meta).map(|meta| meta.oldest);
    let holds = oldest.is_some_and(|oldest| (oldest..=found.epoch).contains(&root.epoch));
    if holds && found.page_bytes == root.page_bytes {
        return Ok(());
    }
    Err(format!(
        "the store names checkpoint {} with pages of {} bytes, but the file has checkpoints {oldest:?} to {} with pages of {} bytes",
        root.epoch, root.page_bytes, found.epoch, found.page_bytes
    ))
}

impl PagePool {
    /// Creates a page file and the two files of its journal. Existing files with these names are
    /// removed.
    ///
    /// # Errors
    /// An error if options contradict each other; I/O errors.
    pub fn create_hosted(
        directory: &dyn Directory,
        name: &str,
        identity: u128,
        mut options: PoolOptions,
        validate: Arc<PageValidator>,
    ) -> Result<PagePool> {
        check_page_bytes(options.page_bytes)?;
        options.memory_bytes = memory_of_pages(&options);
        let there = directory.list()?;
        let fresh = |name: &str| -> Result<Arc<dyn Device>> {
            if there.iter().any(|other| other == name) {
                directory.remove(name)?;
            }
            Ok(directory.create(name, FileOptions::DIRECT)?)
        };
        let device = fresh(name)?;
        let [first, second] = journals(name);
        let journal = vec![fresh(&first)?, fresh(&second)?];
        device.grow(FIRST_PAGE)?;
        directory.sync()?;
        let journal = PageJournal::new(journal, options.page_bytes, 0, 0);
        let segments = FileSegments::new(FIRST_SEGMENT);
        let pool = PagePool::over(device, journal, identity, options, segments, 0, validate)?;
        assert!(pool.statistics().pages == 0, "the pages begin with none");
        Ok(pool)
    }

    /// Writes all pages and returns their root, which includes `meta`. The caller must prevent page
    /// changes during the call. `last` is the state of the previous root.
    ///
    /// # Errors
    /// I/O errors. After any error except a full disk, the pool refuses changes.
    pub fn write_root(&self, meta: &[u8], last: LastRoot) -> Result<Vec<u8>> {
        let alone = self.write_all()?;
        let epoch = self.epoch.load(Ordering::Acquire) + 1;
        let superblock = self.superblock(epoch, meta);
        // A call of `hold` after this point retains this root or a later one (PB8).
        let is_durable = last == LastRoot::Durable && !self.journal.is_held();
        let oldest = self.journal.oldest(is_durable);
        assert!(oldest < epoch, "an earlier root can be gone back to (PB8)");
        let stood = self
            .write_own(&own(&superblock, oldest), place_of(epoch))
            .and_then(|()| {
                self.journal
                    .start_checkpoint(epoch, superblock.high_water, is_durable)
            });
        if let Err(error) = stood {
            // The superblock may or may not have been written, but the one in the file is correct
            // in either case.
            self.fail(&error);
            return Err(error);
        }
        self.journal.begin_still(own(&superblock, oldest));
        self.epoch.store(epoch, Ordering::Release);
        drop(alone);
        self.give_space_back(is_durable);
        Ok(superblock.encode_short())
    }

    /// Records in the file that pages of the last checkpoint may be overwritten. If an image is
    /// missing when the file is opened, this makes all pages be checked. The superblock is written
    /// to the other of the two locations, so that the checkpoint's own superblock stays intact.
    pub(super) fn note_overwrites(&self, state: &mut JournalState) -> Result<()> {
        let Some(superblock) = &mut state.still else {
            return Ok(());
        };
        let oldest = HostedMeta::decode(&superblock.meta).map_or(superblock.epoch, |meta| meta.oldest);
        let meta = HostedMeta {
            oldest,
            overwrites: OverwriteState::Possible,
        };
        superblock.meta = meta.encode();
        self.write_own(superblock, place_of(superblock.epoch + 1))?;
        state.still = None;
        Ok(())
    }

    fn write_own(&self, superblock: &PageFileSuperblock, place: u64) -> Result<()> {
        let bytes = superblock.encode();
        assert!(place + SUPERBLOCK as u64 <= FIRST_PAGE, "pages come behind it");
        self.device
            .write_at(place, AlignedBuffer::padded(&bytes), Purpose::Superblock)?;
        self.device.sync(Purpose::Superblock)?;
        Ok(())
    }

    /// Opens hosted pages in the state of `root`. Returns the pool, and the owner's data in the
    /// root. The file's page size overrides `page_bytes` in the options.
    ///
    /// # Errors
    /// An error if the file does not exist, is damaged, or cannot be rolled back to the root; I/O
    /// errors.
    pub fn open_hosted(
        directory: &dyn Directory,
        name: &str,
        root: &[u8],
        mut options: PoolOptions,
        validate: Arc<PageValidator>,
        lists: FreeLists,
    ) -> Result<(PagePool, Vec<u8>)> {
        let refused = |why: String| not_these_pages(name, why);
        let root = PageFileSuperblock::decode_short(root)
            .map_err(|refusal| refused(format!("the root that refers to it is invalid: {refusal:?}")))?;
        let open = |name: &str| match directory.open(name, FileOptions::DIRECT) {
            Err(DeviceError::NotFound { file }) => Err(refused(format!("there is no file {file}"))),
            other => Ok(other?),
        };
        let device = open(name)?;
        let found = read_superblock(&*device)?;
        if found.superblock.identity != root.identity {
            return Err(foreign_page(name, 0, root.identity, found.superblock.identity));
        }
        reaches(&found.superblock, &root).map_err(refused)?;
        options.page_bytes = root.page_bytes as usize;
        check_page_bytes(options.page_bytes)?;
        options.memory_bytes = memory_of_pages(&options);
        let Some(segments) = FileSegments::of(&root, pages_in(&*device, options.page_bytes)) else {
            return Err(refused(format!(
                "it has {} bytes, so pages are missing",
                device.len()
            )));
        };
        let files = journals(name)
            .iter()
            .map(|name| open(name))
            .collect::<Result<_>>()?;
        let pages = segments.high_water();
        let journal = PageJournal::new(files, options.page_bytes, root.epoch, pages);
        let pool = PagePool::over(
            device,
            journal,
            root.identity,
            options,
            segments,
            root.epoch,
            validate,
        )?;
        let overwrites = found.overwrites_since(&root);
        pool.recover(root.epoch, pages, overwrites)?;
        pool.journal.empty(root.identity)?;
        if overwrites == OverwriteState::None {
            pool.journal.begin_still(found.superblock);
        }
        pool.read_free_lists(&root, lists)?;
        assert!(
            pool.epoch.load(Ordering::Relaxed) == root.epoch,
            "it is the named one (PB8)"
        );
        Ok((pool, root.meta))
    }

    /// Reserves enough space that no file has to grow when `pages` pages are allocated and every
    /// page in memory is overwritten.
    ///
    /// # Errors
    /// An error if the disk is full. Nothing has changed in this case.
    pub fn reserve_all(&self, pages: u64) -> Result<()> {
        self.reserve_for(pages, 0)
    }

    /// Like [`PagePool::reserve_all`], but also reserves the space to overwrite `images` more
    /// pages.
    ///
    /// # Errors
    /// The errors of [`PagePool::reserve_all`].
    pub fn reserve_for(&self, pages: u64, images: u64) -> Result<()> {
        // Reserve the journal's space first, so that the pages cannot use it up.
        self.writable()?;
        self.journal.reserve(images + 2 * self.frames.len() as u64)?;
        self.reserve(pages)
    }

    /// Returns the size of the page file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.device.len()
    }

    /// Returns the total size of the journal's files in bytes.
    #[must_use]
    pub fn journal_bytes(&self) -> u64 {
        self.journal.bytes()
    }
}
