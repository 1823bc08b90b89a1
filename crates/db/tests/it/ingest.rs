//! Loads of sorted records.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Compression, Error, KeyspaceOptions, OpenMode, Options, WriteBatch};
use alluvium_base::Purpose;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn small() -> Options {
    Options::new().memory(16 << 20)
}

fn numbered(range: std::ops::Range<u32>) -> impl Iterator<Item = ([u8; 4], Vec<u8>)> {
    range.map(|number| {
        (
            number.to_be_bytes(),
            format!("value {number}").repeat(10).into_bytes(),
        )
    })
}

#[test]
fn a_load_takes_effect_at_once_and_hides_what_was_there() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().open_in(directory.clone()).unwrap();
    let options = KeyspaceOptions::new()
        .compression(Compression::Lz4)
        .value_threshold(64);
    let keyspace = db.keyspace_with("loaded", &options).unwrap();
    let other = db.keyspace("other").unwrap();
    for number in 0..3000u32 {
        keyspace.put((number * 7).to_be_bytes(), "old").unwrap();
        other.put(number.to_be_bytes(), "other").unwrap();
    }
    keyspace.put("zzz", "behind").unwrap();
    // A frequently read key is in the record cache and must be invalidated.
    for _ in 0..3 {
        assert_eq!(keyspace.get(70u32.to_be_bytes()).unwrap().unwrap(), b"old");
    }
    let (before, sequence) = (db.snapshot(), db.sequence());
    assert_eq!(keyspace.ingest(numbered(0..20_000)).unwrap(), 20_000);
    assert_eq!(db.sequence(), sequence + 1);
    for number in [0u32, 70, 71, 19_999] {
        let wanted = format!("value {number}").repeat(10);
        assert_eq!(
            keyspace.get(number.to_be_bytes()).unwrap().unwrap(),
            wanted.as_bytes()
        );
    }
    assert_eq!(
        keyspace.iter().count(),
        20_000 + 1 + 142,
        "what it does not cover is still there"
    );
    assert_eq!(
        before.get(&keyspace, 70u32.to_be_bytes()).unwrap().unwrap(),
        b"old"
    );
    assert_eq!(before.get(&keyspace, 71u32.to_be_bytes()).unwrap(), None);
    assert_eq!(before.iter(&keyspace).count(), 3001);
    assert_eq!(other.iter().count(), 3000);
    keyspace.put(71u32.to_be_bytes(), "new").unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    let keyspace = db.keyspace("loaded").unwrap();
    assert_eq!(keyspace.get(71u32.to_be_bytes()).unwrap().unwrap(), b"new");
    assert_eq!(keyspace.iter().count(), 20_143);
}

#[test]
fn a_load_that_ends_early_leaves_nothing() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().workers(0).open_in(directory).unwrap();
    let keyspace = db.keyspace("loaded").unwrap();
    db.checkpoint().unwrap();
    let used = db.stats().space.live_extent_bytes;
    let unsorted = keyspace.ingest([("b", "1"), ("c", "2"), ("a", "3")]).unwrap_err();
    assert!(
        matches!(&unsorted, Error::Unsorted { key, after, .. } if key == b"a" && after == b"c"),
        "{unsorted}"
    );
    let twice = keyspace.ingest([("b", "1"), ("b", "2")]).unwrap_err();
    assert!(
        matches!(&twice, Error::Unsorted { key, .. } if key == b"b"),
        "{twice}"
    );
    let mut dropped = keyspace.begin_ingest().unwrap();
    for (key, value) in numbered(0..50_000) {
        dropped.put(key, value).unwrap();
    }
    assert!(db.stats().memory.tree > 4 << 20, "its buffers are counted");
    drop(dropped);
    assert_eq!(
        keyspace.ingest(std::iter::empty::<([u8; 1], [u8; 1])>()).unwrap(),
        0
    );
    assert_eq!(keyspace.iter().count(), 0);
    db.checkpoint().unwrap();
    assert!(db.stats().space.live_extent_bytes <= used + (1 << 20));
    assert_eq!(db.stats().space.provisional_bytes, 0);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_load_into_what_is_dropped_or_closed_meanwhile_fails() {
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let gone = db.keyspace("gone").unwrap();
    let mut ingest = gone.begin_ingest().unwrap();
    ingest.put("a", "1").unwrap();
    db.drop_keyspace("gone").unwrap();
    assert!(matches!(ingest.finish(), Err(Error::KeyspaceDropped { .. })));
    let kept = db.keyspace("kept").unwrap();
    let mut ingest = kept.begin_ingest().unwrap();
    ingest.put("a", "1").unwrap();
    db.close().unwrap();
    assert!(matches!(ingest.put("b", "2"), Err(Error::Closed)));
    assert!(matches!(ingest.finish(), Err(Error::Closed)));
    assert!(matches!(kept.begin_ingest(), Err(Error::Closed)));
}

#[test]
fn writers_and_readers_go_on_beside_loads() {
    let place = tempfile::tempdir().unwrap();
    let db = small()
        .mode(OpenMode::New)
        .open(place.path().join("store"))
        .unwrap();
    let keyspace = db.keyspace("shared").unwrap();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..2u8 {
            let (db, keyspace, stop, written) = (&db, &keyspace, &stop, &written);
            scope.spawn(move || {
                let mut number = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    let mut batch = WriteBatch::new();
                    for part in 0..2u8 {
                        let key = [&[b'w', writer, part], &number.to_be_bytes()[..]].concat();
                        batch.put(keyspace, key, "written").unwrap();
                    }
                    db.write(&batch).unwrap();
                    let swapped = keyspace
                        .compare_and_set([b's', writer], None, Some(b"once"))
                        .unwrap();
                    assert!(!swapped || number == 0);
                    number += 1;
                    written.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        for round in 0..5u32 {
            let records = (0..5000u32).map(|number| {
                let key = [&b"l"[..], &number.to_be_bytes()].concat();
                (key, round.to_be_bytes())
            });
            keyspace.ingest(records).unwrap();
            let loaded: Vec<_> = keyspace
                .prefix("l")
                .map(|pair| pair.unwrap().1.into_vec())
                .collect();
            assert_eq!(loaded.len(), 5000);
            assert!(loaded.iter().all(|value| *value == round.to_be_bytes()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        keyspace.prefix("w").count() as u64,
        written.load(Ordering::Relaxed)
    );
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_load_is_written_once_and_not_to_the_log() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().open_in(directory.clone()).unwrap();
    let keyspace = db.keyspace("loaded").unwrap();
    let before = directory.counters().snapshot();
    let records = (0..30_000u32).map(|number| (number.to_be_bytes(), [number as u8; 1000]));
    keyspace.ingest(records).unwrap();
    while db.work().unwrap() {}
    let written = directory.counters().snapshot().since(&before);
    assert!(written.of(Purpose::Log).written_bytes < 1 << 20);
    let total = written.total().written_bytes;
    assert!((30_000_000..36_000_000).contains(&total), "{total}");
}

#[test]
fn an_ingest_beside_large_writes_waits_for_log_and_is_not_refused() {
    let db = Options::new()
        .memory(16 << 20)
        .workers(1)
        .open_in(Arc::new(MemoryDirectory::new()))
        .unwrap();
    let (large, loaded) = (db.keyspace("large").unwrap(), db.keyspace("loaded").unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u8 {
            let (large, is_over) = (&large, &is_over);
            scope.spawn(move || {
                let value = vec![thread; 5 << 20];
                while !is_over.load(Ordering::Relaxed) {
                    large.put([thread], &value).unwrap();
                    large.put([thread, 1], &value[..100]).unwrap();
                }
            });
        }
        let load = |turn: u32| loaded.ingest((0..20u32).map(|key| (key.to_be_bytes(), turn.to_be_bytes())));
        let results: Vec<_> = (0..60).map(load).collect();
        is_over.store(true, Ordering::Relaxed);
        let failed = results.iter().filter(|result| result.is_err()).count();
        assert_eq!(failed, 0, "{results:?}");
    });
    assert_eq!(loaded.iter().count(), 20);
}
