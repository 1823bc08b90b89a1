//! The record cache: frequently read records, kept one by one.
//!
//! Under skew, a page cache spends most of its bytes on the cold neighbours of hot records. This
//! cache keeps only the records. It answers readers of the latest version, after the memtables and
//! before the tree. (GTSSL re-inserts records that were read into its upper tiers, Spillane et al.,
//! FAST 2011; here the uppermost tier is memory, and nothing is written.)
//!
//! *Scope*: which keys are read often, their values in the tree, the memory that they occupy.
//!
//! *Must not depend on*: how the tree stores records, memtables except for their keys, snapshots,
//! threads.
//!
//! # What makes an answer right
//!
//! A reader takes a read position P, then the list of memtables, then a version V of the tree (E2).
//! All reasoning uses sequence numbers; there are no other generation counters. `begun` is the cut
//! of the newest memtable whose flush has begun.
//!
//! ```text
//! incorporation of (b, c]           raise begun to c ── renew or forget the keys in (b, c]
//!                                   ── publish the version with cut c
//! reader, nothing in memtables      under the shard's lock: begun ≤ P ? answer with what is there
//! reader, who then read V           under the shard's lock: begun ≤ P ? keep what V says
//! reader, merges in memtables       under the shard's lock: begun ≤ cut of V ? fold upon it
//! ```
//!
//! *Keeping.* The reader has found no messages for its key in (cut of V, P]. When `begun` ≤ P,
//! every version that is published or about to be published has a cut of at most P, and therefore
//! has the same value for the key as V. A flush that begins later first raises `begun` and
//! afterwards takes the same lock, so it invalidates or renews the kept record. A reader that takes
//! the lock after the flush sees the raised `begun`.
//!
//! *Answering.* A kept record was read from a version U. Because of the lock, the reader sees a
//! `begun` that is at least the cut of U, so the cut of U is at most P. If U is older than V, any
//! message for the key between them has invalidated or renewed the record before V was published.
//! If U is newer, the messages between them are in memtables that the reader has searched without
//! finding the key. If the reader did find merges in them, U must not be newer than V: this is why
//! it compares `begun` with the cut of V.
//!
//! *Renewing.* If the newest message of a key is a plain put and the key is kept, its record gets
//! the new value; any other kept record is removed. From then until publication, the record has the
//! value of the next version. No reader sees this too early: readers at positions below c are
//! refused because `begun` is above P. Readers at positions from c on find the put in the memtable
//! until the version with cut c is published, and merges above it end at the put.
//!
//! A flush that fails and starts over has the same cut; until its version is published, readers at
//! or above the cut continue as usual. Values that change *without* a commit are not kept: puts
//! that expire, and keyspaces with a compaction filter. Absent keys are not kept either, because
//! the tree answers these from its maplets.
//!
//! # Admission
//!
//! While memory is free, every record is admitted. After that, only records are admitted whose key
//! was read or evicted recently: the cache remembers half as many ghosts as it keeps records.
//! Records are evicted in the order of their arrival, except that a record with uses is moved
//! behind the others with its use count reduced by one. Hit ratios (%) for one million keys under a
//! scattered Zipf distribution of exponent 0.99, for caches of the given share of the records, in
//! the second half of six million reads:
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
//! A record that is flushed to the tree and not kept is admitted without having been read, if such
//! keys are usually read soon: for workloads that read the newest records. One key in sixteen is
//! admitted as a sample; when a quarter of the samples are used, the others are admitted as well.
//!
//! Two million records of 124 bytes, eight times the memory, on two shared virtual processors
//! (`cargo bench -p alluvium --bench db skew`), with 15 MiB for both caches: without a record
//! cache, 0.51 device reads per lookup; with a record cache of 3.7 MiB, 0.39 to 0.42, and it
//! answers two thirds of the lookups. A `get` of a kept record takes 0.23 to 0.32 µs in total.
//!
//! Invariants:
//!
//! - **Y1** A kept record equals the value of its key in every version of the tree from the version
//!   that it was read from or renewed for up to the newest, and in the next version unless the key
//!   is renewed or invalidated before that is published.
//! - **Y2** `begun` never decreases; it is at least the cut of every published version, and is
//!   compared under the lock of the key's shard.
//! - **Y3** The memory of all shards (rings, tables, ghosts) is within the budget once `set_budget`
//!   has returned.

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

/// Budget per shard when the cache is created.
const SHARD_BYTES: u64 = 256 << 10;

/// Bounds of the number of shards, which does not change with the budget.
const MOST_SHARDS: u64 = 256;
const LEAST_SHARDS: u64 = 16;

/// Statistics of the record cache since the store was opened, and its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStats {
    /// Lookups answered by the cache.
    pub hits: u64,
    /// Lookups passed on to the tree.
    pub misses: u64,
    /// Offered records that had been rejected or evicted recently: a larger cache might have
    /// answered their lookups.
    pub ghost_hits: u64,
    /// Number of records in the cache now.
    pub records: u64,
    /// Maximum of `bytes`; zero without a record cache.
    pub budget_bytes: u64,
    /// Memory of the full cache in bytes.
    pub bytes: u64,
    /// Memory in use, in bytes.
    pub used_bytes: u64,
    /// Additional memory needed to keep the records that the ghosts stand for, in bytes.
    pub ghost_bytes: u64,
}

pub(crate) struct RecordCache {
    shards: Box<[CachePadded<Mutex<CacheShard>>]>,
    /// The cut of the newest memtable whose flush has begun.
    begun: AtomicU64,
    budget: AtomicU64,
}

impl fmt::Debug for RecordCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl RecordCache {
    /// Creates an empty cache for a tree with this cut.
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

    /// Resizes one shard after the other, keeping the hot records. With less than a few kibibytes
    /// per shard the cache is off.
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

    /// Prefetches the table slot of a key's record, for batched lookups.
    #[inline]
    pub(crate) fn prefetch(&self, key: LookupKey<'_>) {
        if !self.is_off() {
            self.shard(key.hash()).lock().prefetch(key.hash());
        }
    }

    /// Prefetches the record itself, some time after [`RecordCache::prefetch`].
    #[inline]
    pub(crate) fn prefetch_record(&self, key: LookupKey<'_>) {
        if !self.is_off() {
            self.shard(key.hash()).lock().prefetch_record(key.hash());
        }
    }

    /// Appends the value of a key if it is kept. The reader has seen, in memtables, every message
    /// of the key above the tree's version and up to `seen`. Returns whether the value was found.
    #[inline]
    pub(crate) fn get(&self, key: LookupKey<'_>, seen: SequenceNumber, value: &mut Vec<u8>) -> bool {
        if self.is_off() {
            return false;
        }
        let (key, hash) = (key.bytes(), key.hash());
        let mut shard = self.shard(hash).lock();
        self.begun.load(Ordering::Acquire) <= seen && shard.get(hash, key, value)
    }

    /// Offers the tree's value of a key. The reader knows that there is no message of the key above
    /// its version and up to `seen`. The cache may keep the value.
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

    /// Notes that the memtable with this cut is about to be flushed. Its keys must be invalidated
    /// after this call and before publication.
    fn raise(&self, cut: SequenceNumber) {
        self.begun.fetch_max(cut, Ordering::AcqRel);
    }

    fn forget(&self, key: LookupKey<'_>) {
        let (key, hash) = (key.bytes(), key.hash());
        self.shard(hash).lock().forget(hash, key);
    }

    /// Replaces the kept value of a key with its next value in the tree. If the key is not kept, it
    /// may be admitted if `may_keep` allows it; otherwise an `is_hot` key is remembered as a ghost.
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

    /// Removes all keys of a shard for which `is` is true. Returns the number of compared keys.
    fn forget_in(&self, shard: usize, is: impl Fn(&[u8]) -> bool) -> usize {
        let mut shard = self.shards[shard].lock();
        let compared = shard.len();
        shard.forget_all(is);
        compared
    }

    fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns whether all shards are full, so that admission requires a ghost.
    pub(crate) fn is_full(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_full())
    }

    fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().len() == 0)
    }

    /// Returns the memory budget in bytes, at the cost of one atomic load.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    /// Returns the statistics and the current state.
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
