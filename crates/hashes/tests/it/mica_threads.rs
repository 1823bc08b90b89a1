//! Tests readers and writers on real threads: no value is torn, belongs to another key, or is older
//! than an earlier read.

use alluvium_hashes::mica::mode::{Crcw, Crew};
use alluvium_hashes::mica::{
    CacheEviction, HashedKey, LosslessOptions, LosslessTable, LossyOptions, LossyTable, NEVER, SharedTable,
    TableReader, TableWriter, partition,
};
use std::sync::atomic::{AtomicBool, Ordering};

const SEED: u64 = 8;
const KEYS: u64 = 300;

/// Returns a value that identifies its key and version, and shows whether it is complete.
fn value(key: u64, version: u64) -> Vec<u8> {
    let word = (key << 40 | version).to_le_bytes();
    word.repeat(1 + (version % 12) as usize)
}

/// Returns the version of a complete value.
fn version(key: u64, bytes: &[u8]) -> u64 {
    let first = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(first >> 40, key, "another key's value");
    let version = first & 0xff_ffff_ffff;
    assert!(bytes == value(key, version), "torn: {bytes:?}");
    version
}

/// Signals the end of writing, even if an assertion fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads random keys until `is_over`, and a few more. Versions never decrease, because writers only
/// increase them.
fn read(seed: u64, is_over: &AtomicBool, mut get: impl FnMut(HashedKey<'_>, &mut Vec<u8>) -> bool) -> u64 {
    let (mut random, mut bytes, mut hits) = (fastrand::Rng::with_seed(seed), Vec::new(), 0);
    let mut newest = vec![0; KEYS as usize];
    let mut left = 2000;
    while left > 0 {
        left -= u32::from(is_over.load(Ordering::Relaxed));
        let key = random.u64(..KEYS);
        if get(HashedKey::new(SEED, &key.to_le_bytes()), &mut bytes) {
            let (version, newest) = (version(key, &bytes), &mut newest[key as usize]);
            assert!(
                version >= *newest,
                "key {key} went from {newest} back to {version}"
            );
            *newest = version;
            hits += 1;
        }
    }
    hits
}

fn lossy(eviction: CacheEviction) -> LossyOptions {
    LossyOptions {
        eviction,
        seed: SEED,
        // Make offsets wrap around after 64 KiB.
        offset_bits: 16,
        longest_item_bytes: 200,
        ..LossyOptions::new(6000, 60)
    }
}

#[test]
fn readers_beside_one_writer_see_whole_values_while_the_log_wraps() {
    for eviction in [
        CacheEviction::Fifo,
        CacheEviction::ApproximateLru,
        CacheEviction::S3Fifo,
    ] {
        let mut writer = TableWriter::new(LossyTable::<Crew>::new(&lossy(eviction)).unwrap());
        let is_over = AtomicBool::new(false);
        let hits: u64 = std::thread::scope(|scope| {
            let is_over = &is_over;
            let threads: Vec<_> = (0..2)
                .map(|seed| (seed, writer.reader()))
                .map(|(seed, reader)| {
                    scope.spawn(move || read(seed, is_over, |key, value| reader.get(key, 0, value)))
                })
                .collect();
            let over = Over(is_over);
            let (mut random, mut bytes) = (fastrand::Rng::with_seed(9), Vec::new());
            for version in 1..60_000 {
                let key = random.u64(..KEYS);
                let hashed = key.to_le_bytes();
                let hashed = HashedKey::new(SEED, &hashed);
                match random.u8(..10) {
                    0 => _ = writer.delete(hashed, 0),
                    1..=3 => _ = writer.get(hashed, 0, &mut bytes),
                    _ => writer.set(hashed, &value(key, version), NEVER, 0).unwrap(),
                }
            }
            drop(over);
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(hits > 0);
        let stats = writer.table().stats();
        assert!(stats.dropped > 10_000 && stats.updates_in_place > 0, "{stats:?}");
    }
}

#[test]
fn a_store_that_all_threads_write_loses_nothing_and_tears_nothing() {
    let options = LosslessOptions {
        seed: SEED,
        ..LosslessOptions::new(KEYS as usize, 120)
    };
    let table = SharedTable::new(LosslessTable::<Crcw>::new(&options).unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        let reader = table.clone();
        let reading = scope.spawn(|| read(3, &is_over, move |key, value| reader.get(key, 0, value)));
        let writing: Vec<_> = (0..2)
            .map(|thread| (thread, table.clone()))
            .map(|(thread, table)| {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    let (mut bytes, mut last) = (Vec::new(), vec![0; KEYS as usize]);
                    for round in 1..20_000 {
                        // Check the thread's own keys, whose values it knows.
                        let key = random.u64(..KEYS / 2) * 2 + thread;
                        let hashed = key.to_le_bytes();
                        let hashed = HashedKey::new(SEED, &hashed);
                        let is_there = table.get(hashed, 0, &mut bytes);
                        let known = last[key as usize];
                        assert_eq!(if is_there { version(key, &bytes) } else { 0 }, known);
                        if random.u8(..4) == 0 {
                            assert_eq!(table.delete(hashed, 0), is_there);
                            last[key as usize] = 0;
                        } else if table.set(hashed, &value(key, round), NEVER, 0).is_ok() {
                            last[key as usize] = round;
                        }
                    }
                    last.iter().filter(|version| **version > 0).count()
                })
            })
            .collect();
        let left: usize = writing.into_iter().map(|thread| thread.join().unwrap()).sum();
        drop(over);
        assert!(reading.join().unwrap() > 0);
        assert_eq!(table.table().items(), left);
    });
}

#[test]
fn keys_of_several_partitions_are_answered_at_once() {
    const PARTITIONS: usize = 3;
    let options = LossyOptions {
        seed: SEED,
        ..LossyOptions::new(60_000, 16)
    };
    let tables: Vec<SharedTable<LossyTable<Crcw>>> = (0..PARTITIONS)
        .map(|_| SharedTable::new(LossyTable::new(&options).unwrap()))
        .collect();
    let mut writers: Vec<TableWriter<LossyTable<Crew>>> = (0..PARTITIONS)
        .map(|_| TableWriter::new(LossyTable::new(&options).unwrap()))
        .collect();
    let bytes: Vec<[u8; 8]> = (0..200_u64).map(u64::to_le_bytes).collect();
    let keys: Vec<HashedKey<'_>> = bytes.iter().map(|bytes| HashedKey::new(SEED, bytes)).collect();
    let items: Vec<(HashedKey<'_>, &[u8])> = keys[..150].iter().map(|key| (*key, key.bytes())).collect();
    SharedTable::set_many_of(&tables, &items, 0, |_, set| set.unwrap());
    for (key, value) in &items {
        writers[partition(key.hash(), PARTITIONS)].set_many(&[(*key, value)], 0, |_, set| set.unwrap());
    }
    let readers: Vec<TableReader<LossyTable<Crew>>> = writers.iter().map(TableWriter::reader).collect();
    let expected = |number: usize| (number < 150).then(|| keys[number].bytes());
    let mut answered = [0, 0];
    SharedTable::get_many_of(&tables, &keys, 0, |number, value| {
        assert_eq!((number, value), (answered[0], expected(number)));
        answered[0] += 1;
    });
    TableReader::get_many_of(&readers, &keys, 0, |number, value| {
        assert_eq!((number, value), (answered[1], expected(number)));
        answered[1] += 1;
    });
    assert_eq!(answered, [200, 200]);
    let found: u64 = writers.iter().map(|writer| writer.table().stats().hits).sum();
    assert_eq!(found, 150);
}
