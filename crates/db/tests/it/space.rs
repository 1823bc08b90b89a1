//! Unused space is released automatically.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Options};
use alluvium_device::simulated::SimDirectory;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for background work; not a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

const RECORDS: u32 = 60_000;

/// Returns the bytes of the data files that are in use, and the bytes kept free on the file system.
fn taken(db: &Db) -> (u64, u64) {
    let space = db.stats().space;
    (
        space.live_extent_bytes + space.provisional_bytes + space.dead_bytes,
        space.backed_bytes,
    )
}

fn filled(place: &tempfile::TempDir) -> Db {
    let db = Options::new().memory(16 << 20).open(place.path()).unwrap();
    let keyspace = db.keyspace("main").unwrap();
    for number in 0..RECORDS {
        keyspace
            .put(number.wrapping_mul(2_654_435_761).to_be_bytes(), [7; 400])
            .unwrap();
    }
    db
}

fn comes_back(db: &Db) {
    let began = Instant::now();
    loop {
        let (used, kept) = taken(db);
        if used < 4 << 20 && kept < 8 << 20 {
            break;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{used} bytes are in use, {kept} kept\n{}",
            db.stats()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn of_keys_that_were_deleted_one_by_one() {
    let place = tempfile::tempdir().unwrap();
    let db = filled(&place);
    let keyspace = db.keyspace("main").unwrap();
    for number in 0..RECORDS {
        keyspace
            .delete(number.wrapping_mul(2_654_435_761).to_be_bytes())
            .unwrap();
    }
    comes_back(&db);
}

#[test]
fn of_a_range_that_was_deleted_at_once() {
    let place = tempfile::tempdir().unwrap();
    let db = filled(&place);
    assert!(taken(&db).0 > 12 << 20, "most of it was written out");
    db.keyspace("main").unwrap().delete_range("", None).unwrap();
    comes_back(&db);
}

/// Even when no other write succeeds, deletes do, and they free space on the disk.
#[test]
fn on_a_full_disk_everything_can_be_deleted() {
    for value_bytes in [4000, 16_000] {
        fill_and_delete(value_bytes);
    }
}

fn fill_and_delete(value_bytes: usize) {
    const CAPACITY: u64 = 128 << 20;
    let disk = SimDirectory::new(1);
    disk.set_capacity(CAPACITY);
    let db = Options::new().memory(16 << 20).open_in(Arc::new(disk)).unwrap();
    let keyspace = db.keyspace("main").unwrap();
    let key = |number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes();
    // This is more than two memtables hold.
    let again = (4 << 20) / value_bytes as u32;
    for cycle in 0..3 {
        let value = vec![cycle; value_bytes];
        let refused = (0..).find_map(|number| {
            let put = keyspace.put(key(number), &value);
            put.err().map(|error| (number, error))
        });
        let (count, error) = refused.expect("the disk has an end");
        assert!(error.is_full(), "{error}");
        assert!(
            cycle > 0 || u64::from(count) * value_bytes as u64 > CAPACITY / 4,
            "{count} records are all that there was room for"
        );
        for number in 0..count.max(again) {
            let deleted = keyspace.delete(key(number));
            deleted.unwrap_or_else(|error| {
                panic!("cycle {cycle}, {number} of {count}: {error}\n{}", db.stats())
            });
        }
        assert_eq!(keyspace.iter().map(Result::unwrap).count(), 0);
        let began = Instant::now();
        for number in 0..again {
            while let Err(error) = keyspace.put(key(number), &value) {
                assert!(
                    error.is_full() && began.elapsed() < PATIENCE,
                    "{error}\n{}",
                    db.stats()
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

/// Returns the bytes that each file of a directory occupies on the file system.
fn occupied(place: &std::path::Path) -> Vec<(String, u64)> {
    let found = std::process::Command::new("find")
        .arg(place)
        .args(["-type", "f", "-printf", "%f %b\n"])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let files = found.lines().map(|line| {
        let (name, blocks) = line.split_once(' ').unwrap();
        (name.to_owned(), blocks.parse::<u64>().unwrap() * 512)
    });
    files.collect()
}

#[test]
fn a_new_store_takes_no_more_than_a_mebibyte() {
    for options in [Options::new(), Options::new().memory(16 << 20)] {
        let place = tempfile::tempdir().unwrap();
        let db = options.open(place.path()).unwrap();
        let keyspace = db.keyspace("main").unwrap();
        // Background work preallocates for writers only once there are writes.
        std::thread::sleep(Duration::from_millis(300));
        let files = occupied(place.path());
        let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        println!("{total} bytes in {} files", files.len());
        assert!(files.len() > 4, "{files:?}");
        assert!(total <= 1 << 20, "{total} bytes: {files:?}");
        for number in 0..2000u32 {
            keyspace.put(number.to_be_bytes(), [7; 1000]).unwrap();
        }
        assert_eq!(keyspace.iter().map(Result::unwrap).count(), 2000);
        db.close().unwrap();
        let db = options.open(place.path()).unwrap();
        assert_eq!(db.keyspace("main").unwrap().iter().count(), 2000);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_store_of_a_few_records_takes_little_however_often_it_is_opened_and_compacted() {
    for memory in [1 << 30, 16 << 20] {
        let place = tempfile::tempdir().unwrap();
        let open = || Options::new().memory(memory).open(place.path()).unwrap();
        let total = || occupied(place.path()).iter().map(|(_, bytes)| bytes).sum::<u64>();
        let mut totals = Vec::new();
        for number in 0..4u8 {
            let db = open();
            let keyspace = db.keyspace("main").unwrap();
            keyspace.put([number], [number]).unwrap();
            // The space that background work preallocates must be small, too.
            std::thread::sleep(Duration::from_millis(100));
            if number == 3 {
                db.compact().unwrap();
            }
            db.close().unwrap();
            totals.push(total());
        }
        println!("{memory} bytes of memory: {totals:?}");
        let files = occupied(place.path());
        let [first, .., compacted] = totals[..] else {
            unreachable!()
        };
        assert!(
            first < 700 << 10 && compacted < 800 << 10,
            "{totals:?}: {files:?}"
        );
        assert!(
            totals.iter().all(|&total| total < 3 << 19),
            "{totals:?}: {files:?}"
        );
        let db = open();
        let keyspace = db.existing_keyspace("main").unwrap();
        assert_eq!(keyspace.iter().count(), 4);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}
