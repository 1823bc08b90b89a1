//! Tables in store mode, which never evict items and reject an item if there is no space for it.
//!
//! Items are in a segregated-fit heap, and chains of buckets locate them (Lim 2015, §5.3.4). The
//! version of a chain's first bucket protects the whole chain. The memory of a freed item is not
//! overwritten until this version has been incremented, so that no reader returns overwritten data.

use super::bucket::{self, BucketEntry, BucketWriteGuard, IndexBucket};
use super::chain::{BucketChains, ChainSlot};
use super::core::{ItemLocation, TableCore};
use super::error::{Error, Result};
use super::heap::SegregatedHeap;
use super::item::{self, ItemHeaderWord};
use super::key::HashedKey;
use super::memory::{ItemWords, WORD};
use super::mode::ConcurrencyMode;
use super::stats::{TableCounters, TableEvent, TableStats};
use super::sync::{AtomicU64, Latch, Ordering};

#[derive(Clone, Copy, Debug)]
pub struct LosslessOptions {
    /// Memory for items, including their headers, in bytes.
    pub heap_bytes: usize,
    /// Number of chains. The first bucket of each has 15 entries and takes 128 bytes.
    pub buckets: usize,
    /// Number of extra buckets for chains to grow.
    pub spare_buckets: usize,
    /// Hash seed for keys.
    pub seed: u64,
}

impl LosslessOptions {
    /// Returns the options of a table for `items` items, whose keys and values have `item_bytes`
    /// bytes combined. There are 11 items per bucket, and a tenth as many spare buckets as buckets.
    ///
    /// ```
    /// use alluvium_hashes::mica::LosslessOptions;
    /// let options = LosslessOptions::new(1_000_000, 16);
    /// assert_eq!((options.buckets, options.spare_buckets), (90_910, 9_091));
    /// ```
    #[must_use]
    pub fn new(items: usize, item_bytes: usize) -> LosslessOptions {
        let buckets = items.div_ceil(ITEMS_PER_BUCKET).max(1);
        LosslessOptions {
            heap_bytes: items * (item_bytes + 2 * WORD).next_multiple_of(8).max(16),
            buckets,
            spare_buckets: buckets.div_ceil(10),
            seed: 0,
        }
    }
}

/// Average number of items per bucket. With this number, a tenth of the buckets need a spare one.
const ITEMS_PER_BUCKET: usize = 11;

/// Maximum size of a heap, in bytes.
const MOST_BYTES: usize = 4 << 30;

/// A partition in store mode.
#[derive(Debug)]
pub struct LosslessTable<M> {
    words: ItemWords<M>,
    heap: SegregatedHeap<M>,
    chains: BucketChains<M>,
    seed: u64,
    most_words: usize,
    typical_words: usize,
    /// Number of the bucket at which the next search for expired items starts.
    next: AtomicU64,
    buckets: usize,
    items: AtomicU64,
    latch: Latch,
    tally: TableCounters,
}

impl<M: ConcurrencyMode> LosslessTable<M> {
    /// Creates an empty table.
    ///
    /// # Errors
    /// [`Error::BadOption`] if an option is invalid; [`Error::Memory`] if the operating system
    /// cannot provide the memory.
    pub fn new(options: &LosslessOptions) -> Result<LosslessTable<M>> {
        let bad = |option, why: String| Err(Error::BadOption { option, why });
        if !(1..=1 << 31).contains(&options.buckets) || options.spare_buckets > 1 << 31 {
            return bad("buckets", format!("{} is not from 1 to 2^31", options.buckets));
        }
        if !(16..=MOST_BYTES).contains(&options.heap_bytes) {
            let why = format!(
                "{} is not from 16 to {MOST_BYTES}: use several partitions",
                options.heap_bytes
            );
            return bad("heap_bytes", why);
        }
        let most_words = item::MAX_WORDS.min(options.heap_bytes / WORD);
        let words = ItemWords::reserve(SegregatedHeap::<M>::words(options.heap_bytes))?;
        Ok(LosslessTable {
            heap: SegregatedHeap::new(&words, most_words),
            words,
            chains: BucketChains::new(options.buckets, options.spare_buckets)?,
            seed: options.seed,
            most_words,
            typical_words: options.heap_bytes / WORD / (options.buckets * ITEMS_PER_BUCKET),
            next: AtomicU64::new(0),
            buckets: options.buckets,
            items: AtomicU64::new(0),
            latch: Latch::default(),
            tally: TableCounters::default(),
        })
    }

    /// Returns the table's hash seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    #[must_use]
    pub fn stats(&self) -> TableStats {
        self.tally.stats()
    }

    /// Returns the number of items, including expired items that have not been freed yet.
    #[must_use]
    pub fn items(&self) -> usize {
        self.items.load(Ordering::Relaxed) as usize
    }

    /// Returns the total size of the heap and the size in use, both in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> (usize, usize) {
        self.heap.bytes()
    }

    /// Returns the total number of spare buckets and the number in use.
    #[must_use]
    pub fn spare_buckets(&self) -> (usize, usize) {
        self.chains.spare()
    }

    /// Returns the maximum memory that the table uses, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.len() * WORD + self.chains.bytes()
    }

    fn word(entry: BucketEntry) -> usize {
        entry.place() as usize / WORD
    }

    fn find_in(&self, first: usize, key: HashedKey<'_>) -> Option<ItemLocation> {
        self.chains.find(first, bucket::tag(key.hash()), |place, entry| {
            let at = Self::word(entry);
            let header = item::header_of(&self.words, at, key)?;
            let ChainSlot { bucket, slot } = place;
            Some(ItemLocation {
                bucket,
                slot,
                entry,
                at,
                header,
            })
        })
    }

    /// Allocates memory for an item, writes it, and returns its index entry. The caller must hold
    /// the lock on the key's chain.
    fn write(
        &self,
        key: HashedKey<'_>,
        header: ItemHeaderWord,
        (value, expires_at): (&[u8], u64),
    ) -> Result<BucketEntry> {
        let needed = header.needed();
        let at = self.heap.allocate(&self.words, needed).ok_or(Error::OutOfSpace {
            bytes: needed * WORD,
            capacity: self.heap.bytes().0,
        })?;
        item::write(&self.words, at, needed, header, (key.bytes(), value, expires_at));
        Ok(BucketEntry::new(bucket::tag(key.hash()), (at * WORD) as u64))
    }

    /// Removes an item from its chain and frees its memory. The caller must hold the chain's lock.
    fn remove(&self, first: usize, at: ChainSlot, entry: BucketEntry) {
        self.chains.remove(first, at);
        self.heap.free(&self.words, Self::word(entry));
        self.items
            .store(self.items.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Returns an item in a chain that has expired at time `now`, or `None` if there is none.
    fn expired(&self, first: usize, now: u64) -> Option<(ChainSlot, BucketEntry)> {
        let mut number = Some(first);
        while let Some(bucket) = number {
            for slot in 0..bucket::WAYS {
                let Some(entry) = self.chains.bucket(bucket).entry(slot) else {
                    continue;
                };
                let at = Self::word(entry);
                if item::has_expired(&self.words, at, ItemHeaderWord::load(&self.words, at), now) {
                    return Some((ChainSlot { bucket, slot }, entry));
                }
            }
            number = self.chains.bucket(bucket).next();
        }
        None
    }
}

impl<M> super::core::sealed::SealedTable for LosslessTable<M> {}

impl<M: ConcurrencyMode> TableCore for LosslessTable<M> {
    type Mode = M;

    fn words(&self) -> &ItemWords<M> {
        &self.words
    }

    fn tally(&self) -> &TableCounters {
        &self.tally
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> &IndexBucket {
        self.chains.bucket(self.chains.first(hash))
    }

    #[inline]
    fn prefetch_item(&self, key: HashedKey<'_>) {
        let bucket = self.bucket(key.hash());
        let slots = bucket.matches(bucket::tag(key.hash()));
        if slots != 0
            && let Some(entry) = bucket.entry(slots.trailing_zeros() as usize)
        {
            self.words.prefetch(Self::word(entry), self.typical_words);
        } else if let Some(next) = bucket.next() {
            self.chains.bucket(next).prefetch();
        }
    }

    #[inline]
    fn find(&self, key: HashedKey<'_>) -> Option<ItemLocation> {
        self.find_in(self.chains.first(key.hash()), key)
    }

    /// Always returns true, because the chain's version already detects every change to an item.
    #[inline(always)]
    fn holds(&self, _found: ItemLocation) -> bool {
        true
    }

    fn touch(&self, _key: HashedKey<'_>, found: ItemLocation, _now: u64) -> ItemLocation {
        found
    }

    fn set(&self, key: HashedKey<'_>, value: &[u8], expires_at: u64, _now: u64) -> Result<()> {
        let header = ItemHeaderWord::new(key.bytes(), value, expires_at)?;
        if header.needed() > self.most_words {
            let (what, bytes, most) = ("an item", header.needed() * WORD, self.most_words * WORD);
            return Err(Error::TooLarge { what, bytes, most });
        }
        let first = self.chains.first(key.hash());
        let _writing: BucketWriteGuard<'_, M> =
            BucketWriteGuard::begin(&self.latch, self.chains.bucket(first));
        if let Some(found) = self.find_in(first, key) {
            if header.needed() <= self.heap.allocated(&self.words, found.at) {
                let parts = (key.bytes(), value, expires_at);
                item::write(&self.words, found.at, header.needed(), header, parts);
                self.tally.count(TableEvent::UpdateInPlace);
            } else {
                let entry = self.write(key, header, (value, expires_at))?;
                self.chains.bucket(found.bucket).replace(found.slot, Some(entry));
                self.heap.free(&self.words, found.at);
            }
        } else {
            let entry = self.write(key, header, (value, expires_at))?;
            let Some(at) = self.chains.empty_slot(first) else {
                self.heap.free(&self.words, Self::word(entry));
                let spare = self.chains.spare().0;
                return Err(Error::OutOfBuckets { spare });
            };
            self.chains.bucket(at.bucket).replace(at.slot, Some(entry));
            self.items
                .store(self.items.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        self.tally.count(TableEvent::Set);
        Ok(())
    }

    fn delete(&self, key: HashedKey<'_>, now: u64) -> bool {
        let first = self.chains.first(key.hash());
        let _writing: BucketWriteGuard<'_, M> =
            BucketWriteGuard::begin(&self.latch, self.chains.bucket(first));
        let Some(found) = self.find_in(first, key) else {
            return false;
        };
        let was_live = !item::has_expired(&self.words, found.at, found.header, now);
        let at = ChainSlot {
            bucket: found.bucket,
            slot: found.slot,
        };
        self.remove(first, at, found.entry);
        self.tally.count(TableEvent::Delete);
        was_live
    }

    fn reclaim(&self, now: u64, buckets: usize) -> usize {
        let mut freed = 0;
        for _ in 0..buckets.min(self.buckets) {
            let first = self.next.load(Ordering::Relaxed) as usize % self.buckets;
            self.next.store(first as u64 + 1, Ordering::Relaxed);
            let _writing: BucketWriteGuard<'_, M> =
                BucketWriteGuard::begin(&self.latch, self.chains.bucket(first));
            while let Some((at, entry)) = self.expired(first, now) {
                self.remove(first, at, entry);
                self.tally.count(TableEvent::Drop);
                freed += 1;
            }
        }
        freed
    }
}
