//! The store: all parts of this crate behind one interface, in the order that keeps it whole.
//!
//! *Knows*: what is created, opened, made durable and reclaimed in which order, and when the store
//! refuses changes.
//!
//! *Does not know*: what a node, a payload or a log record means.
//!
//! *Read in this order*: `options.rs`, this file (creation, opening), `checkpoint.rs` (the
//! barriers), `adding.rs` (a further tier), `copy.rs` (a copy elsewhere), `space.rs` (what tiers
//! have space for), `copies.rs` (copies of what is read often),
//! `failing.rs` (tiers that fail, and their return), `health.rs`.
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
//! Invariants, beside those of the parts and S1 to S6 of the crate:
//!
//! - **K1** Steps 3 to 7 of a checkpoint run in this order, and nothing of step 7 is done unless
//!   step 6 was.
//! - **K2** A full disk aborts a checkpoint at whatever step it shows, and nothing is given free
//!   (K1). Up to step 5 the generation before stays the durable one; its superblock is not touched
//!   (P1), and should a crash leave a copy of the new one, that is whole, since all that it reaches
//!   was synced. At step 6 the new one is durable, and only the log does not name it yet.
//!   [`Store::superblock`] tells which it is, and the next checkpoint makes up for it. Any other
//!   failure of a write or a sync makes the store refuse changes (S6).
//! - **K3** Opening ends with what a checkpoint's steps 6 and 7 may have missed, so that a crash
//!   between 5 and 7 leaks nothing.
//! - **K4** What a copy reads is neither used again nor overwritten before it is done, and the
//!   target has a superblock only once all else is durable.

mod adding;
mod checkpoint;
mod copies;
mod copy;
mod failing;
mod health;
mod options;
mod space;
#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use copy::{Beside, Copied, Copy, Kept};
pub use options::{CacheMemory, StoreOptions};
pub use space::TierSpace;

use crate::cache::Cache;
use crate::epoch::Epochs;
use crate::extents::{Class, Extent, Extents, Reached, ReclaimLimit, Reclaimed, Usage};
use crate::log::{Log, LogOptions, LogUsage, Record, RepairReport};
use crate::node::{NodeWriter, WriterOptions, tier_file};
use crate::superblock::{self, MAX_PAYLOAD, Superblock, SuperblockFile};
use crate::tiers::{Damaged, Newest};
use crate::{Codec, Directories, PageSize, Result, Tiers};
use alluvium_base::{DeviceProfile, Purpose};
use alluvium_device::{Access, Directory, FileOptions, Lock};
use health::Health;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The name of the lock file.
pub const LOCK_FILE: &str = "LOCK";

/// A store that is open for reading and writing. All methods may be called from any thread.
#[derive(Debug)]
pub struct Store {
    /// As they were when the store was opened, and after each change since: a tier was added, or
    /// opened once more.
    directories: Newest<Directories>,
    tiers: Arc<Tiers>,
    extents: Arc<Extents>,
    cache: Cache,
    log: Log,
    epochs: Epochs,
    superblock: Mutex<SuperblockFile>,
    /// The generation that is being built: the birth of nodes written now.
    building: AtomicU64,
    /// The tiers that take no new extents, a bit each.
    closed_tiers: AtomicU8,
    health: Health,
    page_size: PageSize,
    cache_memory: CacheMemory,
    device: DeviceProfile,
    /// Given back last, when everything else is closed.
    locks: Mutex<Vec<Lock>>,
}

/// What [`Store::open`] found in the superblock, before the log is replayed.
#[derive(Debug)]
pub struct Opening {
    directories: Directories,
    locks: Vec<Lock>,
    superblock: SuperblockFile,
    tiers: Arc<Tiers>,
    extents: Result<Extents>,
    options: StoreOptions,
}

impl Store {
    /// Returns the space on the file system that the first directory lies on.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn disk_space(&self) -> Result<alluvium_device::Space> {
        Ok(self.directory().space()?)
    }

    /// Creates a store in a directory that holds none, or in several, one for each tier, with a
    /// first generation that keeps `payload`.
    ///
    /// A crash meanwhile leaves no store: creating it again starts from the beginning.
    ///
    /// # Errors
    /// [`crate::Error::StoreExists`]; [`crate::Error::NotAStore`] when files of a store are there
    /// without its superblock; [`crate::Error::WrongTier`] when a further directory is not empty;
    /// `Locked` when another process is creating or using it; [`crate::Error::BadOption`]; or as
    /// the device says.
    ///
    /// # Panics
    /// When the payload is longer than [`MAX_PAYLOAD`].
    pub fn create(
        directories: impl Into<Directories>,
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
        let tiers = Arc::new(Tiers::create(&refs(&directories))?);
        let extents = Extents::create(Arc::clone(&tiers), options.extents)?;
        let map = extents.write_map(first, extents.freeze(FIRST_GENERATION))?;
        let log = Log::create(first, options.log, FIRST_GENERATION)?;
        // Every name is durable before the superblock has its own (P4, T2).
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

    /// Begins to open a store: locks its directories and reads its newest superblock and its extent
    /// map. [`Opening::replay`] does the rest.
    ///
    /// # Errors
    /// [`crate::Error::NotAStore`]; [`crate::Error::BadOption`] when it has another number of
    /// tiers; [`crate::Error::WrongTier`] when a directory holds something else; `Locked`,
    /// `PermissionDenied`, [`crate::Error::NewerFormat`], [`crate::Error::Corrupt`], or as the
    /// device says.
    pub fn open(directories: impl Into<Directories>, options: &StoreOptions) -> Result<Opening> {
        let opening = Self::begin(directories.into(), options, None, Damaged::Refused)?;
        match opening.extents {
            Err(damage) => Err(damage),
            Ok(_) => Ok(opening),
        }
    }

    /// As [`Store::open`], whether or not the extent map is sound: see [`Opening::map_damage`]. The
    /// damaged mark of a tier is written again.
    ///
    /// # Errors
    /// As [`Store::open`], but for a damaged map or mark.
    pub fn open_without_map(directories: impl Into<Directories>, options: &StoreOptions) -> Result<Opening> {
        Self::begin(directories.into(), options, None, Damaged::Mended)
    }

    /// As [`Store::open_without_map`], but of a generation before `than`, for [`Opening::repair`]
    /// alone.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_older(
        directories: impl Into<Directories>,
        options: &StoreOptions,
        than: u64,
    ) -> Result<Opening> {
        Self::begin(directories.into(), options, Some(than), Damaged::Mended)
    }

    fn begin(
        directories: Directories,
        options: &StoreOptions,
        than: Option<u64>,
        damaged: Damaged,
    ) -> Result<Opening> {
        directories.validate()?;
        let first = &Arc::clone(directories.first());
        superblock::require(&**first)?;
        // The further ones once they are known to belong to it: nothing is created in others.
        let mut locks = vec![first.lock(LOCK_FILE)?];
        let superblock = match than {
            None => SuperblockFile::open(&**first, Access::ReadWrite)?,
            Some(than) => SuperblockFile::open_older(&**first, Access::ReadWrite, than)?,
        };
        let durable = superblock.durable();
        let directories = match than {
            // It may be from before a tier was added.
            Some(_) => directories.first_ones(usize::from(durable.tiers)),
            None => directories,
        };
        directories.require_count(durable.tiers)?;
        if damaged == Damaged::Refused {
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
        let tiers = Arc::new(Tiers::open(&refs(&directories), FileOptions::DIRECT)?);
        let extents = Extents::open(first, Arc::clone(&tiers), &durable.map, options.extents);
        let extents = match extents {
            Err(damage @ crate::Error::Corrupt { .. }) => Err(damage),
            other => Ok(other?),
        };
        Ok(Opening {
            directories,
            locks,
            superblock,
            tiers,
            extents,
            options,
        })
    }

    fn assemble(
        directories: Directories,
        locks: Vec<Lock>,
        superblock: SuperblockFile,
        tiers: Arc<Tiers>,
        extents: Extents,
        log: Log,
        options: &StoreOptions,
    ) -> Result<Store> {
        assert_eq!(
            usize::from(superblock.durable().tiers),
            tiers.count(),
            "the superblock says how many tiers there are (T1)"
        );
        assert_eq!(locks.len(), tiers.count(), "the directory of each tier is locked");
        let epochs = Epochs::new();
        let cache = Cache::new(
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
            directories: Newest::new(directories),
            tiers,
            extents: Arc::new(extents),
            cache,
            log,
            epochs,
            superblock: Mutex::new(superblock),
            building,
            closed_tiers: AtomicU8::new(0),
            health: Health::default(),
            page_size: options.page_size,
            cache_memory: options.cache_memory,
            device: options.device,
            locks: Mutex::new(locks),
        })
    }

    /// Returns the page size.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// What the device costs, as the options say.
    #[must_use]
    pub fn device(&self) -> &DeviceProfile {
        &self.device
    }

    /// Returns the first directory: that of tier 0, the superblock and the log.
    #[must_use]
    pub fn directory(&self) -> &Arc<dyn Directory> {
        self.directories().first()
    }

    /// Returns the directories of the tiers. The counters of each say what its tier has read and
    /// written, since it was opened last; those of the first include the log.
    #[must_use]
    pub fn directories(&self) -> &Directories {
        self.directories.get()
    }

    /// Returns the directories through which a tier was read and written since the store was
    /// opened: it has another one after it had failed and was opened elsewhere.
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

    /// Who may still see what was unlinked.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Returns the cache.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the extents.
    #[must_use]
    pub fn extents(&self) -> &Arc<Extents> {
        &self.extents
    }

    /// Returns the log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the data files.
    #[must_use]
    pub fn tiers(&self) -> &Arc<Tiers> {
        &self.tiers
    }

    /// Returns the durable superblock.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().durable().clone()
    }

    /// Returns the usual options of a writer: this store's page size, uncompressed, on tier 0, born
    /// in the generation being built.
    #[must_use]
    pub fn writer_options(&self, purpose: Purpose, class: Class) -> WriterOptions {
        WriterOptions {
            tier: 0,
            page_size: self.page_size,
            codec: Codec::None,
            birth: self.building.load(Ordering::Acquire),
            purpose,
            class,
            extent_units: WriterOptions::EXTENT_UNITS,
        }
    }

    /// Returns a writer of nodes. What it has written belongs to the store once its extents are
    /// installed.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned) after an earlier failure;
    /// [`Error::BadOption`](crate::Error::BadOption) when the store has no such tier.
    ///
    /// # Panics
    /// When the page size is not the store's.
    pub fn node_writer(&self, options: WriterOptions) -> Result<NodeWriter> {
        assert_eq!(options.page_size, self.page_size, "one page size per store");
        self.health.check()?;
        if usize::from(options.tier) >= self.tiers.count() {
            let why = format!("the store has tiers 0 to {}", self.tiers.count() - 1);
            return Err(crate::Error::BadOption { option: "tier", why });
        }
        Ok(NodeWriter::new(
            Arc::clone(&self.extents),
            Arc::clone(&self.tiers),
            options,
        ))
    }

    /// One slice of making freed space usable again and giving it back to the file system (S4).
    ///
    /// # Errors
    /// As the device says.
    pub fn reclaim(&self, limit: ReclaimLimit) -> Result<Reclaimed> {
        self.health.check()?;
        self.epochs.try_advance();
        self.health.judge(self.extents.reclaim(self.epochs.safe(), limit))
    }

    /// On a full file system: gives the space of a segment of the log back to it, out of what is
    /// free in the data files and open to this class. Returns whether there was as much. The log
    /// may take it now.
    ///
    /// # Errors
    /// As the device says.
    pub fn make_log_space(&self, class: Class) -> Result<bool> {
        let wanted = self.log.segment_bytes();
        Ok(self.health.judge(self.extents.surrender(wanted, class))? >= wanted)
    }

    /// Whether the store takes changes.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] with the failure since which it does not.
    pub fn health(&self) -> Result<()> {
        self.health.check()
    }

    /// Notices that the store's directory, or a file without which it cannot be opened again, was
    /// removed while it is open. From then on it refuses changes: they would be lost.
    ///
    /// # Errors
    /// [`crate::Error::Device`] with what was removed; [`crate::Error::Poisoned`] after an earlier
    /// failure.
    pub fn require_files(&self) -> Result<()> {
        self.health.check()?;
        let is_gone = self.directory().is_removed();
        let directory = is_gone.then(|| self.directory().describe());
        let data = || {
            let is_gone = self.tiers.get(0).is_ok_and(|file| file.is_removed());
            is_gone.then(|| tier_file(0))
        };
        let superblock = || {
            // A checkpoint that has it would fail as well.
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
                .judge(Err(alluvium_device::Error::Removed { file }.into())),
        }
    }

    /// Remembers a failure of a change that a caller made through [`Store::extents`],
    /// [`Store::log`] or a writer, and passes the result on.
    ///
    /// # Errors
    /// The result's own.
    pub fn judge<T>(&self, result: Result<T>) -> Result<T> {
        self.health.judge(result)
    }

    /// Returns what the store's structures occupy.
    #[must_use]
    pub fn usage(&self) -> (Usage, LogUsage) {
        (self.extents.usage(), self.log.usage())
    }

    /// Everything that is wrong with the superblock, the extents and their map, and the log, a
    /// sentence each. `reachable` names every extent that the payload reaches, and how often.
    /// Nothing may change the tree or the space meanwhile; reads and appends may go on, and for
    /// that [`Cache::check`] is apart.
    ///
    /// # Errors
    /// None at present: what cannot be read is reported, not returned.
    pub fn check(&self, reachable: impl Iterator<Item = (Extent, u32)>) -> Result<Vec<String>> {
        Ok(self.check_counted(reachable).0)
    }

    /// As [`Store::check`], and says how many segments of the log and how many of their bytes were
    /// read.
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

    /// Closes the store cleanly: the log is synced and marked, so that any damage to it is found at
    /// the next open, and others may open the store. Remaining handles neither read nor write any
    /// more.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] after an earlier failure, or as the device says.
    pub fn close(&self) -> Result<()> {
        self.health.check()?;
        self.log.clone().close()?;
        self.locks.lock().clear();
        Ok(())
    }
}

impl Opening {
    /// Returns the superblock that was found.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.superblock.durable()
    }

    /// Returns the data files, to read nodes that the payload names.
    #[must_use]
    pub fn tiers(&self) -> &Arc<Tiers> {
        &self.tiers
    }

    /// Returns what is wrong with the extent map, if it cannot be read. Nothing else is missing
    /// then: [`Opening::rebuild_map`] rebuilds it from what the payload reaches. Until that is
    /// done, neither of the two ways to go on works.
    #[must_use]
    pub fn map_damage(&self) -> Option<&crate::Error> {
        self.extents.as_ref().err()
    }

    /// Makes the extents out of what the payload reaches. They are on the disk once a generation
    /// was made durable.
    ///
    /// # Errors
    /// As [`Extents::rebuild`].
    pub fn rebuild_map(&mut self, reached: &[Reached]) -> Result<()> {
        let (tiers, generation) = (Arc::clone(&self.tiers), self.superblock.durable().generation);
        let directory = self.directories.first();
        let rebuilt = Extents::rebuild(directory, tiers, reached, generation, self.options.extents);
        self.extents = Ok(rebuilt?);
        Ok(())
    }

    /// Replays the log from the superblock's cut, in the order of the sequence numbers, and opens
    /// the store.
    ///
    /// # Errors
    /// [`crate::Error::OlderGeneration`] when the log has seen a newer superblock;
    /// [`crate::Error::Corrupt`] with the place of damage that was acknowledged as synced; what
    /// `replay` returns; or as the device says.
    pub fn replay(self, replay: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<Store> {
        let Opening {
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
        let log = Log::open(directories.first(), log, cut, generation, synced, replay)?;
        // A crash may have come between the superblock and what follows it in a checkpoint (K3).
        match log.note_generation(generation) {
            Ok(()) => {
                extents.made_durable(generation);
                log.release(cut)?;
            }
            // Nothing is given free before it is noted: the next checkpoint does both.
            Err(error) if error.is_full() => {}
            Err(error) => return Err(error),
        }
        Store::assemble(directories, locks, superblock, tiers, extents, log, &options)
    }

    /// Opens a damaged store as far as it goes: every sound record of the log above the
    /// superblock's cut is replayed, damage is skipped and reported, and an older superblock than
    /// the log names is accepted, which undoes what the newer one held. Ends with a new generation,
    /// so that the store opens strictly from then on. Nothing else ever skips damage; copy the
    /// files first.
    ///
    /// What the payload reaches is not looked at: walk it, and see `check`.
    ///
    /// # Errors
    /// [`NewerFormat`](crate::Error::NewerFormat), what `replay` returns, or as the device says.
    pub fn repair(self, replay: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<(Store, RepairReport)> {
        let Opening {
            directories,
            locks,
            superblock,
            tiers,
            extents,
            options,
        } = self;
        let extents = extents?;
        let durable = superblock.durable().clone();
        let (log, report) = Log::repair(
            directories.first(),
            sized(options.log, &directories),
            durable.cut,
            durable.generation,
            replay,
        )?;
        extents.made_durable(durable.generation);
        let store = Store::assemble(directories, locks, superblock, tiers, extents, log, &options)?;
        // Above every generation that anything names, so that none of them is newer than the
        // repaired store.
        store
            .building
            .fetch_max(report.named_generation + 1, Ordering::AcqRel);
        store.begin_checkpoint()?.finish(&durable.payload, durable.cut)?;
        Ok((store, report))
    }
}

/// Locks every directory, the first one first.
/// Returns the options of a log with what the store holds, as far as the lengths of its files say,
/// if that decides how long segments are.
fn sized(log: LogOptions, directories: &Directories) -> LogOptions {
    if !log.starts_small {
        return log;
    }
    let stored = |directory: &Arc<dyn Directory>| -> u64 {
        let names = directory.list().unwrap_or_default();
        let files = names.iter().filter(|name| !crate::log::is_segment(name));
        // What cannot be opened is no file of a store, or is found damaged elsewhere.
        let files = files.filter_map(|name| directory.open(name, FileOptions::BUFFERED.read_only()).ok());
        files.map(|file| file.len()).sum()
    };
    LogOptions {
        stored_bytes: directories.iter().map(stored).sum(),
        ..log
    }
}

fn lock_all(directories: &Directories) -> Result<Vec<Lock>> {
    let locks = directories.iter().map(|directory| Ok(directory.lock(LOCK_FILE)?));
    locks.collect()
}

fn refs(directories: &Directories) -> Vec<&dyn Directory> {
    directories.iter().map(|directory| &**directory).collect()
}

/// The generation that creation makes.
const FIRST_GENERATION: u64 = 1;
