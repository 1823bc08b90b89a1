//! The record cache returns only current records.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Keyspace, KeyspaceOptions, Options, WriteBatch};
use alluvium_base::Purpose;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

fn store() -> Db {
    let options = Options::new().memory(16 << 20).record_memory(1 << 20);
    options.open_in(Arc::new(MemoryDirectory::new())).unwrap()
}

/// The history of each key. Commit n puts n, or deletes the key if n is divisible by five, so a
/// reader can tell between which commits it read.
struct Histories {
    begun: Vec<AtomicU64>,
    done: Vec<AtomicU64>,
}

/// Number of keys per writer.
const OWN: usize = 300;
const WRITERS: usize = 2;

impl Histories {
    fn new() -> Histories {
        let zeros = || (0..OWN * WRITERS).map(|_| AtomicU64::new(0)).collect();
        Histories {
            begun: zeros(),
            done: zeros(),
        }
    }

    /// Advances keys to commit n by calling `commit`.
    fn advance(&self, keys: std::ops::Range<usize>, n: u64, commit: impl FnOnce()) {
        keys.clone()
            .for_each(|key| self.begun[key].store(n, Ordering::SeqCst));
        commit();
        keys.for_each(|key| self.done[key].store(n, Ordering::SeqCst));
    }

    fn check(&self, key: usize, least: u64, found: Option<&[u8]>) {
        let most = self.begun[key].load(Ordering::SeqCst);
        match found {
            Some(value) => {
                let n = u64::from_be_bytes(value.try_into().unwrap());
                assert!(
                    (least..=most).contains(&n),
                    "key {key}: {n} is not of {least}..={most}"
                );
                assert_ne!(n % 5, 0);
            }
            None => assert!(
                least.next_multiple_of(5) <= most,
                "key {key}: nothing within {least}..={most}"
            ),
        }
    }
}

fn name(key: usize) -> String {
    format!("key {key:04}")
}

/// Puts keys, deletes keys and deletes ranges among the writer's own keys.
fn write(keyspace: &Keyspace, histories: &Histories, writer: usize, enough: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(writer as u64);
    let own = writer * OWN..(writer + 1) * OWN;
    let mut at = 0u64;
    for round in 0..1_000_000 {
        if round >= 8_000 && enough.load(Ordering::Relaxed) {
            break;
        }
        at += 1;
        if random.u32(0..500) == 0 {
            at = at.next_multiple_of(5);
            histories.advance(own.clone(), at, || {
                keyspace
                    .delete_range(name(own.start), Some(name(own.end).as_bytes()))
                    .unwrap();
            });
            continue;
        }
        // Write some keys more often, so that some are in no memtable and others in several.
        let key = own.start + random.usize(0..OWN) * random.usize(0..OWN) / OWN;
        histories.advance(key..key + 1, at, || {
            if at.is_multiple_of(5) {
                keyspace.delete(name(key)).unwrap();
            } else {
                keyspace.put(name(key), at.to_be_bytes()).unwrap();
            }
        });
    }
}

fn read(keyspace: &Keyspace, histories: &Histories, seed: u64, stop: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(100 + seed);
    let least = |key: usize| histories.done[key].load(Ordering::SeqCst);
    while !stop.load(Ordering::Relaxed) {
        let key = random.usize(0..OWN * WRITERS);
        let before = least(key);
        let found = keyspace.get(name(key)).unwrap();
        histories.check(key, before, found.as_deref());
        let keys: Vec<usize> = (0..4).map(|_| random.usize(0..OWN * WRITERS)).collect();
        let before: Vec<u64> = keys.iter().map(|&key| least(key)).collect();
        let found = keyspace.multi_get(keys.iter().map(|&key| name(key))).unwrap();
        for ((&key, before), found) in keys.iter().zip(before).zip(&found) {
            histories.check(key, before, found.as_deref());
        }
    }
}

#[test]
fn readers_see_what_was_written_while_memtables_become_tree() {
    let db = store();
    let keyspace = db.keyspace("keys").unwrap();
    let histories = Histories::new();
    let (stop, enough) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (keyspace, histories, stop) = (&keyspace, &histories, &stop);
            scope.spawn(move || read(keyspace, histories, reader, stop));
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (keyspace, histories, enough) = (&keyspace, &histories, &enough);
                scope.spawn(move || write(keyspace, histories, writer, enough))
            })
            .collect();
        // Most reads find the memtables empty.
        while writers.iter().any(|writer| !writer.is_finished()) {
            db.checkpoint().unwrap();
            enough.store(db.stats().records.hits >= 1000, Ordering::Relaxed);
        }
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stats = db.stats().records;
    assert!(stats.hits >= 1000, "{stats:?}");
}

#[test]
fn pairs_are_seen_together_and_sums_whole_while_memtables_become_tree() {
    let db = store();
    let pairs = db.keyspace("pairs").unwrap();
    let options = KeyspaceOptions::new().merge_operator("add");
    let sums = db.keyspace_with("sums", &options).unwrap();
    let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = || {
        for n in 1..=3_000u64 {
            begun.store(n, Ordering::SeqCst);
            let mut batch = WriteBatch::new();
            batch.put(&pairs, "left", n.to_be_bytes()).unwrap();
            batch.put(&pairs, "right", n.to_be_bytes()).unwrap();
            batch.merge(&sums, "sum", 1i64.to_le_bytes()).unwrap();
            db.write(&batch).unwrap();
            done.store(n, Ordering::SeqCst);
            if n % 20 == 0 {
                // Checkpoints empty the memtables at intervals, and readers run in between.
                db.checkpoint().unwrap();
                let least = reads.load(Ordering::Relaxed) + 4;
                for _ in 0..10_000 {
                    if reads.load(Ordering::Relaxed) >= least {
                        break;
                    }
                    std::thread::yield_now();
                }
            }
        }
    };
    let read = || {
        while !stop.load(Ordering::Relaxed) {
            let found = pairs.multi_get(["left", "right", "neither"]).unwrap();
            assert_eq!(found[0], found[1]);
            assert_eq!(found[2], None);
            let least = done.load(Ordering::SeqCst);
            let sum = sums.get("sum").unwrap();
            let sum = sum.map_or(0, |sum| i64::from_le_bytes(sum[..].try_into().unwrap()) as u64);
            let most = begun.load(Ordering::SeqCst);
            assert!((least..=most).contains(&sum), "{sum} is not of {least}..={most}");
            reads.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(read);
        scope.spawn(read);
        let writer = scope.spawn(write);
        while !writer.is_finished() {
            db.checkpoint().unwrap();
        }
        writer.join().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(sums.get("sum").unwrap().unwrap(), &3_000i64.to_le_bytes());
    assert!(db.stats().records.hits > 100, "{:?}", db.stats().records);
}

#[test]
fn a_record_that_is_read_again_comes_from_the_cache_and_changes_there_too() {
    let db = store();
    let keyspace = db.keyspace("rivers").unwrap();
    keyspace.put("Elbe", "1094 km").unwrap();
    assert_eq!(keyspace.get("Elbe").unwrap().unwrap(), b"1094 km");
    assert_eq!(db.stats().records.records, 0, "it is in the memtable");
    db.checkpoint().unwrap();
    for hits in 0..3 {
        assert_eq!(db.stats().records.hits, u64::saturating_sub(hits, 1));
        assert_eq!(keyspace.get("Elbe").unwrap().unwrap(), b"1094 km");
    }
    let before = db.snapshot();
    keyspace.put("Elbe", "1094.26 km").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(before.get(&keyspace, "Elbe").unwrap().unwrap(), b"1094 km");
    let records = db.stats().records;
    assert_eq!((records.records, records.hits), (1, 2), "a snapshot does not ask");
    assert_eq!(keyspace.get("Elbe").unwrap().unwrap(), b"1094.26 km");
    assert_eq!(db.stats().records.hits, 3);
    keyspace.delete("Elbe").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(db.stats().records.records, 0);
    assert_eq!(keyspace.get("Elbe").unwrap(), None);
    keyspace.put("Elbe", "1094 km").unwrap();
    db.checkpoint().unwrap();
    for _ in 0..2 {
        assert_eq!(keyspace.get("Elbe").unwrap().unwrap(), b"1094 km");
    }
    assert_eq!((db.stats().records.records, db.stats().records.hits), (1, 4));
    db.drop_keyspace("rivers").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(db.stats().records.records, 0);
}

#[test]
fn what_expires_is_not_kept() {
    let db = store();
    let keyspace = db.keyspace("sessions").unwrap();
    let later = SystemTime::now() + Duration::from_secs(3600);
    keyspace.put_until("a", "token", later).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(keyspace.get("a").unwrap().unwrap(), b"token");
    assert!(keyspace.multi_get(["a"]).unwrap()[0].is_some());
    assert_eq!(db.stats().records.records, 0);
}

#[test]
fn without_memory_for_records_none_is_kept() {
    let options = Options::new().memory(16 << 20).record_memory(0);
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("rivers").unwrap();
    keyspace.put("Elbe", "1094 km").unwrap();
    db.checkpoint().unwrap();
    for _ in 0..2 {
        assert_eq!(keyspace.get("Elbe").unwrap().unwrap(), b"1094 km");
    }
    assert_eq!(db.stats().records, alluvium::RecordStats::default());
}

#[test]
fn what_fits_into_memory_is_read_from_nowhere_however_often_it_is_rewritten() {
    const KEYS: u32 = 20_000;
    let directory = Arc::new(MemoryDirectory::new());
    let options = Options::new().memory(48 << 20).record_memory(0);
    let db = options
        .open_in(Arc::<MemoryDirectory>::clone(&directory))
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let mut reads = Vec::new();
    // The store checks at intervals whether all records fit.
    for round in 0..=u8::MAX {
        for key in 0..KEYS {
            keyspace.put(key.to_be_bytes(), [round; 100]).unwrap();
        }
        // After a compaction, live data fits at every check.
        db.compact().unwrap();
        if round % 10 != 9 {
            continue;
        }
        let before = directory.counters().snapshot().of(Purpose::Lookup).reads;
        for key in 0..KEYS {
            assert_eq!(
                keyspace.get(key.to_be_bytes()).unwrap().unwrap()[..],
                [round; 100]
            );
        }
        reads.push(directory.counters().snapshot().of(Purpose::Lookup).reads - before);
        // By now, more data has been written than the cache holds.
        if round > 50 && reads.ends_with(&[0, 0]) {
            return;
        }
        std::thread::sleep(Duration::from_millis(120));
    }
    panic!("lookups go on to read: {reads:?}");
}
