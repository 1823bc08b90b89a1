//! Options for opening a store. The defaults suit any machine.

use crate::error::{Error, Result};
use crate::options::Durability;
use crate::options::machine::{self, MIN_MEMORY};
use crate::options::operators::RegisteredOperator;
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

/// Size of a simulated store's record cache in bytes, on top of the memory that its scale
/// specifies.
const SIMULATED_RECORDS: u64 = 256 * KIB;

/// A clock that returns the current time in milliseconds since 1970.
pub(crate) type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Options for opening a store. Every option has a default.
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
    /// Whether to use the device profile measured and stored in the store's directory.
    pub(crate) takes_measured: bool,
    pub(crate) workers: Option<usize>,
    pub(crate) log_limit: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) fast_bytes: Option<u64>,
    pub(crate) copy_hot: u64,
    pub(crate) records: Option<u64>,
    pub(crate) background: BackgroundLimits,
    pub(crate) keep_log: u64,
    pub(crate) operators: Vec<RegisteredOperator>,
    pub(crate) filters: Vec<(String, Arc<dyn CompactionFilter>)>,
    pub(crate) clock: WallClock,
    pub(crate) scale: Option<StoreScale>,
    pub(crate) mode: OpenMode,
    /// Directories and options of the tiers after the first, as passed by the program.
    pub(crate) tiers: Vec<(PathBuf, TierOptions)>,
    /// Maximum size in bytes of each tier after the first, in tier order.
    pub(crate) tier_limits: Vec<Option<u64>>,
}

/// Whether opening may create a store, and whether the store may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpenMode {
    /// Opens the store. Creates one if the directory is empty or does not exist.
    #[default]
    OpenOrCreate,
    /// Opens an existing store. Fails if there is none.
    Existing,
    /// Creates a store. Fails unless the directory is empty or does not exist.
    New,
    /// Opens an existing store read-only: see [`Db::open_read_only`](crate::Db::open_read_only). No
    /// background threads run, and no file in the store's directory is changed.
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
    /// Returns the default options. Some defaults depend on the machine.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets the memory limit of the store in bytes. The limit includes all caches and buffers, and
    /// must be at least 16 MiB. Default: a quarter of the machine's memory, or half of the
    /// container's memory if that is less. In a container with less than 128 MiB, the default is
    /// less than half.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Options {
        self.memory = Some(bytes);
        self
    }

    /// Sets the durability of commits for which the program specifies none. Default:
    /// [`Durability::Process`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Sets the maximum time after which a commit with [`Durability::Process`] is synced. Default:
    /// one second.
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

    /// Sets the cost profile of the device. [`devices`](crate::options::devices) contains profiles
    /// of common device types. The profile may change each time the store is opened. Default:
    /// [`DeviceProfile::SSD`].
    ///
    /// The setup time and the time per byte determine the size of new leaves and, with the
    /// processor time, when a frequently read leaf is rewritten. The parallelism determines how
    /// many reads of 256 KiB each scans and compactions keep in flight.
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
    /// stores its measurements. Opening the store fails if the file is missing or damaged, or if it
    /// shows that a cache was measured instead of the device. A later call of [`Options::device`]
    /// overrides this option.
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
    /// processors, but at least one and at most four. The store has a few more threads, which
    /// mostly wait for the device. With zero, no background threads run: background work is left to
    /// [`Db::work`](crate::Db::work) and to writers that would otherwise stall.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Options {
        self.workers = Some(workers);
        self
    }

    /// Sets the log size in bytes that triggers a checkpoint, which bounds recovery time after a
    /// crash. Default: the size of four memtables.
    #[must_use]
    pub fn log_limit(mut self, bytes: u64) -> Options {
        self.log_limit = Some(bytes);
        self
    }

    /// Sets how many bytes of log are retained for [`Db::changes_since`](crate::Db::changes_since)
    /// while the store is open, beyond what recovery needs. Default: zero.
    #[must_use]
    pub fn keep_log(mut self, bytes: u64) -> Options {
        self.keep_log = bytes;
        self
    }

    /// Sets the maximum size in bytes of the data on disk. In a store with several tiers, the limit
    /// applies to the data in the first directory. Default: the size of the disk.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Options {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the size in bytes of the record cache, which stores single records that are read often.
    /// Zero disables it. By default, the size adapts to the workload, starting with an eighth of
    /// the cache memory.
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

    /// Registers a merge operator, so that keyspaces can refer to it by name. If a keyspace uses
    /// the operator, the store cannot be opened without registering it.
    #[must_use]
    pub fn register_merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Options {
        let is_commutative = false;
        self.operators.push(RegisteredOperator {
            operator,
            is_commutative,
        });
        self
    }

    /// Like [`Options::register_merge_operator`], for an operator whose result is the same in
    /// whichever order operands are merged: `a ∘ b = b ∘ a`. Transactions that merge into a key
    /// without reading it do not conflict with each other. The built-in operators `add`, `minimum`
    /// and `maximum` are commutative.
    #[must_use]
    pub fn register_commutative_merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Options {
        let is_commutative = true;
        self.operators.push(RegisteredOperator {
            operator,
            is_commutative,
        });
        self
    }

    /// Registers a compaction filter, so that keyspaces can refer to it by name. If a keyspace uses
    /// the filter, the store cannot be opened without registering it.
    #[must_use]
    pub fn register_compaction_filter(mut self, name: &str, filter: Arc<dyn CompactionFilter>) -> Options {
        self.filters.push((name.to_owned(), filter));
        self
    }

    /// Sets whether the store must exist, must not exist, or is opened read-only. Default:
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

    /// Returns the part sizes of a store with this memory limit.
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
        // The reserve guarantees that a store on a full disk still has the space to flush its
        // memory, accept deletes, and compact. Even the smallest write allocates a few units of
        // space.
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

/// Lower bound, in bytes, for the memtable size used to compute the space reserve. With smaller
/// memtables, the reserve is computed as if they had this size.
const LEAST_RESERVED: u64 = 2 * MIB;

/// Whether the store must already exist, must not exist, or may be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistencePolicy {
    Open,
    Create,
    OpenOrCreate,
    /// The store must already exist, and none of its files is changed.
    ReadOnly,
}

/// How the record cache's share of cache memory is determined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RecordShare {
    /// The store divides cache memory between the page cache and the record cache to save the most
    /// device reads.
    Balanced,
    /// The program has set a fixed size in bytes.
    Bytes(u64),
    /// Applied advice has set a fixed share of the total size of both caches.
    Fixed(f64),
}

/// The settings of a store, derived from its options and the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedOptions {
    pub(crate) scale: StoreScale,
    /// Memory limit of the whole store, in bytes; zero for a simulated store.
    pub(crate) memory: u64,
    /// Size of the record cache in bytes.
    pub(crate) records: u64,
    /// How the size of the record cache is determined.
    pub(crate) record_share: RecordShare,
    pub(crate) page_size: PageSize,
    /// Cost profile of the device.
    pub(crate) device: DeviceProfile,
    pub(crate) workers: usize,
}

const _: () = assert!(MIN_MEMORY / 16 >= 64 * KIB, "a memtable has its least size");
