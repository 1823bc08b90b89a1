//! Tables in cache mode, with items in a circular log and a lossy index.
//!
//! Setting a key uses only the slots of the key's bucket. If all of them are occupied, it replaces
//! the entry of another item, which can then no longer be found (Lim 2015, §5.3.3). The offset in
//! an entry tells whether its item is still in the log.

use super::bucket::{self, BucketEntry, BucketWriteGuard, IndexBucket};
use super::core::{ItemLocation, TableCore};
use super::error::{Error, Result};
use super::item::{self, ItemHeaderWord};
use super::key::HashedKey;
use super::log::CircularLog;
use super::memory::{BucketArray, ItemWords, WORD};
use super::mode::ConcurrencyMode;
use super::policy::{CacheEviction, LogRole, ReplacementCandidate, replacement_priority};
use super::stats::{TableCounters, TableEvent, TableStats};
use super::sweep::SweepSchedule;
use super::sync::Latch;

/// Options of a table in cache mode: its size and its eviction policy.
#[derive(Clone, Copy, Debug)]
pub struct LossyOptions {
    /// Memory for items, including their headers, in bytes.
    pub log_bytes: usize,
    /// Number of buckets in the index. Each has 15 entries and takes 128 bytes.
    pub buckets: usize,
    /// Maximum size of an item, including its header, in bytes. The memory of a log continues past
    /// its end by this number of bytes.
    pub longest_item_bytes: usize,
    pub eviction: CacheEviction,
    /// Number of bits in an offset: at most 48, or 47 for S3-FIFO. With fewer bits, offsets wrap
    /// around sooner, which is useful in tests.
    pub offset_bits: u32,
    /// Hash seed for keys.
    pub seed: u64,
}

impl LossyOptions {
    /// Returns the options of a table with `log_bytes` bytes for items, whose keys and values have
    /// `item_bytes` bytes combined on average.
    ///
    /// ```
    /// use alluvium_hashes::mica::LossyOptions;
    /// let options = LossyOptions::new(1 << 20, 64);
    /// assert!(options.buckets > 1000);
    /// ```
    #[must_use]
    pub fn new(log_bytes: usize, item_bytes: usize) -> LossyOptions {
        let items = log_bytes / (item_bytes + WORD);
        LossyOptions {
            log_bytes: log_bytes.next_multiple_of(WORD),
            buckets: items.div_ceil(ITEMS_PER_BUCKET).max(1),
            longest_item_bytes: usize::MAX,
            eviction: CacheEviction::default(),
            offset_bits: bucket::PLACE_BITS - 1,
            seed: 0,
        }
    }
}

/// Average number of items per bucket. With this number, an item takes 16 bytes besides its key and
/// value, and 3 of 100 items are lost early because another item replaces their entry in the
/// bucket.
pub(super) const ITEMS_PER_BUCKET: usize = 12;

/// S3-FIFO's small log has 1 / `SMALL_PART` of the memory.
const SMALL_PART: usize = 10;

/// Minimum number of words in a log.
const LEAST_WORDS: usize = if cfg!(alluvium_model_check) { 8 } else { 64 };

/// A partition in cache mode.
#[derive(Debug)]
pub struct LossyTable<M> {
    pub(super) words: ItemWords<M>,
    pub(super) buckets: BucketArray<M>,
    pub(super) logs: [CircularLog<M>; 2],
    pub(super) eviction: CacheEviction,
    /// Number of the bit in a location that selects the log. If there is only one log, the bit is
    /// above all offset bits, and thus always 0.
    ring_bit: u32,
    /// For each log, the maximum age in bytes at which an entry stays in the index.
    pub(super) worth: [u64; 2],
    pub(super) seed: u64,
    /// Maximum number of words in an item.
    most_words: usize,
    /// Number of words in an item of average length, for which log and index sizes are balanced.
    typical_words: usize,
    pub(super) sweep: SweepSchedule,
    pub(super) latch: Latch,
    pub(super) tally: TableCounters,
}

impl<M: ConcurrencyMode> LossyTable<M> {
    /// Creates an empty table.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the sizes are inconsistent; [`Error::Memory`] if the operating
    /// system cannot provide the memory.
    pub fn new(options: &LossyOptions) -> Result<LossyTable<M>> {
        let has_two = options.eviction == CacheEviction::S3Fifo;
        let shares = shares(options, has_two)?;
        let span = |len: usize| len.next_power_of_two() as u64;
        let ghosts = if has_two { shares[1] as u64 } else { 0 };
        let worth = [span(shares[0]) + ghosts, span(shares[1])];
        let most_words = most_words(options, shares[usize::from(has_two)]);
        let sweep = SweepSchedule::new(options, worth[0].max(worth[1]), most_words * WORD)?;
        // After the end of each log, there is space for the rest of an item that starts before the
        // end.
        let words = shares.map(|share| share / WORD + most_words.min(share / 2 / WORD));
        let log = |base, at: usize| CircularLog::new(base, shares[at], options.offset_bits);
        Ok(LossyTable {
            words: ItemWords::reserve(words[0] + if has_two { words[1] } else { 0 })?,
            buckets: BucketArray::reserve(options.buckets)?,
            logs: [log(0, 0), log(words[0], 1)],
            eviction: options.eviction,
            ring_bit: bucket::PLACE_BITS - u32::from(has_two),
            worth,
            seed: options.seed,
            most_words,
            typical_words: options.log_bytes / WORD / (options.buckets * ITEMS_PER_BUCKET),
            sweep,
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

    /// Returns the maximum memory that the table uses, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.len() * WORD + size_of_val(self.buckets.all())
    }

    #[inline(always)]
    pub(super) fn ring(&self, entry: BucketEntry) -> LogRole {
        if entry.place() >> self.ring_bit == 0 {
            LogRole::First
        } else {
            LogRole::Main
        }
    }

    #[inline(always)]
    pub(super) fn log(&self, entry: BucketEntry) -> &CircularLog<M> {
        &self.logs[(entry.place() >> self.ring_bit) as usize]
    }

    /// Returns the entry for a new item at `offset` in the log `ring`.
    #[inline]
    pub(super) fn entry(&self, tag: u64, ring: LogRole, offset: u64) -> BucketEntry {
        let place = offset
            | if ring == LogRole::Main {
                1 << self.ring_bit
            } else {
                0
            };
        BucketEntry::new(tag, place)
    }

    #[inline(always)]
    pub(super) fn number(&self, hash: u64) -> usize {
        bucket::number(hash, self.buckets.all().len())
    }

    #[inline(always)]
    fn find_in(&self, number: usize, key: HashedKey<'_>) -> Option<ItemLocation> {
        let bucket = &self.buckets.all()[number];
        let tag = bucket::tag(key.hash());
        let mut slots = bucket.matches(tag);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Some(entry) = bucket.entry(slot) else { continue };
            let log = self.log(entry);
            if entry.tag() != tag || !log.holds(entry.place()) {
                continue;
            }
            let at = log.word(entry.place());
            if let Some(header) = item::header_of(&self.words, at, key) {
                return Some(ItemLocation {
                    bucket: number,
                    slot,
                    entry,
                    at,
                    header,
                });
            }
        }
        None
    }

    /// Records an access to an item, which may move the item to the tail. Returns its current
    /// location. The caller must have excluded other writers and locked the bucket.
    fn accessed(&self, found: ItemLocation, now: u64) -> ItemLocation {
        let bucket = &self.buckets.all()[found.bucket];
        let moves = match self.eviction {
            CacheEviction::Fifo => false,
            CacheEviction::Lru => true,
            CacheEviction::ApproximateLru => self.logs[0].is_in_older_half(found.entry.place()),
            CacheEviction::S3Fifo => {
                self.count_access(bucket, found);
                false
            }
        };
        if !moves {
            return found;
        }
        let words = item::allocated(&self.words, found.at);
        let offset = self.append(LogRole::First, words, found.bucket, now);
        let at = self.logs[0].word(offset);
        self.words.copy(found.at, at, words);
        let entry = self.entry(found.entry.tag(), LogRole::First, offset);
        bucket.replace(found.slot, Some(entry));
        self.tally.count(TableEvent::Move);
        ItemLocation { entry, at, ..found }
    }

    /// Increments the access count in an entry, up to 3. The bucket need not be locked.
    #[inline]
    fn count_access(&self, bucket: &IndexBucket, found: ItemLocation) {
        let accesses = found.entry.accesses();
        if accesses < 3 {
            let counted = found.entry.with_accesses(accesses + 1);
            bucket.exchange::<M>(found.slot, found.entry, Some(counted));
        }
    }

    /// Removes the ghost of a key with this tag from the bucket, if there is one, and returns
    /// whether there was. A ghost is the entry of an item that was recently dropped from the small
    /// log.
    fn take_ghost(&self, bucket: &IndexBucket, tag: u64) -> bool {
        if self.eviction != CacheEviction::S3Fifo {
            return false;
        }
        let mut slots = bucket.matches(tag);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Some(entry) = bucket.entry(slot) else { continue };
            let age = self.logs[0].age(entry.place());
            let is_ghost = self.ring(entry) == LogRole::First && !self.logs[0].holds(entry.place());
            if is_ghost && age <= self.worth[0] {
                bucket.replace(slot, None);
                return true;
            }
        }
        false
    }

    /// Returns the slot for a new entry, and whether the slot's current entry belongs to an item
    /// that can still be found.
    fn choose_slot(&self, bucket: &IndexBucket) -> (usize, bool) {
        let mut best = (0, 0, false);
        for slot in 0..bucket::WAYS {
            let Some(entry) = bucket.entry(slot) else {
                return (slot, false);
            };
            let (log, ring) = (self.log(entry), self.ring(entry));
            let (age, is_held) = (log.age(entry.place()), log.holds(entry.place()));
            let accesses = entry.accesses();
            let score = replacement_priority(ReplacementCandidate {
                ring,
                leads_to_item: is_held,
                accesses,
                age,
            });
            if score >= best.0 {
                best = (score, slot, is_held);
            }
        }
        (best.1, best.2)
    }

    /// Writes a new item and its entry. The caller must have excluded other writers and locked the
    /// bucket.
    fn insert(
        &self,
        number: usize,
        key: HashedKey<'_>,
        header: ItemHeaderWord,
        (value, expires_at, now): (&[u8], u64, u64),
    ) {
        let (bucket, tag, words) = (
            &self.buckets.all()[number],
            bucket::tag(key.hash()),
            header.needed(),
        );
        let is_long = words * WORD > self.logs[0].len() / 2;
        let ring = if self.take_ghost(bucket, tag) {
            self.tally.count(TableEvent::Return);
            LogRole::Main
        } else if is_long {
            LogRole::Main
        } else {
            LogRole::First
        };
        let offset = self.append(ring, words, number, now);
        let at = self.logs[ring as usize].word(offset);
        item::write(&self.words, at, words, header, (key.bytes(), value, expires_at));
        let (slot, displaces) = self.choose_slot(bucket);
        if displaces {
            self.tally.count(TableEvent::Displace);
        }
        bucket.replace(slot, Some(self.entry(tag, ring, offset)));
    }
}

impl<M> super::core::sealed::SealedTable for LossyTable<M> {}

impl<M: ConcurrencyMode> TableCore for LossyTable<M> {
    type Mode = M;

    fn words(&self) -> &ItemWords<M> {
        &self.words
    }

    fn tally(&self) -> &TableCounters {
        &self.tally
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> &IndexBucket {
        &self.buckets.all()[self.number(hash)]
    }

    #[inline]
    fn prefetch_item(&self, key: HashedKey<'_>) {
        let bucket = self.bucket(key.hash());
        let slots = bucket.matches(bucket::tag(key.hash()));
        if slots != 0
            && let Some(entry) = bucket.entry(slots.trailing_zeros() as usize)
        {
            self.words
                .prefetch(self.log(entry).word(entry.place()), self.typical_words);
        }
    }

    #[inline]
    fn find(&self, key: HashedKey<'_>) -> Option<ItemLocation> {
        self.find_in(self.number(key.hash()), key)
    }

    #[inline(always)]
    fn holds(&self, found: ItemLocation) -> bool {
        self.log(found.entry).holds(found.entry.place())
    }

    fn touch(&self, key: HashedKey<'_>, found: ItemLocation, now: u64) -> ItemLocation {
        match self.eviction {
            CacheEviction::Fifo => found,
            CacheEviction::S3Fifo => {
                self.count_access(self.bucket(key.hash()), found);
                found
            }
            CacheEviction::ApproximateLru if !self.logs[0].is_in_older_half(found.entry.place()) => found,
            CacheEviction::Lru | CacheEviction::ApproximateLru => {
                let number = self.number(key.hash());
                let bucket = &self.buckets.all()[number];
                // If another thread is writing, skip recording the access, so that readers never
                // wait. The recorded accesses are then a sample.
                let Some(_writing) = BucketWriteGuard::<M>::try_begin(&self.latch, bucket) else {
                    return found;
                };
                // Search again, because the item may have been moved or dropped in the meantime.
                match self.find_in(number, key) {
                    Some(found) => self.accessed(found, now),
                    None => found,
                }
            }
        }
    }

    fn set(&self, key: HashedKey<'_>, value: &[u8], expires_at: u64, now: u64) -> Result<()> {
        let header = ItemHeaderWord::new(key.bytes(), value, expires_at)?;
        let needed = header.needed();
        if needed > self.most_words {
            let (what, bytes, most) = ("an item", needed * WORD, self.most_words * WORD);
            return Err(Error::TooLarge { what, bytes, most });
        }
        let number = self.number(key.hash());
        let bucket = &self.buckets.all()[number];
        let _writing: BucketWriteGuard<'_, M> = BucketWriteGuard::begin(&self.latch, bucket);
        self.tally.count(TableEvent::Set);
        if let Some(found) = self.find_in(number, key) {
            let allocated = item::allocated(&self.words, found.at);
            if needed <= allocated {
                let parts = (key.bytes(), value, expires_at);
                item::write(&self.words, found.at, allocated, header, parts);
                self.tally.count(TableEvent::UpdateInPlace);
                self.accessed(found, now);
                return Ok(());
            }
            bucket.replace(found.slot, None);
        }
        self.insert(number, key, header, (value, expires_at, now));
        Ok(())
    }

    fn delete(&self, key: HashedKey<'_>, now: u64) -> bool {
        let number = self.number(key.hash());
        let bucket = &self.buckets.all()[number];
        let _writing: BucketWriteGuard<'_, M> = BucketWriteGuard::begin(&self.latch, bucket);
        let Some(found) = self.find_in(number, key) else {
            return false;
        };
        let was_live = !item::has_expired(&self.words, found.at, found.header, now);
        bucket.replace(found.slot, None);
        self.tally.count(TableEvent::Delete);
        was_live
    }

    /// Does nothing, because an expired item leaves the log once it is the oldest.
    fn reclaim(&self, _now: u64, _buckets: usize) -> usize {
        0
    }
}

/// Returns the maximum number of words in an item. The larger log must hold at least two items.
fn most_words(options: &LossyOptions, log_bytes: usize) -> usize {
    (options.longest_item_bytes.min(log_bytes / 2) / WORD).min(item::MAX_WORDS)
}

/// Returns the sizes of the first log and of the main log, in bytes.
fn shares(options: &LossyOptions, has_two: bool) -> Result<[usize; 2]> {
    let bad = |option, why: String| Err(Error::BadOption { option, why });
    let most_bits = bucket::PLACE_BITS - u32::from(has_two);
    if options.buckets == 0 || options.buckets > 1 << 32 {
        return bad("buckets", format!("{} is not from 1 to 2^32", options.buckets));
    }
    if !(8..=most_bits).contains(&options.offset_bits) {
        return bad(
            "offset_bits",
            format!("{} is not from 8 to {most_bits}", options.offset_bits),
        );
    }
    let least = LEAST_WORDS * WORD;
    if options.log_bytes < least || !options.log_bytes.is_multiple_of(WORD) {
        let why = format!(
            "{} is not a multiple of {WORD}, or is less than {least}",
            options.log_bytes
        );
        return bad("log_bytes", why);
    }
    if options.log_bytes as u64 > 1 << (options.offset_bits - 2) {
        let why = format!(
            "{} exceeds a quarter of the range of offsets of {} bits: use a smaller log or more bits",
            options.log_bytes, options.offset_bits
        );
        return bad("log_bytes", why);
    }
    if !has_two {
        return Ok([options.log_bytes; 2]);
    }
    let small = (options.log_bytes / SMALL_PART).next_multiple_of(WORD);
    Ok([small, options.log_bytes - small])
}
