//! Tests of readers and writers under a model checker. It runs each test with every schedule, up to
//! a limit on the number of preemptions, and with every value that the memory model allows a load
//! to return:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" CARGO_TARGET_DIR=target/model LOOM_MAX_PREEMPTIONS=3 \
//!     cargo test -p alluvium-hashes --lib --release model_check
//! ```
//!
//! The tests use the real tables, but with two entries per bucket and a log of two items, so that a
//! single append overwrites an item that a reader is copying.

use super::core::TableCore;
use super::mode::{Crcw, Crew};
use super::{
    CacheEviction, HashedKey, LosslessOptions, LosslessTable, LossyOptions, LossyTable, NEVER, SharedTable,
    TableWriter,
};
use loom::thread;

/// Three keys with different tags. Of the two buckets, the first key is in one, and the others are
/// in the other.
const KEYS: [(u64, [u8; 4]); 3] = [(1, *b"aaaa"), (1 << 47 | 2, *b"bbbb"), (1 << 47 | 3, *b"cccc")];

fn key(number: usize) -> HashedKey<'static> {
    let (hash, bytes) = &KEYS[number];
    HashedKey::received(*hash, bytes)
}

/// Returns a value of two words, neither of which occurs in any other version.
fn value(version: u8) -> [u8; 8] {
    [version; 8]
}

fn lossy(eviction: CacheEviction) -> LossyOptions {
    LossyOptions {
        // The log holds two items of four words each.
        log_bytes: 32,
        buckets: 2,
        longest_item_bytes: usize::MAX,
        eviction,
        offset_bits: 12,
        seed: 0,
    }
}

fn lossless<C>() -> LosslessTable<C>
where
    C: super::mode::ConcurrencyMode,
{
    let options = LosslessOptions {
        heap_bytes: 48,
        buckets: 2,
        spare_buckets: 1,
        seed: 0,
    };
    LosslessTable::new(&options).unwrap()
}

/// Reads a key once while another thread executes `write`. Returns the version in the value, or
/// `None` if the key has no value.
fn read_beside<C>(
    mut writer: TableWriter<C>,
    write: impl FnOnce(&mut TableWriter<C>) + Send + 'static,
) -> Option<u8>
where
    C: TableCore<Mode = Crew> + Send + Sync + 'static,
{
    let reader = writer.reader();
    let writing = thread::spawn(move || write(&mut writer));
    let mut bytes = Vec::new();
    let found = reader.get(key(0), 0, &mut bytes);
    writing.join().unwrap();
    found.then(|| {
        assert!(
            bytes.len() == 8 && bytes.iter().all(|byte| *byte == bytes[0]),
            "torn: {bytes:?}"
        );
        bytes[0]
    })
}

#[test]
fn a_reader_never_returns_what_an_append_for_another_bucket_writes() {
    loom::model(|| {
        let mut writer = TableWriter::new(LossyTable::<Crew>::new(&lossy(CacheEviction::Fifo)).unwrap());
        writer.set(key(0), &value(1), NEVER, 0).unwrap();
        writer.set(key(1), &value(2), NEVER, 0).unwrap();
        // The log is full, so this write overwrites the first item.
        let read = read_beside(writer, |writer| writer.set(key(2), &value(3), NEVER, 0).unwrap());
        assert!(matches!(read, None | Some(1)), "{read:?}");
    });
}

#[test]
fn a_reader_returns_the_value_before_or_after_an_update_in_place() {
    loom::model(|| {
        let mut writer = TableWriter::new(LossyTable::<Crew>::new(&lossy(CacheEviction::Fifo)).unwrap());
        writer.set(key(0), &value(1), NEVER, 0).unwrap();
        let read = read_beside(writer, |writer| writer.set(key(0), &value(2), NEVER, 0).unwrap());
        assert!(matches!(read, Some(1 | 2)), "{read:?}");
    });
}

#[test]
fn a_reader_finds_an_item_that_its_writer_moves() {
    loom::model(|| {
        let mut writer = TableWriter::new(LossyTable::<Crew>::new(&lossy(CacheEviction::Lru)).unwrap());
        writer.set(key(0), &value(1), NEVER, 0).unwrap();
        writer.set(key(1), &value(2), NEVER, 0).unwrap();
        // The item is the oldest, so the access moves it to where it already is.
        let read = read_beside(writer, |writer| {
            assert!(writer.get(key(0), 0, &mut Vec::new()));
        });
        assert_eq!(read, Some(1));
    });
}

#[test]
fn a_reader_never_returns_memory_that_was_freed_and_used_again() {
    loom::model(|| {
        let mut writer = TableWriter::new(lossless::<Crew>());
        writer.set(key(0), &value(1), NEVER, 0).unwrap();
        let read = read_beside(writer, |writer| {
            assert!(writer.delete(key(0), 0));
            writer.set(key(1), &value(2), NEVER, 0).unwrap();
        });
        assert!(matches!(read, None | Some(1)), "{read:?}");
    });
}

#[test]
fn two_writers_leave_one_of_their_values() {
    loom::model(|| {
        let table = SharedTable::new(LossyTable::<Crcw>::new(&lossy(CacheEviction::Fifo)).unwrap());
        let other = table.clone();
        let writing = thread::spawn(move || other.set(key(0), &value(1), NEVER, 0).unwrap());
        table.set(key(0), &value(2), NEVER, 0).unwrap();
        writing.join().unwrap();
        let mut bytes = Vec::new();
        assert!(table.get(key(0), 0, &mut bytes));
        assert!(bytes == value(1) || bytes == value(2), "torn: {bytes:?}");
        assert_eq!(table.table().stats().updates_in_place, 1);
    });
}

#[test]
fn an_access_that_counts_beside_a_writer_does_no_harm() {
    loom::model(|| {
        let options = LossyOptions {
            log_bytes: 320,
            ..lossy(CacheEviction::S3Fifo)
        };
        let table = SharedTable::new(LossyTable::<Crcw>::new(&options).unwrap());
        table.set(key(0), &value(1), NEVER, 0).unwrap();
        let other = table.clone();
        let writing = thread::spawn(move || {
            other.delete(key(0), 0);
            other.set(key(0), &value(2), NEVER, 0).unwrap();
        });
        let mut bytes = Vec::new();
        if table.get(key(0), 0, &mut bytes) {
            assert!(bytes == value(1) || bytes == value(2), "torn: {bytes:?}");
        }
        writing.join().unwrap();
        let is_hit = table.get(key(0), 0, &mut bytes);
        assert!(is_hit && bytes == value(2), "{is_hit}, {bytes:?}");
    });
}
