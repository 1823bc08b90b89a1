//! A cache's items, and the locks that serialise writers of the same key.

use super::item::MAX_HEAD;
use crate::error::{CommandError, Error, Result};
use crate::observe::process;
use crate::store::{MOST_BEHIND_MS, StoreClock};
use alluvium::cache::{self, Cache, CacheEviction, CacheOptions};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum size of a cache in bytes.
const LEAST_BYTES: u64 = 1 << 20;

/// Minimum size of a partition in bytes, unless the whole cache is smaller. A partition of this
/// size accepts items of up to one mebibyte.
const PARTITION_BYTES: u64 = 32 << 20;

/// Maximum number of partitions, at which writers rarely contend on machines with usual numbers of
/// cores.
const MOST_PARTITIONS: u64 = 64;

/// Assumed average size of an item's key and value in bytes.
const ITEM_BYTES: usize = 96;

/// Number of locks. A key's hash selects its lock, so several keys can share one.
const LOCKS: usize = 512;

/// How a full cache chooses the item to evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheEvictionPolicy {
    /// Evicts the item that was written longest ago.
    Fifo,
    /// Evicts the least recently used item.
    Lru,
    /// Approximates LRU, and copies fewer items than exact LRU does.
    ApproximateLru,
    /// S3-FIFO, which first evicts items that were read at most once since they were written.
    #[default]
    S3Fifo,
}

impl CacheEvictionPolicy {
    /// Returns the policy's name in `maxmemory-policy`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CacheEvictionPolicy::Fifo => "fifo",
            CacheEvictionPolicy::Lru => "lru",
            CacheEvictionPolicy::ApproximateLru => "approximate-lru",
            CacheEvictionPolicy::S3Fifo => "s3-fifo",
        }
    }

    fn eviction(self) -> CacheEviction {
        match self {
            CacheEvictionPolicy::Fifo => CacheEviction::Fifo,
            CacheEvictionPolicy::Lru => CacheEviction::Lru,
            CacheEvictionPolicy::ApproximateLru => CacheEviction::ApproximateLru,
            CacheEvictionPolicy::S3Fifo => CacheEviction::S3Fifo,
        }
    }
}

/// A cache's memory limit, and how it uses this memory.
///
/// ```
/// use alluvium_server::{CacheMemory, CacheEvictionPolicy};
/// let memory = CacheMemory { policy: CacheEvictionPolicy::Lru, ..CacheMemory::new(1 << 30) };
/// assert_eq!(memory.bytes, 1 << 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMemory {
    /// Memory limit in bytes, for the items, their keys and the index.
    pub bytes: u64,
    /// Expected average size of an item's key and value in bytes. Determines the size of the index.
    pub item_bytes: usize,
    pub policy: CacheEvictionPolicy,
}

impl CacheMemory {
    /// Returns settings with a limit of `bytes` bytes, for items of about a hundred bytes, with the
    /// S3-FIFO policy.
    #[must_use]
    pub fn new(bytes: u64) -> CacheMemory {
        CacheMemory {
            bytes,
            item_bytes: ITEM_BYTES,
            policy: CacheEvictionPolicy::default(),
        }
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::Cache { why });
        if self.bytes < LEAST_BYTES {
            return refuse(format!(
                "{} bytes are too few; a cache needs at least {LEAST_BYTES} bytes",
                self.bytes
            ));
        }
        match process::system_bytes() {
            Some(all) if self.bytes > all => refuse(format!(
                "{} bytes exceed the {all} bytes of memory of the machine or container; choose a smaller cache",
                self.bytes
            )),
            _ => Ok(()),
        }
    }

    fn options(&self, seed: u64) -> CacheOptions {
        let partitions = (self.bytes / PARTITION_BYTES).clamp(1, MOST_PARTITIONS);
        CacheOptions {
            bytes: usize::try_from(self.bytes).unwrap_or(usize::MAX),
            item_bytes: self.item_bytes,
            partitions: partitions as usize,
            eviction: self.policy.eviction(),
            seed,
        }
    }
}

/// The error for an item that exceeds the cache's maximum item size.
#[derive(Debug)]
pub(crate) struct TooLarge(cache::Error);

impl From<TooLarge> for CommandError {
    fn from(TooLarge(error): TooLarge) -> CommandError {
        CommandError::Refused(Cow::Owned(format!("ERR {error}")))
    }
}

/// The metadata of an item found by a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemMetadata {
    /// Expiry time in milliseconds since 1970; 0 for never.
    pub(crate) expires_ms: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheFigures {
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) evictions: u64,
    /// Number of items in the cache, and their total size in bytes. If there are many items, both
    /// are estimated from a sample.
    pub(crate) items: u64,
    pub(crate) item_bytes: u64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct StripeLock(Mutex<()>);

/// The held locks of several keys. Keys with the same lock share one guard.
pub(crate) type CacheLockGuards<'c> = SmallVec<[MutexGuard<'c, ()>; 1]>;

/// A cache's items and their locks.
pub(crate) struct ItemCache {
    cache: Cache,
    pub(crate) memory: CacheMemory,
    locks: Box<[StripeLock]>,
    clock: StoreClock,
    /// The most recently assigned CAS value, or 0 if there is none.
    cas: AtomicU64,
}

impl ItemCache {
    /// Creates an empty cache.
    ///
    /// # Errors
    /// Returns [`Error::Cache`] if the memory limit is too small or the memory cannot be allocated.
    pub(crate) fn new(memory: CacheMemory, seed: u64) -> Result<ItemCache> {
        memory.check()?;
        let cache = Cache::new(&memory.options(seed));
        let cache = cache.map_err(|error| Error::Cache {
            why: error.to_string(),
        })?;
        Ok(ItemCache {
            cache,
            memory,
            locks: (0..LOCKS).map(|_| StripeLock::default()).collect(),
            clock: StoreClock::new(0),
            cas: AtomicU64::new(0),
        })
    }

    /// Returns the current time in milliseconds since 1970, and removes expired items.
    pub(crate) fn now_ms(&self) -> u64 {
        let now_ms = self.clock.now_ms();
        self.tick(now_ms);
        now_ms
    }

    fn tick(&self, now_ms: u64) {
        self.cache.tick(now_ms);
        self.cache.correct_time(now_ms, MOST_BEHIND_MS);
    }

    /// Returns a new CAS value, which no item has had before.
    #[inline]
    pub(crate) fn next_cas(&self) -> u64 {
        self.cas.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn lock_of(&self, key: &[u8]) -> usize {
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = key.rchunks(8).take(4).fold(key.len() as u64, |hash, chunk| {
            let word = chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
            (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR)
        });
        (mixed >> 32) as usize % LOCKS
    }

    /// Locks a key, so that no other thread can write its item (S25).
    #[inline]
    pub(crate) fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.locks[self.lock_of(key)].0.lock()
    }

    /// Locks several keys, so that no other thread can write their items. Acquires the locks in a
    /// fixed order, which prevents deadlocks.
    pub(crate) fn lock_all<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> CacheLockGuards<'_> {
        let mut places: SmallVec<[usize; 8]> = keys.map(|key| self.lock_of(key)).collect();
        places.sort_unstable();
        places.dedup();
        places
            .into_iter()
            .map(|place| self.locks[place].0.lock())
            .collect()
    }

    /// Copies a key's stored item to `stored` and returns its metadata, or returns `None` if there
    /// is no item.
    #[inline]
    pub(crate) fn read(&self, key: &[u8], stored: &mut Vec<u8>) -> Option<ItemMetadata> {
        let expires_at = self.cache.read(key, stored)?;
        let expires_ms = if expires_at == u64::MAX { 0 } else { expires_at };
        Some(ItemMetadata { expires_ms })
    }

    /// Looks up several keys in order. For each, calls `respond` with the key's index and the
    /// item's stored bytes, or `None`.
    pub(crate) fn read_many(&self, keys: &[&[u8]], respond: impl FnMut(usize, Option<&[u8]>)) {
        self.cache.get_many(keys, respond);
    }

    /// Prefetches the memory that requests for these keys access first.
    pub(crate) fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.cache.prefetch(keys);
    }

    /// Stores an item. The caller must hold the key's lock.
    ///
    /// # Errors
    /// The item is too large. The key's previous item remains.
    pub(crate) fn write(
        &self,
        key: &[u8],
        stored: &[u8],
        expires_ms: u64,
    ) -> std::result::Result<(), TooLarge> {
        let expires_at = if expires_ms == 0 { u64::MAX } else { expires_ms };
        self.cache.set_until(key, stored, expires_at).map_err(TooLarge)
    }

    /// Deletes a key's item and returns whether it existed. The caller must hold the key's lock.
    pub(crate) fn delete(&self, key: &[u8]) -> bool {
        self.cache.delete(key)
    }

    /// Deletes all items. A request that read an item earlier cannot write it back afterwards.
    pub(crate) fn clear(&self) {
        let _held: Vec<_> = self.locks.iter().map(|lock| lock.0.lock()).collect();
        self.cache.clear();
    }

    /// Returns the number of items, estimated from a sample if there are many.
    pub(crate) fn items(&self) -> u64 {
        self.now_ms();
        self.cache.content().items
    }

    /// Returns the maximum value size in bytes that the cache accepts whatever the key's length.
    pub(crate) fn most_value_bytes(&self) -> usize {
        cache::MAX_VALUE_BYTES - MAX_HEAD
    }

    pub(crate) fn figures(&self) -> CacheFigures {
        let (stats, content) = (self.cache.stats(), self.cache.content());
        let left_logs = match self.memory.policy {
            // Only S3-FIFO can tell whether an evicted item was still live, so only this policy
            // reports the exact number.
            CacheEvictionPolicy::S3Fifo => stats.evicted,
            CacheEvictionPolicy::Fifo | CacheEvictionPolicy::Lru | CacheEvictionPolicy::ApproximateLru => {
                stats.dropped
            }
        };
        CacheFigures {
            gets: stats.gets,
            hits: stats.hits,
            evictions: left_logs + stats.displaced,
            items: content.items,
            item_bytes: content.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_too_large_for_the_machine_or_too_small_is_refused_with_the_reason() {
        let why = |bytes| {
            let refused = ItemCache::new(CacheMemory::new(bytes), 1).err().expect("refused");
            refused.to_string()
        };
        assert!(why(1 << 60).contains("exceed the"), "{}", why(1 << 60));
        assert!(why(1 << 10).contains("too few"), "{}", why(1 << 10));
    }

    #[test]
    fn locks_of_several_keys_are_taken_once_each() {
        let content = ItemCache::new(CacheMemory::new(4 << 20), 1).unwrap();
        let keys: Vec<Vec<u8>> = (0..2000_u32).map(|key| key.to_string().into_bytes()).collect();
        let held = content.lock_all(keys.iter().chain(&keys).map(|key| &key[..]));
        assert!((400..=LOCKS).contains(&held.len()), "{} locks", held.len());
        drop(held);
        assert_eq!(content.lock_all([&b"a"[..], b"a"].into_iter()).len(), 1);
    }

    #[test]
    fn an_item_of_a_mebibyte_fits_where_there_is_memory_for_it() {
        let content = ItemCache::new(CacheMemory::new(64 << 20), 1).unwrap();
        let value = vec![7; content.most_value_bytes()];
        content.write(b"long", &value, 0).unwrap();
        let mut read = Vec::new();
        assert_eq!(
            content.read(b"long", &mut read),
            Some(ItemMetadata { expires_ms: 0 })
        );
        assert_eq!(read, value);
        let longer = vec![7; (1 << 20) + 1];
        assert!(content.write(b"long", &longer, 0).is_err());
        assert!(content.read(b"long", &mut read).is_some(), "it keeps what it had");
    }

    #[test]
    fn a_clock_that_was_ahead_by_years_does_not_end_what_is_written_later() {
        let content = ItemCache::new(CacheMemory::new(4 << 20), 1).unwrap();
        let mut read = Vec::new();
        let now_ms = 20_000 * MOST_BEHIND_MS;
        content.tick(now_ms + MOST_BEHIND_MS);
        content.tick(now_ms);
        content.write(b"a", b"1", now_ms + 1).unwrap();
        assert_eq!(content.read(b"a", &mut read), None, "a day is waited for");
        content.tick(now_ms + 365 * MOST_BEHIND_MS);
        content.tick(now_ms);
        content.write(b"a", b"1", now_ms + 1).unwrap();
        let expires_ms = now_ms + 1;
        assert_eq!(content.read(b"a", &mut read), Some(ItemMetadata { expires_ms }));
        content.tick(expires_ms);
        assert_eq!(content.read(b"a", &mut read), None);
    }
}
