//! Measures the time to open a store, after a kill and after a clean close.

use super::{Sizes, disk_bytes, key, mib, process, value};
use alluvium::{Db, OpenMode, Options};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

/// Bytes of a value.
const VALUE: usize = 1000;

pub(super) fn run(sizes: &Sizes) {
    let place = sizes.place();
    let store = place.path().join("store");
    let mut child = process::spawn("load until killed", &store, (sizes.memory, sizes.bytes));
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let loaded = lines.next().expect("the child says when it is done").unwrap();
    let loaded: u64 = loaded.parse().expect("how many records there are");
    // The child keeps writing, so the kill comes in the middle of a write.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    println!(
        "{loaded} records of {} bytes, {:.0} MiB on the disk",
        VALUE + 24,
        mib(disk_bytes(&store))
    );
    let db = open("after a kill", &store, sizes.memory);
    let keyspace = db.keyspace("main").unwrap();
    assert!(keyspace.contains(key(loaded - 1)).unwrap());
    drop(keyspace);
    let began = Instant::now();
    db.close().unwrap();
    println!("closing: {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    drop(open("after a clean close", &store, sizes.memory));
}

fn open(when: &str, store: &Path, memory: u64) -> Db {
    let began = Instant::now();
    let db = Options::new()
        .memory(memory)
        .mode(OpenMode::Existing)
        .open(store)
        .unwrap();
    println!("opening {when}: {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    db
}

/// Loads a store, reports the end of the load, and continues to write.
pub(super) fn load_until_killed(store: &Path, memory: u64, bytes: u64) {
    let db = Options::new().memory(memory).open(store).unwrap();
    let keyspace = db.keyspace("main").unwrap();
    let body = value(7, VALUE);
    let records = bytes / (VALUE as u64 + 24);
    for number in 0.. {
        if number == records {
            println!("{records}");
        }
        keyspace.put(key(number), &body).unwrap();
    }
}
