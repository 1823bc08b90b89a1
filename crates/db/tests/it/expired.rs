//! Expired values. Scans skip them efficiently, and they do not remain in memory.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Keyspace, KeyspaceOptions, Options};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const COUNT: u32 = 4000;

/// Expiry time of the values in milliseconds.
const EXPIRY_MS: u64 = 5000;

/// A store with a keyspace of the given structure, which holds values that expire and one that does
/// not.
fn filled(structure: &str) -> (Arc<AtomicU64>, Db, Keyspace) {
    let clock = Arc::new(AtomicU64::new(1));
    let now = Arc::clone(&clock);
    let options = Options::new().memory(16 << 20).workers(0);
    let options = options.clocked(move || now.load(Ordering::Relaxed));
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let structure = KeyspaceOptions::new().structure(structure.parse().unwrap());
    let keyspace = db.keyspace_with("sessions", &structure).unwrap();
    let expiry = SystemTime::UNIX_EPOCH + Duration::from_millis(EXPIRY_MS);
    for number in 0..COUNT {
        let key = number.to_be_bytes();
        keyspace.put_until(key, [7; 50], expiry).unwrap();
    }
    keyspace.put(COUNT.to_be_bytes(), "for ever").unwrap();
    db.checkpoint().unwrap();
    (clock, db, keyspace)
}

fn work(db: &Db) {
    while db.work().unwrap() {}
}

#[test]
fn levels_drop_what_has_expired_once_scans_wade_through_it() {
    for structure in ["levels,k=4", "levels,leveled,r=4", "levels,cola,r=3"] {
        let (clock, db, keyspace) = filled(structure);
        work(&db);
        assert_eq!(keyspace.first().unwrap().unwrap().0, 0u32.to_be_bytes());
        clock.store(EXPIRY_MS, Ordering::Relaxed);
        let snapshot = db.snapshot();
        assert_eq!(keyspace.first().unwrap().unwrap().0, COUNT.to_be_bytes());
        work(&db);
        drop(snapshot);
        work(&db);
        assert_eq!(keyspace.approximate_len().unwrap(), 1, "{structure}");
        assert_eq!(keyspace.first().unwrap().unwrap().1, b"for ever");
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn volatile_keyspaces_drop_what_has_expired_by_themselves() {
    let (clock, db, keyspace) = filled("volatile,bytes=4M");
    work(&db);
    let before = db.stats().memory.tree;
    assert_eq!(keyspace.approximate_len().unwrap(), u64::from(COUNT) + 1);
    clock.store(EXPIRY_MS, Ordering::Relaxed);
    work(&db);
    assert_eq!(keyspace.approximate_len().unwrap(), 1);
    let after = db.stats().memory.tree;
    assert!(
        after + 50 * u64::from(COUNT) <= before,
        "{before} bytes, then {after}"
    );
    assert_eq!(keyspace.first().unwrap().unwrap().1, b"for ever");
}
