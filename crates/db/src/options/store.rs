//! Options for opening a store. The defaults suit any machine.

use crate::error::{Error, Result};
use crate::options::Durability;
use crate::options::machine::{self, MIN_MEMORY};
use crate::options::scale::StoreScale;
use crate::options::{BackgroundLimits, TierOptions};
use alluvium_base::{DeviceProfile, KIB, MIB};
use alluvium_dictionary::merge::{CompactionFilter, MergeOperator};
use alluvium_model::structures::{MemoryDivision, TieredSettings};
use alluvium_storage::PageSize;
use alluvium_storage::extents::ExtentOptions;
use alluvium_storage::log::LogOptions;
use alluvium_trees::levels::FilterSource;
use alluvium_trees::tiered::TrunkShape;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Size of the record cache in a simulation, in bytes, in addition to the memory of its scale.
const SIMULATED_RECORDS: u64 = 256 * KIB;

/// Returns the current time in milliseconds since 1970.
pub(crate) type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Options for opening a store. Each has a default.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// use alluvium::{Durability, Options};
/// let db = Options::new().memory(64 << 20).durability(Durability::Disk).open(&path)?;
/// # drop(db);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) memory: Option<u64>,
    pub(crate) durability: Durability,
    pub(crate) sync_interval: Duration,
    pub(crate) page_size: Option<u32>,
    pub(crate) device: DeviceProfile,
    /// Whether the device profile is read from the stored measurement.
    pub(crate) takes_measured: bool,
    pub(crate) workers: Option<usize>,
    pub(crate) log_limit: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) fast_bytes: Option<u64>,
    pub(crate) copy_hot: u64,
    pub(crate) records: Option<u64>,
    pub(crate) background: BackgroundLimits,
    pub(crate) keep_log: u64,
    pub(crate) operators: Vec<Arc<dyn MergeOperator>>,
    pub(crate) filters: Vec<(String, Arc<dyn CompactionFilter>)>,
    pub(crate) clock: WallClock,
    pub(crate) scale: Option<StoreScale>,
    pub(crate) mode: OpenMode,
    /// Directories and options of the further tiers, as given by the program.
    pub(crate) tiers: Vec<(PathBuf, TierOptions)>,
    /// Maximum number of bytes of each further tier, in the order of the tiers.
    pub(crate) tier_limits: Vec<Option<u64>>,
}

/// Whether the store must already exist when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpenMode {
    /// Opens the store, or creates one if the directory is empty or does not exist.
    #[default]
    OpenOrCreate,
    /// Opens an existing store, and creates nothing.
    Existing,
    /// Creates a store in a directory that is empty or does not exist.
    New,
    /// Opens an existing store for reading only: see
    /// [`Db::open_read_only`](crate::Db::open_read_only). No background threads run, and no file in
    /// its directory changes.
    ReadOnly,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("memory", &self.memory)
            .field("durability", &self.durability)
            .field("sync_interval", &self.sync_interval)
            .field("page_size", &self.page_size)
            .field("device", &self.device)
            .field("workers", &self.workers)
            .field("log_limit", &self.log_limit)
            .field("max_bytes", &self.max_bytes)
            .field("fast_bytes", &self.fast_bytes)
            .field("copy_hot", &self.copy_hot)
            .field("records", &self.records)
            .field("background", &self.background)
            .field("keep_log", &self.keep_log)
            .field("operators", &self.operators)
            .field("filters", &self.filters)
            .field("mode", &self.mode)
            .field("tiers", &self.tiers)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: None,
            durability: Durability::default(),
            sync_interval: Duration::from_secs(1),
            page_size: None,
            device: DeviceProfile::default(),
            takes_measured: false,
            workers: None,
            log_limit: None,
            max_bytes: None,
            fast_bytes: None,
            copy_hot: 0,
            records: None,
            background: BackgroundLimits::default(),
            keep_log: 0,
            operators: Vec::new(),
            filters: Vec::new(),
            clock: Arc::new(machine::now_ms),
            scale: None,
            mode: OpenMode::default(),
            tiers: Vec::new(),
            tier_limits: Vec::new(),
        }
    }
}

impl Options {
    /// Returns the defaults, some of which depend on the machine.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets the memory limit of the store in bytes, which includes all caches and buffers; at least
    /// 16 MiB. Default: a quarter of the machine's memory, or half of the container's if that is
    /// less (a smaller share of a container below 128 MiB).
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Options {
        self.memory = Some(bytes);
        self
    }

    /// Sets the durability of commits that do not choose their own. Default:
    /// [`Durability::Process`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Sets how long a commit at [`Durability::Process`] may stay unsynced. Default: one second.
    #[must_use]
    pub fn sync_interval(mut self, interval: Duration) -> Options {
        self.sync_interval = interval;
        self
    }

    /// Sets the page size of a new store in bytes, a power of two from 4 to 64 KiB. Default: 4 KiB.
    #[must_use]
    pub fn page_size(mut self, bytes: u32) -> Options {
        self.page_size = Some(bytes);
        self
    }

    /// Sets the cost model of the device: [`devices`](crate::options::devices) has profiles for
    /// kinds of devices. Default: [`DeviceProfile::SSD`]. The profile may change between openings.
    ///
    /// The setup time and the time per byte determine the size of new leaves. Together with the
    /// processor time they determine when a leaf that is looked up often is rewritten. The
    /// parallelism determines how many reads of 256 KiB scans and compactions keep in flight.
    ///
    /// ```
    /// use alluvium::{DeviceProfile, Options, devices};
    /// let disk = DeviceProfile { setup_ns: 12_000_000, ..devices::HARD_DISK };
    /// let options = Options::new().device(disk);
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn device(mut self, profile: DeviceProfile) -> Options {
        self.device = profile;
        self.takes_measured = false;
        self
    }

    /// Reads the device profile from `probe.txt` in the store's directory, where `alluvium probe`
    /// stores its measurements. Opening fails if the file is missing or damaged, or if it records
    /// that a cache answered in place of the device. A later call of [`Options::device`] overrides
    /// this.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// use alluvium::{ErrorKind, Options};
    /// let unmeasured = Options::new().measured_device().open(&path).unwrap_err();
    /// assert_eq!(unmeasured.kind(), ErrorKind::InvalidArgument);
    /// assert!(unmeasured.to_string().contains("alluvium probe"));
    /// ```
    #[must_use]
    pub fn measured_device(mut self) -> Options {
        self.takes_measured = true;
        self
    }

    /// Sets how many background threads may use a processor at the same time. Default: half of the
    /// processors, from one to four. A few more threads exist, which mostly wait for the device.
    /// With zero, background work is done by [`Db::work`](crate::Db::work), and by writers that
    /// would otherwise stall.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Options {
        self.workers = Some(workers);
        self
    }

    /// Sets how many bytes of log may accumulate before a checkpoint, which bounds the recovery
    /// time after a crash. Default: the size of four memtables.
    #[must_use]
    pub fn log_limit(mut self, bytes: u64) -> Options {
        self.log_limit = Some(bytes);
        self
    }

    /// Sets how many bytes of log are retained for [`Db::changes_since`](crate::Db::changes_since)
    /// beyond what recovery needs, while the store is open. Default: zero.
    #[must_use]
    pub fn keep_log(mut self, bytes: u64) -> Options {
        self.keep_log = bytes;
        self
    }

    /// Sets the maximum size of the data on disk in bytes; with several tiers, of the data in the
    /// first directory. Default: the size of the disk.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Options {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the size of the record cache in bytes, which holds single records that are read often;
    /// zero disables it. Default: adaptive, starting with an eighth of the cache memory.
    #[must_use]
    pub fn record_memory(mut self, bytes: u64) -> Options {
        self.records = Some(bytes);
        self
    }

    /// Limits the device bandwidth and processor time of background work. Default: no limits.
    #[must_use]
    pub fn background(mut self, caps: BackgroundLimits) -> Options {
        self.background = caps;
        self
    }

    /// Registers a merge operator, which keyspaces choose by name. A store whose keyspaces use it
    /// cannot be opened without it.
    #[must_use]
    pub fn register_merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Options {
        self.operators.push(operator);
        self
    }

    /// Registers a compaction filter, which keyspaces choose by name. A store whose keyspaces use
    /// it cannot be opened without it.
    #[must_use]
    pub fn register_compaction_filter(mut self, name: &str, filter: Arc<dyn CompactionFilter>) -> Options {
        self.filters.push((name.to_owned(), filter));
        self
    }

    /// Sets whether the store must exist, must not exist, or is only read. Default:
    /// [`OpenMode::OpenOrCreate`].
    #[must_use]
    pub fn mode(mut self, mode: OpenMode) -> Options {
        self.mode = mode;
        self
    }

    pub(crate) fn plan(&self) -> Result<ResolvedOptions> {
        self.background.check()?;
        let page_size = match self.page_size {
            None => PageSize::default(),
            Some(bytes) => PageSize::new(bytes)?,
        };
        let workers = self.workers.unwrap_or_else(machine::workers);
        let mut scale = match self.scale {
            Some(scale) => scale,
            None => self.scale()?,
        };
        self.plan_tiers(&mut scale.extents);
        let records = match (self.records, self.scale) {
            (Some(records), _) => records,
            (None, Some(_)) => SIMULATED_RECORDS,
            (None, None) => (scale.cache as f64 * TieredSettings::USUAL.records_share) as u64,
        };
        if self.scale.is_none() {
            if records > scale.cache / 4 * 3 {
                let why = format!(
                    "{records} bytes exceeds three quarters of the {} bytes for caches: lower it, or raise the memory",
                    scale.cache
                );
                return Err(Error::BadOption {
                    option: "record memory",
                    why,
                });
            }
            scale.cache -= records;
        }
        Ok(ResolvedOptions {
            scale,
            memory: if self.scale.is_some() { 0 } else { self.total() },
            records,
            record_share: match (self.records, self.scale) {
                (None, None) => RecordShare::Balanced,
                _ => RecordShare::Bytes(records),
            },
            page_size,
            device: self.device,
            workers,
        })
    }

    /// Returns the memory limit of the whole store, in bytes.
    fn total(&self) -> u64 {
        self.memory.unwrap_or_else(machine::default_memory)
    }

    /// Returns the sizes of a store with this memory limit.
    fn scale(&self) -> Result<StoreScale> {
        let bad = |option, why| Err(Error::BadOption { option, why });
        let memory = self.total();
        if memory < MIN_MEMORY {
            return bad(
                "memory",
                format!("{memory} bytes is below the minimum of {MIN_MEMORY}"),
            );
        }
        let cut = MemoryDivision::of(memory, self.log_limit);
        let (memtable, log) = (cut.memtable_bytes, cut.log_bytes);
        if log < 2 * memtable {
            let why = format!(
                "{log} bytes is below the minimum of {}, which is two memtables",
                2 * memtable
            );
            return bad("log limit", why);
        }
        // On a full disk the reserve still has space to flush memory, to accept deletes, and to
        // compact. Even the smallest write allocates a few units of space.
        let reserve = 6 * memtable.max(LEAST_RESERVED);
        Ok(StoreScale {
            id: fastrand::u128(..),
            memtable,
            cache: cut.cache_bytes,
            log: LogOptions {
                starts_small: true,
                ..LogOptions::with_limit(log)
            },
            extents: ExtentOptions {
                max_bytes: self.max_bytes,
                min_reserve: reserve,
                max_reserve: reserve.max(ExtentOptions::default().max_reserve),
                starts_small: true,
                ..ExtentOptions::default()
            },
            shape: TrunkShape {
                memtable,
                ..TrunkShape::default()
            },
            filters: FilterSource::default(),
        })
    }
}

/// Lower bound of the memtable size in the computation of the reserve, in bytes.
const LEAST_RESERVED: u64 = 2 * MIB;

/// Whether the store must already exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistencePolicy {
    Open,
    Create,
    OpenOrCreate,
    /// The store must exist, and none of its files changes.
    ReadOnly,
}

/// Policy that determines the record cache's share of cache memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RecordShare {
    /// The store balances the caches so that they save the most reads.
    Balanced,
    /// A fixed size in bytes, set by the program.
    Bytes(u64),
    /// A fixed share of the total size of both caches, set by applied advice.
    Fixed(f64),
}

/// The options as resolved for this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedOptions {
    pub(crate) scale: StoreScale,
    /// Memory limit of the whole store, in bytes; zero in simulations.
    pub(crate) memory: u64,
    /// Size of the record cache in bytes.
    pub(crate) records: u64,
    /// Policy that determines the size of the record cache.
    pub(crate) record_share: RecordShare,
    pub(crate) page_size: PageSize,
    /// Cost model of the device.
    pub(crate) device: DeviceProfile,
    pub(crate) workers: usize,
}

const _: () = assert!(MIN_MEMORY / 16 >= 64 * KIB, "a memtable has its least size");
