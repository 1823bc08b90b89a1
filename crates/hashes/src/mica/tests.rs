//! Cache mode tests that need access to internals, for properties that no handle exposes.

use super::bucket::{BucketEntry, WAYS};
use super::core::TableCore;
use super::lossy::{LossyOptions, LossyTable};
use super::mode::Erew;
use super::policy::CacheEviction;
use super::{HashedKey, NEVER};
use std::collections::HashMap;

fn options(eviction: CacheEviction, log_bytes: usize, buckets: usize) -> LossyOptions {
    let (longest_item_bytes, offset_bits, seed) = (usize::MAX, 16, 3);
    LossyOptions {
        log_bytes,
        buckets,
        longest_item_bytes,
        eviction,
        offset_bits,
        seed,
    }
}

/// The tails of the logs as counters that do not wrap around, and the counter value at which each
/// entry was written.
struct Unwrapped {
    tails: [u64; 2],
    last: [u64; 2],
    since: HashMap<(usize, usize, BucketEntry), u64>,
}

impl Unwrapped {
    /// Follows the tails of the logs, and checks that no entry is as old as a wraparound of the
    /// offsets. Returns the greatest age of an entry.
    fn check(&mut self, table: &LossyTable<Erew>, offset_bits: u32) -> u64 {
        let turn = 1 << offset_bits;
        for ring in 0..2 {
            // The age of offset zero is the current tail position.
            let tail = table.logs[ring].age(0);
            self.tails[ring] += tail.wrapping_sub(self.last[ring]) & (turn - 1);
            self.last[ring] = tail;
        }
        let (mut there, mut greatest) = (HashMap::new(), 0);
        for (number, bucket) in table.buckets.all().iter().enumerate() {
            for slot in 0..WAYS {
                let Some(entry) = bucket.entry(slot) else { continue };
                let tail = self.tails[table.ring(entry) as usize];
                let at = (number, slot, entry.with_accesses(0));
                let told = table.log(entry).age(entry.place());
                let offset = self.since.get(&at).copied().unwrap_or(tail - told);
                assert_eq!(tail - offset, told, "an entry has outlived a turn of the offsets");
                greatest = greatest.max(told);
                there.insert(at, offset);
            }
        }
        self.since = there;
        greatest
    }
}

#[test]
fn no_entry_outlives_a_turn_of_the_offsets() {
    for eviction in [
        CacheEviction::Fifo,
        CacheEviction::ApproximateLru,
        CacheEviction::S3Fifo,
    ] {
        for log_bytes in [1 << 12, 5000, 1 << 14] {
            let options = options(eviction, log_bytes, 100);
            let table = LossyTable::<Erew>::new(&options).unwrap();
            let mut unwrapped = Unwrapped {
                tails: [0; 2],
                last: [0; 2],
                since: HashMap::new(),
            };
            let mut random = fastrand::Rng::with_seed(4);
            let mut greatest = 0;
            for step in 0..20_000_u64 {
                // Write only a few buckets in this phase, so that the entries in all other buckets
                // grow old.
                let key = step / 4000 * 1000 + random.u64(..60);
                let bytes = key.to_le_bytes();
                let key = HashedKey::new(options.seed, &bytes);
                if random.u8(..4) == 0
                    && let Some(found) = TableCore::find(&table, key)
                {
                    table.touch(key, found, 0);
                }
                let value = vec![1; random.usize(..200)];
                table.delete(key, 0);
                table.set(key, &value, NEVER, 0).unwrap();
                greatest = greatest.max(unwrapped.check(&table, options.offset_bits));
            }
            assert!(
                greatest > table.worth[0],
                "some were swept, and not at once: {greatest}"
            );
            assert!(table.stats().swept > 0);
        }
    }
}

#[test]
fn an_item_that_crosses_the_end_of_the_log_is_read_in_one_piece() {
    let options = options(CacheEviction::Fifo, 1000, 4);
    let table = LossyTable::<Erew>::new(&options).unwrap();
    let mut crossed = 0;
    for number in 0..500_u64 {
        let (bytes, value) = (number.to_le_bytes(), vec![number as u8; 150]);
        let key = HashedKey::new(options.seed, &bytes);
        table.set(key, &value, NEVER, 0).unwrap();
        let found = TableCore::find(&table, key).unwrap();
        let start = found.at + found.header.value_at();
        crossed += u32::from(start < 250 && start + 38 > 250);
        let mut read = vec![0; 150];
        table.words.read(start, &mut read);
        assert_eq!(read, value);
        // Earlier items must still be intact.
        if number > 3 {
            let bytes = (number - 3).to_le_bytes();
            let older = TableCore::find(&table, HashedKey::new(options.seed, &bytes)).unwrap();
            table.words.read(older.at + older.header.value_at(), &mut read);
            assert_eq!(read, vec![(number - 3) as u8; 150]);
        }
    }
    assert!(crossed > 30, "{crossed} items crossed the end");
}
