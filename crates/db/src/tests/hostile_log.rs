//! Tests of log records that no store has written but whose checksums are valid. Replaying such a
//! record must either return an error that describes the defect, or apply it as an ordinary write.

use super::{pairs, store_options, tiny};
use crate::admin::simulation::DirectoryOpener as _;
use crate::db::Db;
use crate::error::ErrorKind;
use crate::options::KeyspaceOptions;
use crate::schema::format::{self, KeyspaceId};
use alluvium_base::MessageKind;
use alluvium_base::bytes::ByteWriter;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::record::MAX_KEY;
use alluvium_storage::LogDurability;
use alluvium_storage::store::Store;
use std::sync::Arc;

/// Creates a closed store with `count` keys and appends a record with this payload to its log.
fn with_record(count: u32, payload: &[u8]) -> Arc<dyn Directory> {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    let options = KeyspaceOptions::new().merge_operator("add");
    for name in ["plain", "sums"] {
        let options = match name {
            "sums" => options.clone(),
            _ => KeyspaceOptions::new(),
        };
        let keyspace = db.keyspace_with(name, &options).unwrap();
        for number in 0..20u32 {
            keyspace.put(number.to_be_bytes(), 1i64.to_le_bytes()).unwrap();
        }
    }
    db.create_snapshot("early").unwrap();
    db.close().unwrap();
    let opening = Store::open(Arc::clone(&directory), &store_options()).unwrap();
    let store = opening.replay(&mut |_| Ok(())).unwrap();
    let first = store.log().completed().max(store.superblock().cut) + 1;
    store
        .log()
        .append(first, count, payload, LogDurability::Process)
        .unwrap();
    store.log().sync_through(first + u64::from(count) - 1).unwrap();
    drop(store);
    directory
}

fn one(key: &[u8], kind: MessageKind, operand: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    format::encode_one(&mut record, &[], key, kind, 0, operand);
    record
}

fn range(start: &[u8], end: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    format::encode_range(&mut record, start, end);
    record
}

fn next(id: KeyspaceId) -> Vec<u8> {
    one(&format::next_key(), MessageKind::Put, &format::encode_next(id))
}

fn snapshot(at: u64) -> Vec<u8> {
    one(
        &format::snapshot_key("late"),
        MessageKind::Put,
        &format::encode_snapshot(at),
    )
}

/// Returns a log record that adds a keyspace with this number to the catalog.
fn keyspace(id: KeyspaceId) -> Vec<u8> {
    let value = format::encode_keyspace(id, 1, &KeyspaceOptions::default());
    one(&format::keyspace_key("another"), MessageKind::Put, &value)
}

/// Reads and changes all data of the store, then opens the store again.
fn use_it(db: Db, directory: &Arc<dyn Directory>, what: &str) {
    let mut shown = Vec::new();
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name).unwrap();
        // If a merge operator rejects a value, reads must return a typed error.
        let is_readable = |pair: &crate::error::Result<_>| match pair {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::BadValue, "{what}");
                false
            }
        };
        let found = keyspace.iter().filter(is_readable).count();
        assert_eq!(found, keyspace.iter().rev().filter(is_readable).count(), "{what}");
        shown.push((name, found));
    }
    for (name, at) in db.snapshots() {
        assert!(at <= db.sequence(), "{what}");
        let snapshot = db.open_snapshot(&name).unwrap();
        for name in db.keyspaces() {
            snapshot
                .iter(&db.existing_keyspace(&name).unwrap())
                .for_each(drop);
        }
    }
    let fresh = db
        .keyspace("fresh")
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    fresh.put("a", "1").unwrap();
    assert_eq!(pairs(&fresh).len(), 1, "{what}: it shares its keys with another");
    db.checkpoint().unwrap();
    db.compact().unwrap();
    assert_eq!(db.check().unwrap(), [""; 0], "{what}");
    drop(fresh);
    db.close().unwrap();
    let db = tiny().open_in(Arc::clone(directory)).unwrap();
    assert_eq!(
        db.existing_keyspace("fresh").unwrap().get("a").unwrap().unwrap(),
        b"1"
    );
    assert_eq!(db.check().unwrap(), [""; 0], "{what}");
}

/// A test case: a description, the number of writes that the record states, its bytes, and the
/// expected error.
type Case = (&'static str, u32, Vec<u8>, Option<ErrorKind>);

fn refused(what: &'static str, record: Vec<u8>) -> Case {
    (what, 1, record, Some(ErrorKind::Corrupt))
}

fn taken(what: &'static str, record: Vec<u8>) -> Case {
    (what, 1, record, None)
}

fn of_keys() -> Vec<Case> {
    let long = [&[1][..], &[7; MAX_KEY]].concat();
    let no_keyspace = [0xff; 12];
    let put = |key: &[u8]| one(key, MessageKind::Put, b"v");
    let mut huge = vec![MessageKind::Put as u8];
    ByteWriter::new(&mut huge).varint(u64::MAX).bytes(b"\x01a");
    vec![
        refused("a key without a keyspace", put(b"")),
        refused("a key of no keyspace", put(&no_keyspace)),
        refused("a key cut in its number", put(&[0xf2, 1])),
        refused("a key that is too long", put(&long)),
        refused("a range from a key that is too long", range(&long, b"\x02")),
        refused("a range to a key that is too long", range(b"\x01", &long)),
        refused("a range of no keyspace", range(&no_keyspace, &[0xff; 13])),
        refused("a length beyond the record", huge),
        refused(
            "more writes than are said",
            [put(b"\x01a"), put(b"\x01b")].concat(),
        ),
        (
            "fewer writes than are said",
            3,
            put(b"\x01a"),
            Some(ErrorKind::Corrupt),
        ),
        refused("a kind that there is not", b"\x09\x01a".to_vec()),
    ]
}

fn of_the_catalog() -> Vec<Case> {
    let put = |key: &[u8], value: &[u8]| one(key, MessageKind::Put, value);
    vec![
        refused("a catalog key of no kind", put(b"\0", b"")),
        refused("a catalog key of another kind", put(b"\0x", b"")),
        refused("a keyspace that ends too soon", put(b"\0kshort", b"\x02")),
        refused("a keyspace with the catalog's number", keyspace(0)),
        refused("a keyspace with the last number", keyspace(u32::MAX)),
        refused("a snapshot of the future", snapshot(1 << 40)),
        refused("a snapshot of the last number", snapshot(u64::MAX)),
        taken("a snapshot of the beginning", snapshot(0)),
        taken("a next number that is taken", next(1)),
        taken("a next number of the catalog", next(0)),
        refused("the next number is the last", next(u32::MAX)),
    ]
}

fn of_writes_like_others() -> Vec<Case> {
    let base = one(b"\x02a", MessageKind::Put, b"text");
    let upon = [base, one(b"\x02a", MessageKind::Merge, &[1; 8])].concat();
    vec![
        taken("an empty range", range(b"\x01b", b"\x01b")),
        taken("a range that ends before it begins", range(b"\x02", b"\x01")),
        taken(
            "a range over two keyspaces",
            range(b"\x01\0\0\0\x05", b"\x02\0\0\0\x05"),
        ),
        taken(
            "a key of a keyspace that there is not",
            one(b"\x09a", MessageKind::Put, b"v"),
        ),
        taken(
            "a merge without an operator",
            one(b"\x01a", MessageKind::Merge, b"v"),
        ),
        taken(
            "an operand that is refused",
            one(b"\x02\0\0\0\x03", MessageKind::Merge, b"text"),
        ),
        ("a base that is refused", 2, upon, None),
    ]
}

#[test]
fn a_record_of_other_writes_is_refused_or_a_write_like_others() {
    let cases = [of_keys(), of_the_catalog(), of_writes_like_others()].concat();
    for (what, count, payload, wanted) in cases {
        let directory = with_record(count, &payload);
        match tiny().open_existing_in(Arc::clone(&directory)) {
            Err(error) => assert_eq!(Some(error.kind()), wanted, "{what}: {error}"),
            Ok(db) => {
                assert_eq!(wanted, None, "{what}");
                use_it(db, &directory, what);
            }
        }
        // A repair may discard or keep the record.
        let directory = with_record(count, &payload);
        if let Err(error) = tiny().repair_in(Arc::clone(&directory)) {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        }
    }
}
