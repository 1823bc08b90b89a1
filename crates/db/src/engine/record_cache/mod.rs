//! The record cache holds individual records that are read frequently, instead of the pages that
//! contain them.
//!
//! If accesses are skewed, a page cache spends most of its memory on cold records that share a page
//! with a hot record. The record cache holds only the hot records. It serves readers of the latest
//! version. A lookup searches it after the memtables and before the tree. (GTSSL re-inserts records
//! that were read into its upper tiers, Spillane et al., FAST 2011. Here the uppermost tier is
//! memory, and nothing is written.)
//!
//! *Scope*: which keys are read frequently, their values in the tree, and the memory that cached
//! records occupy.
//!
//! *Must not depend on*: how the tree stores records, memtables except for their keys, snapshots,
//! threads.
//!
//! # Why the cache returns correct values
//!
//! A reader first picks a read position P, then loads the list of memtables, and then loads a
//! version V of the tree (E2). The argument below uses only sequence numbers, because there are no
//! other generation counters. A version's cut is the sequence number up to which it contains all
//! commits. `begun` is the cut of the newest memtable whose flush has begun.
//!
//! ```text
//! incorporation of (b, c]           raise begun to c ── renew or forget the keys in (b, c]
//!                                   ── publish the version with cut c
//! reader, nothing in memtables      under the shard's lock: begun ≤ P ? answer with what is there
//! reader, who then read V           under the shard's lock: begun ≤ P ? keep what V says
//! reader, merges in memtables       under the shard's lock: begun ≤ cut of V ? fold upon it
//! ```
//!
//! *Keeping.* The reader has found no message for its key in the interval (cut of V, P]. If `begun`
//! ≤ P, every version of the tree that is published or about to be published has a cut of at most
//! P, so the key has the same value in all of them as in V. A flush that begins later first raises
//! `begun`, and then acquires the lock of the key's shard to invalidate or update the cached
//! record. A reader that acquires the lock only after this flush sees the raised `begun`.
//!
//! *Answering.* A cached record was read from some version U of the tree. Because of the shard's
//! lock, the reader sees a value of `begun` that is at least the cut of U. Since `begun` ≤ P, the
//! cut of U is at most P. If U is older than V, any message for the key between U and V caused the
//! record to be invalidated or updated before V was published. If U is newer than V, the messages
//! between V and U are in memtables that the reader has already searched without finding the key. A
//! reader that found merge operands for the key in these memtables must not use a U newer than V,
//! so it compares `begun` with the cut of V instead of P.
//!
//! *Renewing.* If the newest message for a cached key in the flushed memtable is a plain put, the
//! cached record is updated to the new value. Any other cached record that the memtable affects is
//! removed. From this update until publication, the record has the value of the next version, whose
//! cut is c. No reader sees this value too early. Readers at positions below c are refused, because
//! `begun` is above P. Readers at positions of c or above find the put in the memtable until the
//! version with cut c is published, and apply any merge operands above the put to it.
//!
//! A flush that fails and starts over has the same cut. Until its version is published, readers at
//! or above the cut are unaffected. Values that can change *without* a commit are never cached:
//! puts with an expiry time, and all records of keyspaces with a compaction filter. The absence of
//! a key is not cached either, because the tree answers such lookups from its maplets.
//!
//! # Admission
//!
//! While memory is free, every offered record is admitted. After that, a record is admitted only if
//! its key was read or evicted recently. The cache remembers such keys as ghosts, half as many as
//! the records that it can hold. Records are evicted in the order of their arrival, except that a
//! record that has been used since is moved behind the others instead, and its use count drops by
//! one. The table shows hit ratios in percent for one million keys with a scattered Zipf
//! distribution of exponent 0.99. The caches can hold the given share of the records. The ratios
//! were measured in the second half of six million reads:
//!
//! | policy | 2 % | 5 % | 10 % | 20 % |
//! |---|---|---|---|---|
//! | least recently used | 63.0 | 70.8 | 77.0 | 83.5 |
//! | clock, three uses | 64.9 | 72.6 | 78.6 | 84.7 |
//! | S3-FIFO, a tenth small | 70.1 | 76.5 | 81.2 | 85.9 |
//! | TinyLFU sketch before a clock | 68.3 | 75.4 | 80.7 | 85.7 |
//! | ghosts before a clock of three uses (this one) | 71.0 | 77.2 | 81.7 | 86.1 |
//! | the most frequent, known beforehand | 71.4 | 78.0 | 83.0 | 88.1 |
//!
//! A record that is flushed to the tree without being cached may be admitted before it has ever
//! been read. This serves workloads that mainly read the newest records. To detect them, one in
//! sixteen flushed keys is admitted as a sample. Once a quarter of the samples have been read, all
//! other flushed keys are admitted as well.
//!
//! Measured with two million records of 124 bytes (eight times the memory), on two shared virtual
//! processors (`cargo bench -p alluvium --bench db skew`), with 15 MiB for both caches. Without a
//! record cache, a lookup needs 0.51 device reads. With a record cache of 3.7 MiB it needs 0.39 to
//! 0.42, and the record cache answers two thirds of the lookups. A `get` of a cached record takes
//! 0.23 to 0.32 µs in total.
//!
//! Invariants:
//!
//! - **Y1** A cached record equals the value of its key in every version of the tree, from the
//!   version that it was read from or updated for, up to the newest version. It also equals the
//!   value in the next version, unless the record is updated or invalidated before that version is
//!   published.
//! - **Y2** `begun` never decreases, and is at least the cut of every published version of the
//!   tree. It is compared while holding the lock of the key's shard.
//! - **Y3** Once `set_budget` has returned, the memory of all shards (rings, tables and ghosts) is
//!   within the budget.

mod ghosts;
mod invalidate;
#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod ring;
mod shard;
pub(crate) mod sizing;
mod sync;
mod table;

pub(crate) use invalidate::CacheInvalidation;

use alluvium_base::SequenceNumber;
use alluvium_dictionary::key::LookupKey;
use crossbeam_utils::CachePadded;
use shard::CacheShard;
use std::fmt;
use sync::{AtomicU64, Mutex, Ordering};

/// Memory budget of each shard when the cache is created, in bytes. It determines the number of
/// shards.
const SHARD_BYTES: u64 = 256 << 10;

/// Maximum and minimum number of shards. The number does not change when the budget changes.
const MOST_SHARDS: u64 = 256;
const LEAST_SHARDS: u64 = 16;

/// Statistics of the record cache since the store was opened, and its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStats {
    /// Number of lookups that the record cache answered.
    pub hits: u64,
    /// Number of lookups that had to continue in the tree.
    pub misses: u64,
    /// Number of offered records that had recently been rejected or evicted. A larger cache might
    /// have answered these lookups.
    pub ghost_hits: u64,
    /// Number of records in the cache.
    pub records: u64,
    /// Memory budget of the cache, in bytes, which `bytes` never exceeds. Zero if there is no
    /// record cache.
    pub budget_bytes: u64,
    /// Memory that the cache uses when it is full, in bytes.
    pub bytes: u64,
    /// Memory that the cache uses now, in bytes.
    pub used_bytes: u64,
    /// Additional bytes of memory needed to cache the records of all ghosts (recently read or
    /// evicted keys).
    pub ghost_bytes: u64,
}

pub(crate) struct RecordCache {
    shards: Box<[CachePadded<Mutex<CacheShard>>]>,
    /// The cut (last sequence number) of the newest memtable whose flush has begun.
    begun: AtomicU64,
    budget: AtomicU64,
}

impl fmt::Debug for RecordCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordCache")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl RecordCache {
    /// Creates an empty cache for a tree that contains all commits up to `cut`. The cache may use
    /// `budget` bytes.
    pub(crate) fn new(budget: u64, cut: SequenceNumber) -> RecordCache {
        let count = (budget / SHARD_BYTES).clamp(LEAST_SHARDS, MOST_SHARDS);
        let shards = (0..count).map(|_| CachePadded::new(Mutex::new(CacheShard::default())));
        let records = RecordCache {
            shards: shards.collect(),
            begun: AtomicU64::new(cut),
            budget: AtomicU64::new(0),
        };
        records.set_budget(budget);
        records
    }

    /// Sets the memory budget to `bytes` by resizing one shard after the other. Hot records are
    /// kept. A shard with less than a few kibibytes caches nothing.
    pub(crate) fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::Relaxed);
        let each = (bytes / self.shards.len() as u64) as usize;
        for shard in &self.shards {
            shard.lock().reshape(each);
        }
    }

    fn is_off(&self) -> bool {
        self.budget.load(Ordering::Relaxed) == 0
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<CacheShard> {
        &self.shards[table::pick(hash >> 32, self.shards.len())]
    }

    /// Prefetches the hash table slots for a key. Used by batched lookups.
    #[inline]
    pub(crate) fn prefetch(&self, key: LookupKey<'_>) {
        if !self.is_off() {
            self.shard(key.hash()).lock().prefetch(key.hash());
        }
    }

    /// Prefetches a key's record. Call it some time after [`RecordCache::prefetch`], once the hash
    /// table slots have arrived.
    #[inline]
    pub(crate) fn prefetch_record(&self, key: LookupKey<'_>) {
        if !self.is_off() {
            self.shard(key.hash()).lock().prefetch_record(key.hash());
        }
    }

    /// Looks up a key. If it is cached, appends its value to `value` and returns true. The caller
    /// must have searched the memtables for every message of the key above its version of the tree,
    /// up to sequence number `seen`.
    #[inline]
    pub(crate) fn get(&self, key: LookupKey<'_>, seen: SequenceNumber, value: &mut Vec<u8>) -> bool {
        if self.is_off() {
            return false;
        }
        let (key, hash) = (key.bytes(), key.hash());
        let mut shard = self.shard(hash).lock();
        self.begun.load(Ordering::Acquire) <= seen && shard.get(hash, key, value)
    }

    /// Offers the value that a key has in the caller's version of the tree. The cache may keep it.
    /// The caller must know that no message for the key exists above this version, up to sequence
    /// number `seen`.
    pub(crate) fn offer(&self, key: LookupKey<'_>, value: &[u8], seen: SequenceNumber) {
        if self.is_off() {
            return;
        }
        let (key, hash) = (key.bytes(), key.hash());
        let mut shard = self.shard(hash).lock();
        if self.begun.load(Ordering::Acquire) <= seen {
            shard.offer(hash, key, value);
        }
    }

    /// Records that the memtable with the commits up to `cut` is about to be flushed. After this
    /// call, and before the tree publishes the memtable's messages, the caller must update or
    /// invalidate the cached records of the memtable's keys.
    fn raise(&self, cut: SequenceNumber) {
        self.begun.fetch_max(cut, Ordering::AcqRel);
    }

    fn forget(&self, key: LookupKey<'_>) {
        let (key, hash) = (key.bytes(), key.hash());
        self.shard(hash).lock().forget(hash, key);
    }

    /// Updates a cached record to its key's next value in the tree. A key that is not cached may be
    /// admitted, but only if `may_keep` returns true. If it is not admitted and `is_hot` is true,
    /// it is remembered as a ghost.
    fn renew(&self, key: LookupKey<'_>, value: &[u8], is_hot: bool, may_keep: impl FnOnce() -> bool) {
        let (key, hash) = (key.bytes(), key.hash());
        let mut shard = self.shard(hash).lock();
        if shard.renew(hash, key, value, is_hot) {
            return;
        }
        if shard.wants_fresh(hash, value.len()) && may_keep() {
            shard.keep_fresh(hash, key, value);
        } else if is_hot {
            shard.remember(hash);
        }
    }

    /// Removes a shard's records for whose keys `is` returns true. Returns the number of keys
    /// tested.
    fn forget_in(&self, shard: usize, is: impl Fn(&[u8]) -> bool) -> usize {
        let mut shard = self.shards[shard].lock();
        let compared = shard.len();
        shard.forget_all(is);
        compared
    }

    fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns whether all shards are full. A record is then admitted only if its key is a ghost.
    pub(crate) fn is_full(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_full())
    }

    fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().len() == 0)
    }

    /// Returns the memory budget in bytes, at the cost of a single atomic load.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    /// Returns the statistics and the current state of the cache.
    pub(crate) fn stats(&self) -> RecordStats {
        let mut stats = RecordStats {
            budget_bytes: self.budget.load(Ordering::Relaxed),
            ..RecordStats::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            stats.hits += shard.hits;
            stats.misses += shard.misses;
            stats.ghost_hits += shard.ghost_hits;
            stats.records += shard.len() as u64;
            stats.bytes += shard.bytes() as u64;
            stats.used_bytes += shard.used_bytes() as u64;
            stats.ghost_bytes += shard.ghost_bytes() as u64;
        }
        stats
    }
}
