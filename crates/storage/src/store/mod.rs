//! The store combines all parts of this crate behind one interface, and orders their operations.
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
//! Invariants, in addition to those of the parts and to S1 to S6 of the crate:
//!
//! - **K1** Steps 3 to 7 of a checkpoint run in this order, and step 7 starts only once step 6 has
//!   completed.
//! - **K2** A full disk aborts a checkpoint at any step, and nothing is freed (K1). Up to step 5,
//!   the previous generation remains the durable one, because its superblock is not modified (P1).
//!   If a crash then leaves a copy of the new superblock, that copy is valid, because everything
//!   reachable from it was synced before. At step 6, the new generation is durable, but the log
//!   does not name it yet. [`Store::superblock`] returns the superblock of the durable generation,
//!   and the next checkpoint repeats the missing steps. After any other failed write or sync, the
//!   store refuses changes (S6).
//! - **K3** Opening a store repeats steps 6 and 7 of the last checkpoint, so a crash between steps
//!   5 and 7 leaks no space.
//! - **K4** The extents that a copy of the store reads are neither reused nor overwritten until the
//!   copy is complete. The copy gets its superblock only after all its other files are durable.

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

/// Name of the file with which a process locks a store's directory.
pub const LOCK_FILE: &str = "LOCK";

/// A store open for reads and writes. All methods may be called from any thread.
#[derive(Debug)]
pub struct Store {
    /// The directories of the tiers. Replaced when a tier is added, or reopened in another
    /// directory.
    directories: VersionedCell<TierDirectories>,
    tiers: Arc<TierFiles>,
    extents: Arc<Extents>,
    cache: NodeCache,
    log: WriteAheadLog,
    epochs: Epochs,
    superblock: Mutex<SuperblockFile>,
    /// The generation under construction, which becomes the birth generation of newly written
    /// nodes.
    building: AtomicU64,
    /// Bit set of the tiers that are closed to new extents.
    closed_tiers: AtomicU8,
    health: StoreHealth,
    page_size: PageSize,
    cache_memory: CacheMemory,
    device: DeviceProfile,
    /// The locks of the directories. As the last field, they are released only after everything
    /// else is closed.
    locks: Mutex<Vec<DirectoryLock>>,
}

/// A store whose superblock and extent map were read by [`Store::open`], but whose log is yet to be
/// replayed.
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
    /// Returns the total and free space of the first directory's file system.
    ///
    /// # Errors
    /// I/O errors.
    pub fn disk_space(&self) -> Result<alluvium_device::FileSystemSpace> {
        Ok(self.directory().space()?)
    }

    /// Creates a store whose first generation contains `payload`. The store has one tier for each
    /// directory, and no directory may already contain a store.
    ///
    /// If a crash interrupts the creation, there is no store, and this function can be called again
    /// for the same directories.
    ///
    /// # Errors
    /// [`crate::Error::StoreExists`]; [`crate::Error::NotAStore`] if the first directory contains
    /// store files but no superblock; [`crate::Error::WrongTier`] if another directory is not
    /// empty; `Locked` if another process is creating or using the store;
    /// [`crate::Error::BadOption`]; I/O errors.
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
        // Make the names of all other files durable before the superblock gets its name (P4, T2).
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

    /// Starts opening a store: locks its directories, and reads its newest superblock and extent
    /// map. The caller must then call [`StoreOpening::replay`] to replay the log and get the open
    /// store.
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

    /// Like [`Store::open`], but tolerates a damaged extent map, which [`StoreOpening::map_damage`]
    /// then reports. A damaged marker file of a tier is rewritten.
    ///
    /// # Errors
    /// As [`Store::open`], except that a damaged map or marker file is not an error.
    pub fn open_without_map(
        directories: impl Into<TierDirectories>,
        options: &StoreOptions,
    ) -> Result<StoreOpening> {
        Self::begin(directories.into(), options, None, DamagedMarkPolicy::Mended)
    }

    /// Like [`Store::open_without_map`], but opens the newest generation that is older than `than`.
    /// On the result, only [`StoreOpening::repair`] may be called.
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
        // Locking a directory creates a file in it, so lock each further directory only after its
        // marker file has shown that it belongs to this store.
        let mut locks = vec![first.lock(LOCK_FILE)?];
        let superblock = match than {
            None => SuperblockFile::open(&**first, FileAccessMode::ReadWrite)?,
            Some(than) => SuperblockFile::open_older(&**first, FileAccessMode::ReadWrite, than)?,
        };
        let durable = superblock.durable();
        let directories = match than {
            // This generation may predate the newest tiers.
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

    /// Returns the device's cost profile from the options.
    #[must_use]
    pub fn device(&self) -> &DeviceProfile {
        &self.device
    }

    /// Returns the first directory, which holds tier 0, the superblock and the log.
    #[must_use]
    pub fn directory(&self) -> &Arc<dyn Directory> {
        self.directories().first()
    }

    /// Returns the current directory of each tier. A directory's I/O counters cover its tier since
    /// the directory was last opened. Those of the first directory include the log's I/O.
    #[must_use]
    pub fn directories(&self) -> &TierDirectories {
        self.directories.get()
    }

    /// Returns every directory this tier has used since the store was opened. There is more than
    /// one if the tier failed and was reopened in another directory.
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

    /// Returns the store's epochs, which determine when an unreachable object has no more readers.
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

    /// Returns a copy of the superblock of the durable generation.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().durable().clone()
    }

    /// Returns default options for a node writer: the store's page size, no compression, tier 0,
    /// and the generation under construction as birth generation.
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

    /// Returns a writer for nodes. The nodes become part of the store when the caller installs the
    /// extents returned by the writer.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned) after an earlier failed write or sync;
    /// [`Error::BadOption`](crate::Error::BadOption) if the store has no such tier.
    ///
    /// # Panics
    /// If the page size in the options is not that of the store.
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

    /// Reclaims a bounded amount of space: makes freed extents reusable, and returns free space to
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

    /// Makes space for a log segment on a full file system by returning free space of the data
    /// files to it. Only space that requests of this allocation class may use is returned. Returns
    /// whether this made enough space for a segment, in which case the caller may retry the log
    /// allocation.
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

    /// Returns an error if the store refuses changes because of an earlier failure.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] with the cause of the first failure.
    pub fn health(&self) -> Result<()> {
        self.health.check()
    }

    /// Checks that the store's first directory and the files needed to open the store still exist.
    /// If one was removed, the store refuses changes from now on, because they would be lost.
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
            // If a checkpoint has locked the superblock, skip the check, because the checkpoint
            // itself will notice the removal.
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

    /// Makes the store refuse further changes if `result` is a device failure, and returns `result`
    /// unchanged. The caller must pass the result of each change it makes through
    /// [`Store::extents`], [`Store::log`] or a node writer.
    ///
    /// # Errors
    /// The error in `result`, if any.
    pub fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        self.health.poison_on_error(result)
    }

    /// Returns the space used by the extents and by the log.
    #[must_use]
    pub fn usage(&self) -> (ExtentUsage, LogUsage) {
        (self.extents.usage(), self.log.usage())
    }

    /// Verifies the superblock, the extents and their map, and the log. Returns one sentence for
    /// each violation. `reachable` must list every extent reachable from the payload, with its
    /// reference count. Trees and allocated space must not change during the check, but reads and
    /// log appends may continue. The cache has a check of its own, [`NodeCache::check`], which
    /// allows neither.
    ///
    /// # Errors
    /// None at present, because unreadable data is reported as a violation.
    pub fn check(&self, reachable: impl Iterator<Item = (Extent, u32)>) -> Result<Vec<String>> {
        Ok(self.check_counted(reachable).0)
    }

    /// Like [`Store::check`], but also returns how many log segments and log bytes were read.
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

    /// Closes the store: syncs the log, marks it as closed so that the next opening detects any
    /// damage to it, and releases the directory locks. Remaining references to the store must not
    /// be used afterwards.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] after an earlier failed write or sync; I/O errors.
    pub fn close(&self) -> Result<()> {
        self.health.check()?;
        self.log.clone().close()?;
        self.locks.lock().clear();
        Ok(())
    }
}

impl StoreOpening {
    /// Returns the superblock of the generation being opened.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.superblock.durable()
    }

    /// Returns the data files, from which the caller can read the nodes that the payload points to.
    #[must_use]
    pub fn tiers(&self) -> &Arc<TierFiles> {
        &self.tiers
    }

    /// Returns why the extent map cannot be read, or `None` if it is intact. A damaged map can be
    /// rebuilt with [`StoreOpening::rebuild_map`] from the extents reachable from the payload.
    /// Until then, [`StoreOpening::replay`] and [`StoreOpening::repair`] fail.
    #[must_use]
    pub fn map_damage(&self) -> Option<&crate::Error> {
        self.extents.as_ref().err()
    }

    /// Rebuilds the extent map from `reached`, which must list all extents reachable from the
    /// payload. The next checkpoint makes the rebuilt map durable.
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

    /// Replays the log and opens the store. Records above the superblock's cut are passed to
    /// `replay` in sequence order.
    ///
    /// # Errors
    /// [`crate::Error::OlderGeneration`] if the log names a newer generation than the superblock;
    /// [`crate::Error::Corrupt`] if a log record that was acknowledged as synced is damaged; errors
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
        // A crash may have interrupted the last checkpoint after it wrote the superblock, so repeat
        // the remaining steps (K3).
        match log.note_generation(generation) {
            Ok(()) => {
                extents.made_durable(generation);
                log.release(cut)?;
            }
            // The disk is full. Nothing may be freed until the log names the generation, so the
            // next checkpoint does both.
            Err(error) if error.is_full() => {}
            Err(error) => return Err(error),
        }
        Store::assemble(directories, locks, superblock, tiers, extents, log, &options)
    }

    /// Opens as much of a damaged store as possible. Every valid log record above the superblock's
    /// cut is replayed; damaged parts of the log are skipped and reported. If the log names a newer
    /// superblock that cannot be read, the older one is accepted, and the changes of the newer one
    /// are lost. Finally, a checkpoint is written so that [`Store::open`] succeeds from now on. No
    /// other operation skips damage. Copy the store's files before calling this function.
    ///
    /// Nodes are not read, so damage to them goes undetected. To find it, traverse the nodes
    /// reachable from the payload and pass their extents to [`Store::check`].
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
        // The next generation must be higher than every generation named on disk. Otherwise a
        // leftover superblock or log record could appear newer than the repaired store.
        store
            .building
            .fetch_max(report.named_generation + 1, Ordering::AcqRel);
        store.begin_checkpoint()?.finish(&durable.payload, durable.cut)?;
        Ok((store, report))
    }
}

/// Fills in the total size of the store's files if the log's segment size depends on it, and
/// returns the log options.
fn sized(log: LogOptions, directories: &TierDirectories) -> LogOptions {
    if !log.starts_small {
        return log;
    }
    let stored = |directory: &Arc<dyn Directory>| -> u64 {
        let names = directory.list().unwrap_or_default();
        let files = names.iter().filter(|name| !crate::log::is_segment(name));
        // Skip files that cannot be opened. They do not belong to the store, or the store will
        // detect their damage when it uses them.
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

/// Number of a new store's first generation.
const FIRST_GENERATION: u64 = 1;
