//! An in-memory cache that any number of threads can use concurrently.

use super::bucket;
use super::content::CacheUsage;
use super::core::{TableCore, read};
use super::error::{Error, Result};
use super::item::NEVER;
use super::key::HashedKey;
use super::lossy::{ITEMS_PER_BUCKET, LossyOptions, LossyTable};
use super::many::{AccessCounting, get_many, set_many, table};
use super::memory::WORD;
use super::mode::Crcw;
use super::policy::CacheEviction;
use super::stats::TableStats;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Options of a [`Cache`]: its size and eviction policy.
///
/// ```
/// use alluvium_hashes::{Cache, CacheOptions};
/// use alluvium_hashes::mica::CacheEviction;
/// let options = CacheOptions { eviction: CacheEviction::Lru, ..CacheOptions::new(8 << 20) };
/// let cache = Cache::new(&options)?;
/// # Ok::<(), alluvium_hashes::mica::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// Maximum memory of the cache in bytes, including its index.
    pub bytes: usize,
    /// Average total length of a key and its value, in bytes, which determines the size of the
    /// index. If items are much shorter on average, the index is too small for them, and items are
    /// evicted although the log has free memory.
    pub item_bytes: usize,
    /// Number of partitions. Each has its own log and latch, so two threads that write to the same
    /// partition wait for each other. An item may be as large as a sixteenth of a partition.
    pub partitions: usize,
    pub eviction: CacheEviction,
    /// Hash seed for keys. If it is random, clients cannot choose keys that collide.
    pub seed: u64,
}

impl CacheOptions {
    /// Returns the options of a cache of `bytes` bytes for items of 256 bytes on average, with 8
    /// partitions and S3-FIFO eviction.
    #[must_use]
    pub fn new(bytes: usize) -> CacheOptions {
        CacheOptions {
            bytes,
            item_bytes: 256,
            partitions: 8,
            eviction: CacheEviction::default(),
            seed: 0,
        }
    }
}

/// An in-memory cache of bounded size. Clones are handles to the same cache, and any thread may use
/// them.
///
/// A lookup returns the most recently set value, or none if the key was evicted. Readers take no
/// lock.
///
/// ```
/// use alluvium_hashes::{Cache, CacheOptions};
/// let cache = Cache::new(&CacheOptions::new(4 << 20))?;
/// cache.set(b"river", b"Rhine")?;
/// assert_eq!(cache.get(b"river").as_deref(), Some(&b"Rhine"[..]));
///
/// // Time is the caller's: any unit, moved on by `tick`.
/// cache.set_until(b"session", b"open", 100)?;
/// cache.tick(100);
/// assert_eq!(cache.get(b"session"), None);
/// # Ok::<(), alluvium_hashes::mica::Error>(())
/// ```
#[derive(Clone)]
pub struct Cache(Arc<CachePartitions>);

struct CachePartitions {
    partitions: Box<[LossyTable<Crcw>]>,
    seed: u64,
    now: AtomicU64,
}

impl fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Cache")
            .field("partitions", &self.0.partitions.len())
            .field("memory_bytes", &self.memory_bytes())
            .field("stats", &self.stats())
            .finish()
    }
}

/// [`Cache::content`] visits every bucket up to these limits, so that it counts small contents
/// exactly. The first is the number of buckets. The second is the number of items ever set; below
/// it, the number of buckets does not matter.
const MOST_COUNTED: usize = 1 << 16;
const FEW_SETS: u64 = 1 << 16;

/// Number of buckets to sample beyond these limits.
const SAMPLED: usize = 1 << 14;

/// An item may be as large as 1 / `LONGEST_PART` of its partition.
const LONGEST_PART: usize = 16;

impl Cache {
    /// Creates an empty cache.
    ///
    /// # Errors
    /// [`Error::BadOption`] if an option is invalid; [`Error::Memory`] if the operating system
    /// cannot provide the memory.
    pub fn new(options: &CacheOptions) -> Result<Cache> {
        let bad = |option, why: String| Err(Error::BadOption { option, why });
        if !(1..=1 << 16).contains(&options.partitions) {
            return bad(
                "partitions",
                format!("{} is not from 1 to 65536", options.partitions),
            );
        }
        if options.item_bytes == 0 {
            return bad("item_bytes", "0 is too small: an item has a key".to_owned());
        }
        let bytes = options.bytes / options.partitions;
        if bytes < 16 << 10 {
            let least = options.partitions * (16 << 10);
            return bad(
                "bytes",
                format!("{} is too small: give at least {least}", options.bytes),
            );
        }
        let partition = partition_options(options, bytes);
        let partitions = (0..options.partitions)
            .map(|_| LossyTable::new(&partition))
            .collect::<Result<Box<[_]>>>()?;
        let (seed, now) = (options.seed, AtomicU64::new(0));
        let cache = Cache(Arc::new(CachePartitions {
            partitions,
            seed,
            now,
        }));
        assert!(cache.memory_bytes() <= options.bytes, "{cache:?} of {options:?}");
        Ok(cache)
    }

    /// Returns the value of a key, or `None` if the cache has none.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.get_into(key, &mut value).then_some(value)
    }

    /// Copies the value of a key to `value`, reusing its allocation. Returns whether the key has a
    /// value; if not, the contents of `value` are unspecified.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        self.read(key, value).is_some()
    }

    /// Like [`Cache::get_into`], but returns the time at which the item expires, or [`NEVER`].
    /// Returns `None` if the key has no value.
    ///
    /// ```
    /// use alluvium_hashes::{Cache, CacheOptions};
    /// let cache = Cache::new(&CacheOptions::new(4 << 20))?;
    /// cache.set_until(b"session", b"open", 100)?;
    /// let mut value = Vec::new();
    /// assert_eq!(cache.read(b"session", &mut value), Some(100));
    /// assert_eq!(cache.read(b"other", &mut value), None);
    /// # Ok::<(), alluvium_hashes::mica::Error>(())
    /// ```
    pub fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Option<u64> {
        let (key, now) = (self.hashed(key), self.now());
        let table = self.table(key);
        let hit = read(table, key, now, value);
        table.tally().read(1, u64::from(hit.is_some()));
        let hit = hit?;
        table.touch(key, hit.found, now);
        Some(hit.expires_at)
    }

    /// Prefetches the memory that operations on these keys will access: first the buckets of all
    /// keys, and then the items that the entries in these buckets point to.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let ask = |key| {
            let key = self.hashed(key);
            self.table(key).bucket(key.hash()).prefetch();
            key
        };
        let keys: Vec<HashedKey<'_>> = keys.map(ask).collect();
        for key in keys {
            self.table(key).prefetch_item(key);
        }
    }

    /// Looks up many keys in order, and passes each value to `respond` with the index of its key.
    /// Memory for later keys is prefetched during the lookups of earlier ones. If the cache exceeds
    /// the processor's caches, this is about three times as fast as separate lookups.
    ///
    /// ```
    /// use alluvium_hashes::{Cache, CacheOptions};
    /// let cache = Cache::new(&CacheOptions::new(4 << 20))?;
    /// cache.set(b"b", b"2")?;
    /// let mut found = Vec::new();
    /// cache.get_many(&[b"a", b"b"], |number, value| found.push((number, value.is_some())));
    /// assert_eq!(found, [(0, false), (1, true)]);
    /// # Ok::<(), alluvium_hashes::mica::Error>(())
    /// ```
    pub fn get_many(&self, keys: &[&[u8]], respond: impl FnMut(usize, Option<&[u8]>)) {
        let keys: Vec<HashedKey<'_>> = keys.iter().map(|key| self.hashed(key)).collect();
        get_many::<LossyTable<Crcw>, _>(
            &self.0.partitions,
            &keys,
            (self.now(), AccessCounting::Counted),
            respond,
        );
    }

    /// Sets the value of a key, without an expiry time.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the key or the item is longer than the cache accepts.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.set_until(key, value, NEVER)
    }

    /// Sets the value of a key until time `expires_at`, in the unit of [`Cache::tick`].
    ///
    /// # Errors
    /// The same errors as [`Cache::set`].
    pub fn set_until(&self, key: &[u8], value: &[u8], expires_at: u64) -> Result<()> {
        let key = self.hashed(key);
        self.table(key).set(key, value, expires_at, self.now())
    }

    /// Sets the values of many keys in order, and passes each result to `respond` with the index of
    /// its key.
    ///
    /// ```
    /// use alluvium_hashes::{Cache, CacheOptions};
    /// let cache = Cache::new(&CacheOptions::new(4 << 20))?;
    /// cache.set_many(&[(b"a", b"1"), (b"b", b"2")], |_, set| assert!(set.is_ok()));
    /// assert!(cache.get(b"a").is_some());
    /// # Ok::<(), alluvium_hashes::mica::Error>(())
    /// ```
    pub fn set_many(&self, items: &[(&[u8], &[u8])], respond: impl FnMut(usize, Result<()>)) {
        let items: Vec<(HashedKey<'_>, &[u8])> = items
            .iter()
            .map(|&(key, value)| (self.hashed(key), value))
            .collect();
        set_many::<LossyTable<Crcw>, _>(&self.0.partitions, &items, self.now(), respond);
    }

    /// Deletes a key. Returns whether the key had a value.
    pub fn delete(&self, key: &[u8]) -> bool {
        let key = self.hashed(key);
        self.table(key).delete(key, self.now())
    }

    /// Deletes all keys. Keys that other threads set concurrently may or may not be deleted.
    ///
    /// ```
    /// use alluvium_hashes::{Cache, CacheOptions};
    /// let cache = Cache::new(&CacheOptions::new(4 << 20))?;
    /// cache.set(b"river", b"Rhine")?;
    /// assert_eq!(cache.len(), 1);
    /// cache.clear();
    /// assert!(cache.is_empty() && cache.get(b"river").is_none());
    /// # Ok::<(), alluvium_hashes::mica::Error>(())
    /// ```
    pub fn clear(&self) {
        self.0.partitions.iter().for_each(LossyTable::clear);
    }

    /// Returns the number of keys with a value, including expired keys whose items are still in the
    /// cache. Scans the whole index, which takes tenths of a second for tens of gigabytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.partitions.iter().map(LossyTable::count).sum()
    }

    /// Returns whether no key has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number and the total size of the items that have not expired. If the index has
    /// many buckets, both are estimated from a sample.
    #[must_use]
    pub fn content(&self) -> CacheUsage {
        let partitions = &self.0.partitions;
        let few = self.stats().sets <= FEW_SETS;
        let most = if few { usize::MAX } else { MOST_COUNTED };
        let all: usize = partitions.iter().map(|table| table.buckets.all().len()).sum();
        let most = if all <= most { all } else { SAMPLED };
        let mut sum = CacheUsage::default();
        for partition in partitions {
            sum += partition.content((most / partitions.len()).max(1), self.now());
        }
        sum
    }

    /// Advances the current time to `now`, in any unit that the caller chooses. An earlier time has
    /// no effect.
    pub fn tick(&self, now: u64) {
        self.0.now.fetch_max(now, Ordering::Relaxed);
    }

    /// Sets the current time back to `now` if it is more than `most` later, because an earlier
    /// [`Cache::tick`] used a wrong clock. Items that expired as a result may become visible again.
    pub fn correct_time(&self, now: u64, most: u64) {
        if self.now().saturating_sub(now) > most {
            self.0.now.store(now, Ordering::Relaxed);
        }
    }

    /// Returns the combined statistics of all partitions.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        let mut sum = TableStats::default();
        self.0
            .partitions
            .iter()
            .for_each(|partition| sum += partition.stats());
        sum
    }

    /// Returns the maximum memory that the cache uses, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.partitions.iter().map(LossyTable::memory_bytes).sum()
    }

    fn now(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    fn hashed<'a>(&self, key: &'a [u8]) -> HashedKey<'a> {
        HashedKey::new(self.0.seed, key)
    }

    fn table(&self, key: HashedKey<'_>) -> &LossyTable<Crcw> {
        table(&self.0.partitions, key.hash())
    }
}

/// Divides the memory of a partition. Reserves the memory after the end of each log, and divides
/// the rest between log and index in the proportion that items of average length need.
fn partition_options(options: &CacheOptions, bytes: usize) -> LossyOptions {
    let longest = bytes / LONGEST_PART;
    // The memory after the end of each of the two logs, and the cost of rounding.
    let rest = bytes - 2 * longest - 2 * size_of::<bucket::IndexBucket>();
    let item = options.item_bytes + WORD;
    let buckets = rest / (item * ITEMS_PER_BUCKET + size_of::<bucket::IndexBucket>());
    let buckets = buckets.max(1);
    let log_bytes = rest - buckets * size_of::<bucket::IndexBucket>();
    LossyOptions {
        log_bytes: log_bytes - log_bytes % WORD,
        buckets,
        longest_item_bytes: longest,
        eviction: options.eviction,
        seed: options.seed,
        ..LossyOptions::new(bytes, options.item_bytes)
    }
}
