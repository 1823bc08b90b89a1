//! The store: combines all parts of this crate behind one interface and enforces their order.
//!
//! *Scope*: the order in which state is created, opened, made durable and reclaimed, and when the
//! store refuses changes.
//!
//! *Must not depend on*: the meaning of a node, a payload or a log record.
//!
//! ```text
//!  first directory                 one checkpoint, in order
//!  ├── LOCK                        1  the caller's nodes are written to extents     NodeWriter::finish
//!  ├── superblock                  2  the cut: extents are frozen                   begin_checkpoint
//!  ├── tier-0.data                 3  tiers are synced                              ┐
//!  ├── extents-<n>.map             4  the extent map is written and synced          │
//!  └── log-<n> …                   5  the superblock is written twice and synced    │ Checkpoint::finish
//!                                  6  the log names the generation, synced          │
//!                                  7  dead extents and log are given free           ┘
//! ```
//!
//! Invariants, in addition to those of the parts and S1 to S6 of the crate:
//!
//! - **K1** Steps 3 to 7 of a checkpoint run in this order, and step 7 starts only after step 6 is
//!   done.
//! - **K2** A full disk aborts a checkpoint at any step, and nothing is freed (K1). Up to step 5
//!   the previous generation stays durable. Its superblock is not touched (P1). If a crash leaves a
//!   copy of the new superblock, that copy is valid, since everything it reaches was synced. At
//!   step 6 the new generation is durable, but the log does not name it yet. [`Store::superblock`]
//!   returns the durable one, and the next checkpoint repeats the missing steps. Any other failure
//!   of a write or a sync makes the store refuse changes (S6).
//! - **K3** Opening a store repeats steps 6 and 7 of the last checkpoint, so that a crash between
//!   steps 5 and 7 leaks nothing.
//! - **K4** Extents read by a copy are neither reused nor overwritten before the copy is complete.
//!   The target gets a superblock only once everything else is durable.

mod adding;
mod checkpoint;
mod copy;
mod health;
mod options;
mod promotion;
mod space;
#[cfg(test)]
mod tests;
mod tier_failure;

pub use checkpoint::Checkpoint;
pub use copy::{CopyProgress, GenerationSnapshot, SideFiles, StoreCopy};
pub use options::{CacheMemory, StoreOptions};
pub use space::TierSpace;

use crate::cache::NodeCache;
use crate::epoch::Epochs;
use crate::extents::{
    AllocationClass, Extent, ExtentUsage, Extents, ReachableExtent, ReclaimLimit, ReclaimProgress,
};
use crate::log::{LogOptions, LogRecord, LogUsage, RepairReport, WriteAheadLog};
use crate::node::{NodeWriter, WriterOptions, tier_file};
use crate::superblock::{self, MAX_PAYLOAD, Superblock, SuperblockFile};
use crate::tiers::{DamagedMarkPolicy, VersionedCell};
use crate::{NodeCodec, PageSize, Result, TierDirectories, TierFiles};
use alluvium_base::{DeviceProfile, Purpose};
use alluvium_device::{Directory, DirectoryLock, FileAccessMode, FileOptions};
use health::StoreHealth;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Name of the lock file.
pub const LOCK_FILE: &str = "LOCK";

/// A store that is open for reading and writing. All methods may be called from any thread.
#[derive(Debug)]
pub struct Store {
    /// The directories at opening, replaced when a tier is added or reopened elsewhere.
    directories: VersionedCell<TierDirectories>,
    tiers: Arc<TierFiles>,
    extents: Arc<Extents>,
    cache: NodeCache,
    log: WriteAheadLog,
    epochs: Epochs,
    superblock: Mutex<SuperblockFile>,
    /// The generation under construction: the birth generation of nodes written now.
    building: AtomicU64,
    /// Bit set of the tiers that accept no new extents.
    closed_tiers: AtomicU8,
    health: StoreHealth,
    page_size: PageSize,
    cache_memory: CacheMemory,
    device: DeviceProfile,
    /// Released last, after everything else is closed.
    locks: Mutex<Vec<DirectoryLock>>,
}

/// State read by [`Store::open`], before the log is replayed.
#[derive(Debug)]
pub struct StoreOpening {
    directories: TierDirectories,
    locks: Vec<DirectoryLock>,
    superblock: SuperblockFile,
    tiers: Arc<TierFiles>,
    extents: Result<Extents>,
    options: StoreOptions,
}

impl Store {
    /// Returns the space of the file system that contains the first directory.
    ///
    /// # Errors
    /// I/O errors.
    pub fn disk_space(&self) -> Result<alluvium_device::FileSystemSpace> {
        Ok(self.directory().space()?)
    }

    /// Creates a store with a first generation that holds `payload`. It takes one directory for
    /// each tier, and none of them may contain a store.
    ///
    /// A crash during creation leaves no store; creating it again starts from the beginning.
    ///
    /// # Errors
    /// [`crate::Error::StoreExists`]; [`crate::Error::NotAStore`] if files of a store exist without
    /// its superblock; [`crate::Error::WrongTier`] if a further directory is not empty; `Locked` if
    /// another process is creating or using it; [`crate::Error::BadOption`]; I/O errors.
    ///
    /// # Panics
    /// If the payload is longer than [`MAX_PAYLOAD`].
    pub fn create(
        directories: impl Into<TierDirectories>,
        options: &StoreOptions,
        payload: &[u8],
    ) -> Result<Store> {
        assert!(
            payload.len() <= MAX_PAYLOAD,
            "a payload of {} bytes, at most {MAX_PAYLOAD} fit",
            payload.len()
        );
        let directories = directories.into();
        options.validate()?;
        directories.validate()?;
        let options = &options.identified();
        let first = directories.first();
        superblock::require_none(&**first)?;
        directories.require_vacant()?;
        let locks = lock_all(&directories)?;
        superblock::begin_creation(&**first)?;
        directories.begin_creation(options.id)?;
        let tiers = Arc::new(TierFiles::create(&refs(&directories))?);
        let extents = Extents::create(Arc::clone(&tiers), options.extents)?;
        let map = extents.write_map(first, extents.freeze(FIRST_GENERATION))?;
        let log = WriteAheadLog::create(first, options.log, FIRST_GENERATION)?;
        // Every other name is durable before the superblock gets its own (P4, T2).
        directories.iter().try_for_each(|directory| directory.sync())?;
        let first_generation = Superblock {
            store: options.id,
            generation: FIRST_GENERATION,
            cut: 0,
            synced: 0,
            page_size: options.page_size,
            tiers: directories.count() as u8,
            map,
            payload: payload.to_vec(),
        };
        let superblock = SuperblockFile::create(&**first, first_generation)?;
        directories.end_creation()?;
        extents.made_durable(FIRST_GENERATION);
        Self::assemble(directories, locks, superblock, tiers, extents, log, options)
    }

    /// Starts opening a store: locks its directories and reads its newest superblock and its extent
    /// map. [`StoreOpening::replay`] completes the opening.
    ///
    /// # Errors
    /// [`crate::Error::NotAStore`]; [`crate::Error::BadOption`] if the store has a different number
    /// of tiers; [`crate::Error::WrongTier`] if a directory belongs to another store or tier;
    /// `Locked`, `PermissionDenied`, [`crate::Error::NewerFormat`], [`crate::Error::Corrupt`]; I/O
    /// errors.
    pub fn open(directories: impl Into<TierDirectories>, options: &StoreOptions) -> Result<StoreOpening> {
        let opening = Self::begin(directories.into(), options, None, DamagedMarkPolicy::Refused)?;
        match opening.extents {
            Err(damage) => Err(damage),
            Ok(_) => Ok(opening),
        }
    }

    /// Like [`Store::open`], but accepts a damaged extent map: see [`StoreOpening::map_damage`]. A
    /// damaged mark of a tier is rewritten.
    ///
    /// # Errors
    /// As [`Store::open`], except for a damaged map or mark.
    pub fn open_without_map(
        directories: impl Into<TierDirectories>,
        options: &StoreOptions,
    ) -> Result<StoreOpening> {
        Self::begin(directories.into(), options, None, DamagedMarkPolicy::Mended)
    }

    /// Like [`Store::open_without_map`], but opens a generation older than `than`. For
    /// [`StoreOpening::repair`] only.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_older(
        directories: impl Into<TierDirectories>,
        options: &StoreOptions,
        than: u64,
    ) -> Result<StoreOpening> {
        Self::begin(directories.into(), options, Some(than), DamagedMarkPolicy::Mended)
    }

    fn begin(
        directories: TierDirectories,
        options: &StoreOptions,
        than: Option<u64>,
        damaged: DamagedMarkPolicy,
    ) -> Result<StoreOpening> {
        directories.validate()?;
        let first = &Arc::clone(directories.first());
        superblock::require(&**first)?;
        // Further directories are locked only once they are known to belong to this store: locking
        // creates a file.
        let mut locks = vec![first.lock(LOCK_FILE)?];
        let superblock = match than {
            None => SuperblockFile::open(&**first, FileAccessMode::ReadWrite)?,
            Some(than) => SuperblockFile::open_older(&**first, FileAccessMode::ReadWrite, than)?,
        };
        let durable = superblock.durable();
        let directories = match than {
            // This generation may predate the addition of a tier.
            Some(_) => directories.first_ones(usize::from(durable.tiers)),
            None => directories,
        };
        directories.require_count(durable.tiers)?;
        if damaged == DamagedMarkPolicy::Refused {
            directories.require_marks(durable.store)?;
        }
        for directory in directories.iter().skip(1) {
            locks.push(directory.lock(LOCK_FILE)?);
        }
        directories.adopt(durable.store, damaged)?;
        let options = StoreOptions {
            id: durable.store,
            page_size: durable.page_size,
            ..options.clone()
        }
        .identified();
        options.validate()?;
        let tiers = Arc::new(TierFiles::open(&refs(&directories), FileOptions::DIRECT)?);
        let extents = Extents::open(first, Arc::clone(&tiers), &durable.map, options.extents);
        let extents = match extents {
            Err(damage @ crate::Error::Corrupt { .. }) => Err(damage),
            other => Ok(other?),
        };
        Ok(StoreOpening {
            directories,
            locks,
            superblock,
            tiers,
            extents,
            options,
        })
    }

    fn assemble(
        directories: TierDirectories,
        locks: Vec<DirectoryLock>,
        superblock: SuperblockFile,
        tiers: Arc<TierFiles>,
        extents: Extents,
        log: WriteAheadLog,
        options: &StoreOptions,
    ) -> Result<Store> {
        assert_eq!(
            usize::from(superblock.durable().tiers),
            tiers.count(),
            "the superblock says how many tiers there are (T1)"
        );
        assert_eq!(locks.len(), tiers.count(), "the directory of each tier is locked");
        let epochs = Epochs::new();
        let cache = NodeCache::new(
            Arc::clone(&tiers),
            epochs.clone(),
            options.page_size,
            options.cache_bytes,
        )?;
        if options.cache_memory == CacheMemory::Registered {
            for directory in directories.iter() {
                directory.register_memory(cache.memory_region());
            }
        }
        assert!(
            superblock.durable().generation > 0,
            "generations are counted from 1"
        );
        let building = AtomicU64::new(superblock.durable().generation + 1);
        Ok(Store {
            directories: VersionedCell::new(directories),
            tiers,
            extents: Arc::new(extents),
            cache,
            log,
            epochs,
            superblock: Mutex::new(superblock),
            building,
            closed_tiers: AtomicU8::new(0),
            health: StoreHealth::default(),
            page_size: options.page_size,
            cache_memory: options.cache_memory,
            device: options.device,
            locks: Mutex::new(locks),
        })
    }

    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Returns the cost profile of the device, as given in the options.
    #[must_use]
    pub fn device(&self) -> &DeviceProfile {
        &self.device
    }

    /// Returns the first directory: it contains tier 0, the superblock and the log.
    #[must_use]
    pub fn directory(&self) -> &Arc<dyn Directory> {
        self.directories().first()
    }

    /// Returns the directories of the tiers. The counters of each directory cover the I/O of its
    /// tier since it was last opened; those of the first include the log.
    #[must_use]
    pub fn directories(&self) -> &TierDirectories {
        self.directories.get()
    }

    /// Returns every directory used for a tier since the store was opened. There is more than one
    /// after a failed tier was reopened elsewhere.
    #[must_use]
    pub fn directories_of(&self, tier: u8) -> Vec<&Arc<dyn Directory>> {
        let mut all: Vec<&Arc<dyn Directory>> = Vec::new();
        for directory in self.directories.all().filter_map(|all| all.get(tier)) {
            if !all.iter().any(|other| Arc::ptr_eq(other, directory)) {
                all.push(directory);
            }
        }
        all
    }

    /// Returns the epochs, which track the readers of unlinked objects.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    #[must_use]
    pub fn cache(&self) -> &NodeCache {
        &self.cache
    }

    #[must_use]
    pub fn extents(&self) -> &Arc<Extents> {
        &self.extents
    }

    #[must_use]
    pub fn log(&self) -> &WriteAheadLog {
        &self.log
    }

    #[must_use]
    pub fn tiers(&self) -> &Arc<TierFiles> {
        &self.tiers
    }

    /// Returns a copy of the durable superblock.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().durable().clone()
    }

    /// Returns the default options of a writer: the store's page size, no compression, tier 0, born
    /// in the generation under construction.
    #[must_use]
    pub fn writer_options(&self, purpose: Purpose, class: AllocationClass) -> WriterOptions {
        WriterOptions {
            tier: 0,
            page_size: self.page_size,
            codec: NodeCodec::None,
            birth: self.building.load(Ordering::Acquire),
            purpose,
            class,
            extent_units: WriterOptions::EXTENT_UNITS,
        }
    }

    /// Returns a node writer. Its output becomes part of the store once its extents are installed.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned) after an earlier failure;
    /// [`Error::BadOption`](crate::Error::BadOption) if the store has no such tier.
    ///
    /// # Panics
    /// If the page size is not the store's.
    pub fn node_writer(&self, options: WriterOptions) -> Result<NodeWriter> {
        assert_eq!(options.page_size, self.page_size, "one page size per store");
        self.health.check()?;
        if usize::from(options.tier) >= self.tiers.count() {
            let why = format!("the store has only tiers 0 to {}", self.tiers.count() - 1);
            return Err(crate::Error::BadOption { option: "tier", why });
        }
        Ok(NodeWriter::new(
            Arc::clone(&self.extents),
            Arc::clone(&self.tiers),
            options,
        ))
    }

    /// Performs a bounded amount of reclamation: makes freed extents reusable and returns space to
    /// the file system (S4).
    ///
    /// # Errors
    /// I/O errors.
    pub fn reclaim(&self, limit: ReclaimLimit) -> Result<ReclaimProgress> {
        self.health.check()?;
        self.epochs.try_advance();
        self.health
            .poison_on_error(self.extents.reclaim(self.epochs.safe(), limit))
    }

    /// Frees space for a log segment on a full file system, by returning free space of the data
    /// files that this class may use. Returns whether there was enough. The log may then allocate
    /// the space.
    ///
    /// # Errors
    /// I/O errors.
    pub fn make_log_space(&self, class: AllocationClass) -> Result<bool> {
        let wanted = self.log.segment_bytes();
        Ok(self
            .health
            .poison_on_error(self.extents.release_free_space(wanted, class))?
            >= wanted)
    }

    /// Checks that the store accepts changes.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] with the first failure.
    pub fn health(&self) -> Result<()> {
        self.health.check()
    }

    /// Checks that neither the store's directory nor a file that is required for opening was
    /// removed. If one was, the store refuses changes from then on, because they would be lost.
    ///
    /// # Errors
    /// [`crate::Error::Device`] with the removed file or directory; [`crate::Error::Poisoned`]
    /// after an earlier failure.
    pub fn require_files(&self) -> Result<()> {
        self.health.check()?;
        let is_gone = self.directory().is_removed();
        let directory = is_gone.then(|| self.directory().describe());
        let data = || {
            let is_gone = self.tiers.get(0).is_ok_and(|file| file.is_removed());
            is_gone.then(|| tier_file(0))
        };
        let superblock = || {
            // If a checkpoint holds the lock, the checkpoint itself will detect the removal.
            let is_gone = self.superblock.try_lock().is_some_and(|file| file.is_removed());
            is_gone.then(|| superblock::FILE.to_owned())
        };
        let removed = directory
            .or_else(|| self.log.removed_file())
            .or_else(data)
            .or_else(superblock);
        match removed {
            None => Ok(()),
            Some(file) => self
                .health
                .poison_on_error(Err(alluvium_device::Error::Removed { file }.into())),
        }
    }

    /// Records a failure of a change made through [`Store::extents`], [`Store::log`] or a writer,
    /// and returns the result unchanged.
    ///
    /// # Errors
    /// The error of `result`.
    pub fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        self.health.poison_on_error(result)
    }

    /// Returns the space used by the extents and by the log.
    #[must_use]
    pub fn usage(&self) -> (ExtentUsage, LogUsage) {
        (self.extents.usage(), self.log.usage())
    }

    /// Checks the superblock, the extents with their map, and the log. Returns one sentence for
    /// each violation. `reachable` lists every extent reachable from the payload, with its
    /// reference count. The tree and the space must not change during the check; reads and appends
    /// may continue. [`NodeCache::check`] is separate, because it does not allow these.
    ///
    /// # Errors
    /// None at present: unreadable data is reported as a violation.
    pub fn check(&self, reachable: impl Iterator<Item = (Extent, u32)>) -> Result<Vec<String>> {
        Ok(self.check_counted(reachable).0)
    }

    /// Like [`Store::check`], and also returns the numbers of log segments and of log bytes that
    /// were read.
    pub fn check_counted(&self, reachable: impl Iterator<Item = (Extent, u32)>) -> (Vec<String>, [u64; 2]) {
        fn sentences<T: ToString>(found: Result<Vec<T>>) -> Vec<String> {
            match found {
                Ok(found) => found.iter().map(ToString::to_string).collect(),
                Err(error) => vec![error.to_string()],
            }
        }
        let superblock = self.superblock.lock();
        let mut violations = sentences(superblock.check());
        let map = superblock.durable().map;
        let id = superblock.durable().store;
        violations.extend(self.directories().check_marks(id, &self.tiers));
        violations.extend(sentences(Ok(self.extents.check(reachable))));
        violations.extend(sentences(self.extents.check_map(&**self.directory(), &map)));
        let walked = self.log.walk();
        let read = walked
            .as_ref()
            .map_or([0; 2], |walked| [walked.segments, walked.bytes]);
        violations.extend(sentences(walked.map(|walked| walked.violations)));
        (violations, read)
    }

    /// Closes the store cleanly: syncs the log and marks it as closed, so that the next opening
    /// detects any damage to it, and releases the locks. Handles that remain must not be used
    /// afterwards.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] after an earlier failure; I/O errors.
    pub fn close(&self) -> Result<()> {
        self.health.check()?;
        self.log.clone().close()?;
        self.locks.lock().clear();
        Ok(())
    }
}

impl StoreOpening {
    /// Returns the superblock of the generation that is being opened.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.superblock.durable()
    }

    /// Returns the data files, for reading nodes that the payload points to.
    #[must_use]
    pub fn tiers(&self) -> &Arc<TierFiles> {
        &self.tiers
    }

    /// Returns why the extent map is unreadable, if it is. Only the map is missing then:
    /// [`StoreOpening::rebuild_map`] rebuilds it from the extents reachable from the payload. Until
    /// then, both [`StoreOpening::replay`] and [`StoreOpening::repair`] fail.
    #[must_use]
    pub fn map_damage(&self) -> Option<&crate::Error> {
        self.extents.as_ref().err()
    }

    /// Rebuilds the extents from those reachable from the payload. The map is durable after the
    /// next checkpoint.
    ///
    /// # Errors
    /// As [`Extents::rebuild`].
    pub fn rebuild_map(&mut self, reached: &[ReachableExtent]) -> Result<()> {
        let (tiers, generation) = (Arc::clone(&self.tiers), self.superblock.durable().generation);
        let directory = self.directories.first();
        let rebuilt = Extents::rebuild(directory, tiers, reached, generation, self.options.extents);
        self.extents = Ok(rebuilt?);
        Ok(())
    }

    /// Replays the log from the superblock's cut, in the order of sequence numbers, and opens the
    /// store.
    ///
    /// # Errors
    /// [`crate::Error::OlderGeneration`] if the log names a newer superblock;
    /// [`crate::Error::Corrupt`] for damage to log records that were acknowledged as synced; errors
    /// of `replay`; I/O errors.
    pub fn replay(self, replay: &mut dyn FnMut(LogRecord<'_>) -> Result<()>) -> Result<Store> {
        let StoreOpening {
            directories,
            locks,
            superblock,
            tiers,
            extents,
            options,
        } = self;
        let extents = extents?;
        let (generation, cut, synced) = {
            let durable = superblock.durable();
            (durable.generation, durable.cut, durable.synced)
        };
        let log = sized(options.log, &directories);
        let log = WriteAheadLog::open(directories.first(), log, cut, generation, synced, replay)?;
        // A crash may have interrupted a checkpoint after the superblock was written (K3).
        match log.note_generation(generation) {
            Ok(()) => {
                extents.made_durable(generation);
                log.release(cut)?;
            }
            // The disk is full: nothing is freed before the generation is noted. The next
            // checkpoint does both.
            Err(error) if error.is_full() => {}
            Err(error) => return Err(error),
        }
        Store::assemble(directories, locks, superblock, tiers, extents, log, &options)
    }

    /// Opens a damaged store as far as possible. Every sound log record above the superblock's cut
    /// is replayed, and damage is skipped and reported. A superblock older than the one named in
    /// the log is accepted, which undoes the changes of the newer one. Ends with a checkpoint, so
    /// that the store opens strictly from then on. No other operation skips damage: copy the files
    /// first.
    ///
    /// The nodes reachable from the payload are not read: traverse them, and see `check`.
    ///
    /// # Errors
    /// [`NewerFormat`](crate::Error::NewerFormat); errors of `replay`; I/O errors.
    pub fn repair(
        self,
        replay: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
    ) -> Result<(Store, RepairReport)> {
        let StoreOpening {
            directories,
            locks,
            superblock,
            tiers,
            extents,
            options,
        } = self;
        let extents = extents?;
        let durable = superblock.durable().clone();
        let (log, report) = WriteAheadLog::repair(
            directories.first(),
            sized(options.log, &directories),
            durable.cut,
            durable.generation,
            replay,
        )?;
        extents.made_durable(durable.generation);
        let store = Store::assemble(directories, locks, superblock, tiers, extents, log, &options)?;
        // The new generation exceeds every generation named on disk, so that none of them is newer
        // than the repaired store.
        store
            .building
            .fetch_max(report.named_generation + 1, Ordering::AcqRel);
        store.begin_checkpoint()?.finish(&durable.payload, durable.cut)?;
        Ok((store, report))
    }
}

/// Returns the log options with the total size of the store's files, if the segment size depends on
/// it.
fn sized(log: LogOptions, directories: &TierDirectories) -> LogOptions {
    if !log.starts_small {
        return log;
    }
    let stored = |directory: &Arc<dyn Directory>| -> u64 {
        let names = directory.list().unwrap_or_default();
        let files = names.iter().filter(|name| !crate::log::is_segment(name));
        // A file that cannot be opened is either not part of the store, or its damage is detected
        // elsewhere.
        let files = files.filter_map(|name| directory.open(name, FileOptions::BUFFERED.read_only()).ok());
        files.map(|file| file.len()).sum()
    };
    LogOptions {
        stored_bytes: directories.iter().map(stored).sum(),
        ..log
    }
}

fn lock_all(directories: &TierDirectories) -> Result<Vec<DirectoryLock>> {
    let locks = directories.iter().map(|directory| Ok(directory.lock(LOCK_FILE)?));
    locks.collect()
}

fn refs(directories: &TierDirectories) -> Vec<&dyn Directory> {
    directories.iter().map(|directory| &**directory).collect()
}

/// The generation of a new store.
const FIRST_GENERATION: u64 = 1;
