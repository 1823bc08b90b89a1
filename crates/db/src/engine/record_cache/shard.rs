//! A shard of the record cache. One lock protects the ring of records, the hash table that finds
//! them, and the ghosts of rejected and evicted keys.

use super::ghosts::{GHOST_BYTES, GhostTable};
use super::ring::RecordRing;
use super::table::{MOST_HEAT, RecordTable, SLOT_BYTES};
use alluvium_base::checksum;

/// Minimum budget of a shard, in bytes. A shard with a smaller budget caches nothing.
/// Tuning: `4 << 10` since 2026-11-22.
const LEAST_BYTES: usize = 4 << 10;

/// Load, in percent, for which the hash table is sized when the ring is full.
/// Tuning: `65` since 2026-11-22.
const LOAD_PERCENT: usize = 65;

/// Maximum load of the hash table, in percent. At a higher load, a larger table replaces it.
/// Tuning: `80` since 2026-11-22.
const MOST_LOAD_PERCENT: usize = 80;
/// Minimum load of the hash table when the ring is full, in percent. At a lower load, a smaller
/// table replaces it.
/// Tuning: `25` since 2026-11-22.
const LEAST_LOAD_PERCENT: usize = 25;

/// Number of ring bytes assumed for each record while the mean record size is unknown.
/// Tuning: `128` since 2026-11-22.
const FIRST_RECORD_BYTES: usize = 128;

/// One in this many flushed keys is admitted as a sample, to learn how soon flushed keys are read.
/// Under the model checker, every flushed key is a sample.
/// Tuning: `if cfg!(alluvium_model_check) { 1 } else { 16 }` since 2026-11-22.
const SAMPLED: u64 = if cfg!(alluvium_model_check) { 1 } else { 16 };
/// Minimum percentage of samples that must have been read since their admission for all flushed
/// keys to be admitted. With fewer than [`LEAST_SAMPLES`] samples, the percentage is not meaningful
/// yet, and only samples are admitted. At [`MOST_SAMPLES`] samples, both counts are halved, so that
/// recent samples weigh more.
/// Tuning: `25` since 2026-11-22.
const WORTH_PERCENT: u32 = 25;
/// Minimum number of samples that are significant.
/// Tuning: `16` since 2026-11-22.
const LEAST_SAMPLES: u32 = 16;
/// Maximum number of samples. At this number, the weight of the existing samples is halved.
/// Tuning: `256` since 2026-11-22.
const MOST_SAMPLES: u32 = 256;
/// Maximum length, in bytes, of a value that is admitted before it has been read.
/// Tuning: `1 << 10` since 2026-11-22.
const LONGEST_FRESH: usize = 1 << 10;

/// Maximum number of used records to move behind the others before a record is evicted even if it
/// was used.
/// Tuning: `32` since 2026-11-22.
const MOST_AGAIN: usize = 32;

const _: () = assert!(LEAST_LOAD_PERCENT < LOAD_PERCENT && LOAD_PERCENT < MOST_LOAD_PERCENT);

#[derive(Debug, Default)]
pub(super) struct CacheShard {
    table: RecordTable,
    ring: RecordRing,
    ghosts: GhostTable,
    budget: usize,
    pub(super) hits: u64,
    pub(super) misses: u64,
    /// Number of offered records whose key was recently read or evicted.
    pub(super) ghost_hits: u64,
    fresh: AdmissionSamples,
}

/// How many of the samples, which are flushed keys admitted before they were read, have been read
/// since.
#[derive(Clone, Copy, Debug, Default)]
struct AdmissionSamples {
    samples: u32,
    used: u32,
}

impl AdmissionSamples {
    fn begin(&mut self) {
        if self.samples == MOST_SAMPLES {
            (self.samples, self.used) = (self.samples / 2, self.used / 2);
        }
        self.samples += 1;
    }

    /// Returns whether flushed keys are usually read. This is an underestimate, because it does not
    /// count samples that will be read later.
    fn are_worth_it(self) -> bool {
        self.samples >= LEAST_SAMPLES && self.used * 100 >= self.samples * WORTH_PERCENT
    }
}

impl CacheShard {
    /// Returns the size of the allocated memory, in bytes. The resident memory may be smaller,
    /// because some of it may never have been accessed.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes() + self.ring.bytes() + self.ghosts.bytes()
    }

    /// Returns the size of the memory in use, in bytes.
    pub(super) fn used_bytes(&self) -> usize {
        self.ring.filled() + self.len() * (CacheShard::bytes_of(0))
    }

    /// Returns the number of cached records.
    pub(super) fn len(&self) -> usize {
        self.table.used()
    }

    /// Returns whether the ring is full. A new record is then admitted only if its key is a ghost.
    pub(super) fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// Returns the number of additional bytes needed to cache the records of all ghosts.
    pub(super) fn ghost_bytes(&self) -> usize {
        self.ghosts.keys() * self.ring.mean().map_or(FIRST_RECORD_BYTES, CacheShard::bytes_of)
    }

    /// Returns the memory needed for a record that occupies `in_ring` bytes of the ring, including
    /// its share of the hash table's used and free slots, and half a ghost.
    fn bytes_of(in_ring: usize) -> usize {
        in_ring + SLOT_BYTES * 100 / LOAD_PERCENT + GHOST_BYTES / 2
    }

    /// Prefetches the hash table slots for a hash.
    pub(super) fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Prefetches the record that probably matches a hash.
    pub(super) fn prefetch_record(&self, hash: u64) {
        if let Some(place) = self.table.likely(hash) {
            self.ring.prefetch(place);
        }
    }

    /// Looks up a key. If it is cached, appends its value to `value` and returns true.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> bool {
        let CacheShard { table, ring, .. } = self;
        let found = table.find(hash, |place| ring.key(place) == key);
        match found {
            Some(slot) => {
                slot.set_heat(MOST_HEAT.min(slot.heat() + 1));
                self.fresh.used += u32::from(slot.end_sample());
                let kept = ring.value(slot.place);
                value.reserve_exact(kept.len());
                value.extend_from_slice(kept);
                self.hits += 1;
                true
            }
            None => {
                self.misses += 1;
                false
            }
        }
    }

    /// Admits a record if the ring has free space, or if the record's key was recently read or
    /// evicted. Otherwise remembers the key as a ghost.
    pub(super) fn offer(&mut self, hash: u64, key: &[u8], value: &[u8]) {
        let CacheShard { table, ring, .. } = self;
        let len = key.len() + value.len();
        if len > ring.longest() || table.find(hash, |place| ring.key(place) == key).is_some() {
            return;
        }
        let is_known = self.ghosts.take(hash);
        self.ghost_hits += u64::from(is_known);
        if is_known {
            self.keep(hash, key, value, 0);
        } else if let Some(place) = ring.push(key, value) {
            table.add(hash, place, 0);
            self.fit();
        } else {
            self.ghosts.note(hash);
        }
    }

    /// Adds a record, evicting others if necessary. The record must not be longer than the ring
    /// allows.
    fn keep(&mut self, hash: u64, key: &[u8], value: &[u8], heat: u8) {
        let mut again = 0;
        let place = loop {
            match self.ring.push(key, value) {
                Some(place) => break place,
                None => self.evict(&mut again),
            }
        };
        self.table.add(hash, place, heat);
        self.fit();
    }

    /// Updates the value of a cached key. Returns whether the key is cached.
    pub(super) fn renew(&mut self, hash: u64, key: &[u8], value: &[u8], is_hot: bool) -> bool {
        let CacheShard { table, ring, .. } = self;
        let Some(slot) = table.find(hash, |place| ring.key(place) == key) else {
            return false;
        };
        let heat = MOST_HEAT.min(slot.heat() + u8::from(is_hot));
        if ring.overwrite(slot.place, value) {
            slot.set_heat(heat);
            return true;
        }
        table.remove(hash, |place| ring.key(place) == key);
        if key.len() + value.len() <= ring.longest() {
            self.keep(hash, key, value, heat);
        }
        true
    }

    /// Returns whether to admit a flushed key that is not cached before it has been read, because
    /// it is a sample or because flushed keys are usually read.
    pub(super) fn wants_fresh(&self, hash: u64, len: usize) -> bool {
        len <= LONGEST_FRESH && (is_sampled(hash) || self.fresh.are_worth_it())
    }

    /// Admits a flushed key if its record is not too long. [`CacheShard::wants_fresh`] must have
    /// returned true for the key.
    pub(super) fn keep_fresh(&mut self, hash: u64, key: &[u8], value: &[u8]) {
        let CacheShard { table, ring, .. } = self;
        let is_here = table.find(hash, |place| ring.key(place) == key).is_some();
        if is_here || key.len() + value.len() > ring.longest() {
            return;
        }
        self.keep(hash, key, value, 0);
        if is_sampled(hash) {
            let CacheShard { table, ring, .. } = self;
            if let Some(slot) = table.find(hash, |place| ring.key(place) == key) {
                slot.begin_sample();
                self.fresh.begin();
            }
        }
    }

    /// Remembers a flushed key as a ghost. Called for keys that were written several times.
    pub(super) fn remember(&mut self, hash: u64) {
        if self.ring.is_full() {
            self.ghosts.take(hash);
            self.ghosts.note(hash);
        }
    }

    /// Evicts the oldest record. If the record was used, it is moved behind the other records
    /// instead, at most [`MOST_AGAIN`] times for each new record.
    fn evict(&mut self, again: &mut usize) {
        let Some(oldest) = self.ring.pop() else {
            return;
        };
        let hash = checksum(self.ring.key(oldest));
        let Some(slot) = self.table.find(hash, |place| place == oldest) else {
            // The record had already been removed from the table.
            return;
        };
        if slot.heat() > 0
            && *again < MOST_AGAIN
            && let Some(place) = self.ring.reinsert(oldest)
        {
            *again += 1;
            slot.place = place;
            slot.set_heat(slot.heat() - 1);
            return;
        }
        self.table.remove(hash, |place| place == oldest);
        self.ghosts.note(hash);
    }

    /// Replaces the hash table if the records are much shorter or longer than those that it was
    /// sized for.
    fn fit(&mut self) {
        let slots = self.table.slots();
        let records = self.ring.len();
        let is_crowded = self.table.used() * 100 > slots * MOST_LOAD_PERCENT;
        let is_empty = records * 100 < slots * LEAST_LOAD_PERCENT && self.ring.is_full();
        if is_crowded || is_empty {
            self.reshape(self.budget);
        }
    }

    pub(super) fn forget(&mut self, hash: u64, key: &[u8]) {
        let CacheShard { table, ring, .. } = self;
        table.remove(hash, |place| ring.key(place) == key);
    }

    /// Removes all records for whose keys `is` returns true.
    pub(super) fn forget_all(&mut self, is: impl Fn(&[u8]) -> bool) {
        let CacheShard { table, ring, .. } = self;
        table.remove_all(|place| is(ring.key(place)));
    }

    /// Resizes the shard to a budget of `budget` bytes. If not all records fit, drops those that
    /// were not used recently first, from the oldest to the newest.
    pub(super) fn reshape(&mut self, budget: usize) {
        let mut old = std::mem::take(self);
        self.budget = budget;
        (self.hits, self.misses, self.ghost_hits) = (old.hits, old.misses, old.ghost_hits);
        self.fresh = old.fresh;
        if budget < LEAST_BYTES {
            return;
        }
        let records = budget / old.ring.mean().map_or(FIRST_RECORD_BYTES, CacheShard::bytes_of);
        self.table = RecordTable::new((records * 100 / LOAD_PERCENT).max(1));
        self.ghosts = old.ghosts.resized(records / 2);
        let beside = self.table.bytes() + self.ghosts.bytes();
        self.ring = RecordRing::new(budget.saturating_sub(beside));
        while let Some(place) = old.ring.pop() {
            let key = old.ring.key(place);
            let hash = checksum(key);
            let value = old.ring.value(place);
            let Some(heat) = old.table.remove(hash, |found| found == place) else {
                continue;
            };
            if key.len() + value.len() > self.ring.longest() {
                continue;
            }
            let with_all = self.ring.filled() + RecordRing::taken_by(key, value) + old.ring.filled();
            if heat == 0 && with_all > self.ring.bytes() {
                self.ghosts.note(hash);
                continue;
            }
            let mut again = MOST_AGAIN;
            loop {
                if let Some(place) = self.ring.push(key, value) {
                    self.table.add(hash, place, heat);
                    break;
                }
                self.evict(&mut again);
            }
        }
    }
}

fn is_sampled(hash: u64) -> bool {
    (hash >> 8).is_multiple_of(SAMPLED)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    fn shard(budget: usize) -> CacheShard {
        let mut shard = CacheShard::default();
        shard.reshape(budget);
        shard
    }

    fn offer(shard: &mut CacheShard, key: &[u8], value: &[u8]) {
        shard.offer(checksum(key), key, value);
    }

    fn get(shard: &mut CacheShard, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        shard.get(checksum(key), key, &mut value).then_some(value)
    }

    #[test]
    fn what_is_used_stays_while_what_is_asked_for_now_and_then_passes_by() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut shard = shard(64 << 10);
        let ask = |shard: &mut CacheShard, key: String| {
            let found = get(shard, key.as_bytes()).is_some();
            if !found {
                offer(shard, key.as_bytes(), &[1; 100]);
            }
            found
        };
        let (mut hot, mut cold) = (0, 0);
        for turn in 0..100_000u32 {
            hot += u32::from(ask(&mut shard, format!("hot {}", turn % 50)));
            cold += u32::from(ask(&mut shard, format!("cold {}", random.u32(0..5000))));
        }
        assert!(hot > 99_000, "{hot} of 100,000 hits among 50 keys");
        assert!((2_000..12_000).contains(&cold), "{cold} of 100,000 among 5,000");
        assert!(shard.ghost_hits > 1_000, "{} were let in", shard.ghost_hits);
    }

    #[test]
    fn whoever_was_turned_away_is_known_after_a_change_of_size() {
        let mut shard = shard(64 << 10);
        let key = |number: u32| format!("key {number}").into_bytes();
        (0..600).for_each(|number| offer(&mut shard, &key(number), &[1; 100]));
        assert!(shard.is_full() && shard.ghost_hits == 0);
        let turned_away: Vec<Vec<u8>> = (0..600)
            .map(key)
            .filter(|key| get(&mut shard, key).is_none())
            .collect();
        shard.reshape(66 << 10);
        for key in turned_away.iter().rev().take(50) {
            offer(&mut shard, key, &[1; 100]);
            assert!(get(&mut shard, key).is_some());
        }
        assert!(shard.ghost_hits > 45, "{} of 50 were known", shard.ghost_hits);
    }

    #[test]
    fn who_is_used_stays_when_there_is_less_room() {
        let mut shard = shard(64 << 10);
        let key = |number: u32| format!("key {number:03}").into_bytes();
        (0..400).for_each(|number| offer(&mut shard, &key(number), &[1; 100]));
        let all = shard.len();
        let is_here = |shard: &mut CacheShard, number| get(shard, &key(number)).is_some();
        let used: Vec<u32> = (0..150).filter(|&number| is_here(&mut shard, number)).collect();
        assert!(used.len() > 100 && all > 300);
        shard.reshape(40 << 10);
        assert!(shard.len() < all && shard.bytes() <= 40 << 10);
        for number in used {
            assert!(is_here(&mut shard, number), "{number} was used");
        }
        let (middle, newest) = (200..250, 300..350);
        let mut left =
            |range: std::ops::Range<u32>| range.filter(|&number| is_here(&mut shard, number)).count();
        assert!(left(newest) > left(middle), "the oldest of the others go first");
    }

    #[test]
    fn who_is_written_often_and_was_not_kept_is_let_in_when_he_is_asked_for() {
        let mut shard = shard(16 << 10);
        let names = |what: &str| (0..500).map(|n| format!("{what} {n}")).collect::<Vec<_>>();
        for key in names("filling") {
            offer(&mut shard, key.as_bytes(), &[1; 100]);
        }
        let (hot, cold) = ("hot", "cold");
        for (key, is_hot) in [(hot, true), (cold, false)] {
            let hash = checksum(key.as_bytes());
            assert!(!shard.renew(hash, key.as_bytes(), &[2; 100], is_hot));
            if is_hot {
                shard.remember(hash);
            }
            assert_eq!(get(&mut shard, key.as_bytes()), None);
            offer(&mut shard, key.as_bytes(), &[2; 100]);
            assert_eq!(get(&mut shard, key.as_bytes()).is_some(), is_hot);
        }
    }

    #[test]
    fn fresh_keys_are_kept_where_they_are_asked_for() {
        for is_asked in [true, false] {
            let mut shard = shard(256 << 10);
            let (mut wanted, mut late) = (0, 0);
            for number in 0..8_000u32 {
                let key = format!("fresh {number}");
                let hash = checksum(key.as_bytes());
                if shard.wants_fresh(hash, 100) {
                    shard.keep_fresh(hash, key.as_bytes(), &[1; 100]);
                    late += u32::from(number >= 4_000);
                    wanted += 1;
                }
                if is_asked && let Some(before) = number.checked_sub(100) {
                    get(&mut shard, format!("fresh {before}").as_bytes());
                }
            }
            assert!(!shard.wants_fresh(0, LONGEST_FRESH + 1));
            let some = 8_000 / SAMPLED as u32;
            if is_asked {
                assert_eq!(late, 4_000);
            } else {
                assert!((some / 2..some * 2).contains(&wanted), "{wanted} samples");
            }
        }
    }

    #[test]
    fn any_mixture_of_operations_answers_what_was_offered_within_the_budget() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut budget = 64 << 10;
        let mut shard = shard(budget);
        let mut forgotten = std::collections::HashSet::new();
        let value = |key: u32, longest: u32| vec![key as u8; (key % longest) as usize];
        let (mut found, mut longest, mut shapes) = (0, 40, 0);
        for turn in 0..300_000u32 {
            if turn % 50_000 == 0 {
                // First add long records, and then short ones again.
                longest = 1240 - longest;
                shard.forget_all(|_| true);
                assert_eq!(shard.len(), 0);
                shapes += 1;
            }
            let number = random.u32(0..3000) * random.u32(0..100) / 100;
            let key = format!("key {number}").into_bytes();
            match random.u32(0..1000) {
                0 => {
                    budget = random.usize(0..128 << 10);
                    shard.reshape(budget);
                }
                1..20 => {
                    shard.forget(checksum(&key), &key);
                    forgotten.insert(number);
                }
                20..40 => {
                    let renewed = value(number, longest);
                    let hash = checksum(&key);
                    if !shard.renew(hash, &key, &renewed, number.is_multiple_of(2))
                        && shard.wants_fresh(hash, 8)
                    {
                        shard.keep_fresh(hash, &key, &renewed);
                        forgotten.remove(&number);
                    }
                    if let Some(got) = get(&mut shard, &key) {
                        assert_eq!(got, renewed);
                    }
                }
                40..50 => shard.forget_all(|key| key.ends_with(b"7")),
                _ => match get(&mut shard, &key) {
                    Some(got) => {
                        assert_eq!(got, value(number, longest));
                        assert!(!forgotten.contains(&number));
                        found += 1;
                    }
                    None => {
                        offer(&mut shard, &key, &value(number, longest));
                        forgotten.remove(&number);
                    }
                },
            }
            assert!(
                shard.bytes() <= budget.max(LEAST_BYTES),
                "{} of {budget}",
                shard.bytes()
            );
        }
        assert!(found > 50_000 && shapes == 6, "{found} found");
    }
}
