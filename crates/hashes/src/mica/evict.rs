//! Eviction, which frees space in a cache by dropping or moving the oldest items in its logs.

use super::bucket::{self, BucketEntry, IndexBucket};
use super::item::{self, ItemHeaderWord};
use super::lossy::LossyTable;
use super::memory::WORD;
use super::mode::ConcurrencyMode;
use super::policy::{CacheEviction, EvictionDecision, LogRole, MainLog, decide_eviction};
use super::stats::TableEvent;
use alluvium_base::checksum::seeded;
use smallvec::SmallVec;

/// State of an append that may have to evict items.
#[derive(Clone, Copy)]
struct AppendContext {
    /// Number of the bucket that the writer has locked.
    own: usize,
    /// Number of the bucket that contains the entry of the item being moved. This bucket is locked
    /// in addition to `own`, unless both are the same.
    moving: Option<usize>,
    now: u64,
    /// `moves` is the number of items moved so far. `words` is the number of words appended so far,
    /// including those of moved items.
    moves: u32,
    words: usize,
}

impl<M: ConcurrencyMode> LossyTable<M> {
    /// Allocates `words` words at the tail of a log, evicting the oldest items until there is
    /// enough space. Returns the offset of the words. The caller must have excluded other writers
    /// and locked the bucket `own`, whose entries may change.
    pub(super) fn append(&self, ring: LogRole, words: usize, own: usize, now: u64) -> u64 {
        let mut waiting = AppendContext {
            own,
            moving: None,
            now,
            moves: 0,
            words,
        };
        let offset = self.append_to(ring, words, &mut waiting);
        self.sweep_after(waiting.words * WORD);
        offset
    }

    fn append_to(&self, ring: LogRole, words: usize, waiting: &mut AppendContext) -> u64 {
        let log = &self.logs[ring as usize];
        while !log.has_space(words) {
            self.drop_oldest(ring, waiting);
        }
        log.append(words)
    }

    /// Frees the space of the oldest item in a log, by dropping it or moving it to the tail of the
    /// main log.
    fn drop_oldest(&self, ring: LogRole, waiting: &mut AppendContext) {
        let log = &self.logs[ring as usize];
        let offset = log.oldest().expect("a log without items has space");
        let at = log.word(offset);
        let words = item::allocated(&self.words, at);
        if self.eviction == CacheEviction::S3Fifo && self.keep_oldest(ring, offset, words, waiting) {
            self.tally.count(TableEvent::Move);
            return;
        }
        log.drop_oldest(words);
        self.tally.count(TableEvent::Drop);
    }

    /// Moves the oldest item in a log to the tail of the main log if the eviction policy retains
    /// it. Returns whether it was moved.
    fn keep_oldest(&self, ring: LogRole, offset: u64, words: usize, waiting: &mut AppendContext) -> bool {
        let at = self.logs[ring as usize].word(offset);
        let header = ItemHeaderWord::load(&self.words, at);
        if item::has_expired(&self.words, at, header, waiting.now) {
            return false;
        }
        let mut key: SmallVec<[u8; 64]> = SmallVec::from_elem(0, header.key_len());
        self.words.read(at + header.key_at(), &mut key);
        let hash = seeded(self.seed, &key);
        let number = self.number(hash);
        let bucket = &self.buckets.all()[number];
        let is_locked = number == waiting.own || waiting.moving == Some(number);
        let _locked = (!is_locked).then(|| bucket.lock::<M>());
        let Some((slot, entry)) = entry_of(bucket, self.entry(bucket::tag(hash), ring, offset)) else {
            return false;
        };
        let has_space = self.logs[LogRole::Main as usize].has_space(words);
        let main = if has_space {
            MainLog::HasSpace
        } else {
            MainLog::IsFull
        };
        let EvictionDecision::Move { accesses } =
            decide_eviction(ring, entry.accesses(), waiting.moves, main)
        else {
            self.tally.count(TableEvent::Evict);
            return false;
        };
        waiting.moves += 1;
        waiting.words += words;
        let outer = waiting.moving.replace(number);
        let target = self.move_oldest(ring, at, words, waiting);
        waiting.moving = outer;
        let entry = self
            .entry(entry.tag(), LogRole::Main, target)
            .with_accesses(accesses);
        bucket.replace(slot, Some(entry));
        true
    }

    /// Copies the oldest item in a log to the tail of the main log and frees its previous space.
    /// Returns the new offset.
    fn move_oldest(&self, ring: LogRole, at: usize, words: usize, waiting: &mut AppendContext) -> u64 {
        let main = &self.logs[LogRole::Main as usize];
        let target = match ring {
            LogRole::Main => {
                main.drop_oldest(words);
                main.append(words)
            }
            LogRole::First => self.append_to(LogRole::Main, words, waiting),
        };
        self.words.copy(at, main.word(target), words);
        if ring == LogRole::First {
            self.logs[LogRole::First as usize].drop_oldest(words);
        }
        target
    }

    /// Clears stale entries in a number of buckets that is proportional to the number of appended
    /// `bytes`.
    fn sweep_after(&self, bytes: usize) {
        let buckets = self.buckets.all();
        self.sweep.after(bytes, buckets.len(), |number| {
            let bucket = &buckets[number];
            for slot in 0..bucket::WAYS {
                if let Some(entry) = bucket.entry(slot)
                    && self.log(entry).age(entry.place()) > self.worth[self.ring(entry) as usize]
                {
                    bucket.exchange::<M>(slot, entry, None);
                    self.tally.count(TableEvent::Sweep);
                }
            }
        });
    }
}

/// Finds the entry that equals `wanted` in a bucket, ignoring access counts. Returns its slot and
/// the entry.
fn entry_of(bucket: &IndexBucket, wanted: BucketEntry) -> Option<(usize, BucketEntry)> {
    (0..bucket::WAYS)
        .filter_map(|slot| Some((slot, bucket.entry(slot)?)))
        .find(|(_, entry)| entry.with_accesses(0) == wanted)
}
