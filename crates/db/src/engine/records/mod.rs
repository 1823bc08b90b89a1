//! The record cache: records that are read again and again are kept as records.
//!
//! Under skew a cache of pages spends most of its bytes on the cold neighbours of hot records. This
//! one keeps the records alone. It answers readers of the latest version only, after the memtables
//! and before the tree. (GTSSL re-inserts what is read into its upper tiers, Spillane et al., FAST
//! 2011; here the uppermost is memory, and nothing is written.)
//!
//! *Knows*: which keys are read often, what the tree says about them, how many bytes that takes.
//!
//! *Does not know*: how the tree keeps records, memtables but for the keys in them, snapshots,
//! threads.
//!
//! *Read in this order*: `shard.rs` (a part of it under one lock) with `ring.rs` (the bytes),
//! `table.rs` (from key to record) and `ghosts.rs` (who is let in), `forget.rs` (what a memtable
//! makes wrong, and right), `share.rs` (how much memory it should have).
//!
//! # What makes an answer right
//!
//! A reader takes a place P of the commit order, the list of memtables, and a version V of the tree
//! (E2). Sequence numbers say who has seen what; there are no other generations. `begun` is the cut
//! of the newest memtable whose incorporation has begun.
//!
//! ```text
//! incorporation of (b, c]           raise begun to c ── renew or forget the keys in (b, c]
//!                                   ── publish the version with cut c
//! reader, nothing in memtables      under the shard's lock: begun ≤ P ? answer with what is there
//! reader, who then read V           under the shard's lock: begun ≤ P ? keep what V says
//! reader, merges in memtables       under the shard's lock: begun ≤ cut of V ? fold upon it
//! ```
//!
//! *Keeping.* The reader has found nothing about its key in (cut of V, P]. When `begun` ≤ P, every
//! version that is published or about to be ends at or before P: it says what V says. A memtable
//! that begins later raises `begun` first and takes the same lock afterwards, so it forgets or
//! renews what was kept; and a reader that takes the lock after it sees what it raised.
//!
//! *Answering.* What is kept was read from a version U. By the lock the reader sees a `begun` that
//! is at least the cut of U, so U ends at or before P. If U is older than V, whatever lies between
//! them about the key was forgotten, or has renewed it, before V was published. If it is newer,
//! what lies between is in memtables that the reader has looked at and found nothing in. If it did
//! find something there, merges, it must know that U is not newer than V: that is what it compares
//! with the cut of V.
//!
//! *Renewing.* A key whose newest message is a plain put gets that value, if it is kept; any other
//! is forgotten. From then on until the publication it says what the next version will say. Who
//! sees that? Not readers of places below c: `begun` is above them. Readers of places from c on
//! find the put in the memtable, until the version with cut c is published; and merges above it end
//! at the put.
//!
//! An incorporation that fails and starts again has the same cut; until it is published, readers of
//! places at or above it go on as always. What changes a version's answers *without* a commit is
//! not kept: puts that expire, keyspaces with a compaction filter. Absent keys are not kept either,
//! for the tree answers those from its maplets.
//!
//! # Who is let in
//!
//! While there is free memory, every record is kept. Then only those that were asked for or dropped
//! not long ago: half as many ghosts are remembered as records are kept. Records leave in the order
//! in which they came, but for those that were used: they go behind the others, with a use less.
//! Share of hits (%), one million keys under a scattered Zipf distribution of exponent 0.99, caches
//! of this many of them, second half of six million reads:
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
//! What goes into the tree and is not kept is let in without having been asked for where such keys
//! are asked for soon: where the newest records are the ones that are read. One in sixteen comes in
//! as a sample, and when a quarter of these are used, the others follow.
//!
//! Two million records of 124 bytes, eight times the memory, on two shared virtual processors
//! (`cargo bench -p alluvium --bench db skew`): of 15 MiB for caches, none for records: 0.51 device
//! reads a lookup; 3.7 MiB for them: 0.39 to 0.42, two thirds of the lookups answered here. A whole
//! `get` of a record that is kept takes 0.23 to 0.32 µs.
//!
//! Invariants:
//!
//! - **Y1** A record that is kept is what every version of the tree says about its key, from the
//!   version that it was read from or renewed for to the newest, and the next one unless the key is
//!   renewed or forgotten before that is published.
//! - **Y2** `begun` never falls; it is at least the cut of every published version, and is compared
//!   under the lock of the key's shard.
//! - **Y3** What all shards take (rings, tables, ghosts) is within the budget once `set_budget` has
//!   returned.

mod forget;
mod ghosts;
#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod ring;
mod shard;
pub(crate) mod share;
mod sync;
mod table;

pub(crate) use forget::Forgetting;

use alluvium_base::Sequence;
use alluvium_dictionary::key::Key;
use crossbeam_utils::CachePadded;
use shard::Shard;
use std::fmt;
use sync::{AtomicU64, Mutex, Ordering};

/// Bytes of a shard that make a further one worth while.
const SHARD_BYTES: u64 = 256 << 10;

/// How many shards there may be, for any budget to come.
const MOST_SHARDS: u64 = 256;
const LEAST_SHARDS: u64 = 16;

/// What was counted since the store was opened, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStats {
    /// Lookups that it answered.
    pub hits: u64,
    /// Lookups that the tree had to answer.
    pub misses: u64,
    /// Records that came again not long after they had been turned away or dropped: lookups that a
    /// larger one might have answered.
    pub ghost_hits: u64,
    /// Records that are kept.
    pub records: u64,
    /// Bytes that it may take.
    pub budget_bytes: u64,
    /// Bytes that it takes when it is full.
    pub bytes: u64,
    /// Bytes that it takes now.
    pub used_bytes: u64,
    /// Bytes more that would be needed to keep what it remembers to have turned away.
    pub ghost_bytes: u64,
}

/// The record cache.
pub(crate) struct Records {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// The cut of the newest memtable whose incorporation has begun.
    begun: AtomicU64,
    budget: AtomicU64,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Records {
    /// Creates an empty cache above a tree with this cut.
    pub(crate) fn new(budget: u64, cut: Sequence) -> Records {
        let count = (budget / SHARD_BYTES).clamp(LEAST_SHARDS, MOST_SHARDS);
        let shards = (0..count).map(|_| CachePadded::new(Mutex::new(Shard::default())));
        let records = Records {
            shards: shards.collect(),
            begun: AtomicU64::new(cut),
            budget: AtomicU64::new(0),
        };
        records.set_budget(budget);
        records
    }

    /// Takes on another size, one shard after the other, with what it has of hot records. With less
    /// than a few kibibytes a shard it keeps nothing.
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
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[table::pick(hash >> 32, self.shards.len())]
    }

    /// Asks the processor for the place of a key's record, for a reader that looks up many.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key<'_>) {
        if !self.is_off() {
            self.shard(key.hash()).lock().prefetch(key.hash());
        }
    }

    /// Asks the processor for the record itself, some time after [`Records::prefetch`].
    #[inline]
    pub(crate) fn prefetch_record(&self, key: Key<'_>) {
        if !self.is_off() {
            self.shard(key.hash()).lock().prefetch_record(key.hash());
        }
    }

    /// Appends the value of a key for a reader who has seen in memtables all that was committed
    /// about it above the tree's version and up to `seen`.
    #[inline]
    pub(crate) fn get(&self, key: Key<'_>, seen: Sequence, value: &mut Vec<u8>) -> bool {
        if self.is_off() {
            return false;
        }
        let (key, hash) = (key.bytes(), key.hash());
        let mut shard = self.shard(hash).lock();
        self.begun.load(Ordering::Acquire) <= seen && shard.get(hash, key, value)
    }

    /// Offers what the tree says about a key, for a reader that knows that nothing was committed
    /// about it above its version and up to `seen`. It may be kept.
    pub(crate) fn offer(&self, key: Key<'_>, value: &[u8], seen: Sequence) {
        if self.is_off() {
            return;
        }
        let (key, hash) = (key.bytes(), key.hash());
        let mut shard = self.shard(hash).lock();
        if self.begun.load(Ordering::Acquire) <= seen {
            shard.offer(hash, key, value);
        }
    }

    /// The memtable with this cut is about to go into the tree. Its keys are to be forgotten from
    /// now on, and before it is published.
    fn raise(&self, cut: Sequence) {
        self.begun.fetch_max(cut, Ordering::AcqRel);
    }

    fn forget(&self, key: Key<'_>) {
        let (key, hash) = (key.bytes(), key.hash());
        self.shard(hash).lock().forget(hash, key);
    }

    /// Notes what the tree is about to say about a key: a kept record is replaced. Otherwise it may
    /// be kept, where `may_keep` allows that, and a key that `is_hot` is remembered.
    fn renew(&self, key: Key<'_>, value: &[u8], is_hot: bool, may_keep: impl FnOnce() -> bool) {
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

    /// Forgets all keys of a shard that `is` says; how many were compared.
    fn forget_in(&self, shard: usize, is: impl Fn(&[u8]) -> bool) -> usize {
        let mut shard = self.shards[shard].lock();
        let compared = shard.len();
        shard.forget_all(is);
        compared
    }

    fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns whether only records that were asked for before are let in.
    pub(crate) fn is_full(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_full())
    }

    fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().len() == 0)
    }

    /// What all of it may take. Costs a load.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    /// Returns what was counted, and what there is.
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
