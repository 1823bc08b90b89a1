//! Records of the log, with sound checksums, that no store has written: each is an error that names
//! what is wrong, or a write like others.

use super::{pairs, store_options, tiny};
use crate::format::{self, KeyspaceId};
use crate::simulation::OpenIn as _;
use crate::{Db, ErrorKind, KeyspaceOptions};
use alluvium_base::Kind;
use alluvium_base::bytes::Writer;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::record::MAX_KEY;
use alluvium_storage::Durability;
use alluvium_storage::store::Store;
use std::sync::Arc;

/// A closed store with a few keys, and the record of a commit that its log has beside them.
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
        .append(first, count, payload, Durability::Process)
        .unwrap();
    store.log().sync_through(first + u64::from(count) - 1).unwrap();
    drop(store);
    directory
}

fn one(key: &[u8], kind: Kind, operand: &[u8]) -> Vec<u8> {
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
    one(&format::next_key(), Kind::Put, &format::encode_next(id))
}

fn snapshot(at: u64) -> Vec<u8> {
    one(
        &format::snapshot_key("late"),
        Kind::Put,
        &format::encode_snapshot(at),
    )
}

/// A record of the catalog for a keyspace of this number.
fn keyspace(id: KeyspaceId) -> Vec<u8> {
    let value = format::encode_keyspace(id, 1, &KeyspaceOptions::default());
    one(&format::keyspace_key("another"), Kind::Put, &value)
}

/// Uses all that the store has, and opens it again.
fn use_it(db: Db, directory: &Arc<dyn Directory>, what: &str) {
    let mut shown = Vec::new();
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name).unwrap();
        // A value that its operator refuses is an error that says so.
        let is_readable = |pair: &crate::Result<_>| match pair {
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

#[test]
fn a_record_of_other_writes_is_refused_or_a_write_like_others() {
    let long = [&[1][..], &[7; MAX_KEY]].concat();
    let no_keyspace = [0xff; 12];
    let huge = {
        let mut record = vec![Kind::Put as u8];
        Writer::new(&mut record).varint(u64::MAX).bytes(b"\x01a");
        record
    };
    let cases: Vec<(&str, u32, Vec<u8>, Option<ErrorKind>)> = vec![
        (
            "a key without a keyspace",
            1,
            one(b"", Kind::Put, b"v"),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a key of no keyspace",
            1,
            one(&no_keyspace, Kind::Put, b"v"),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a key cut in its number",
            1,
            one(&[0xf2, 1], Kind::Delete, b""),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a key that is too long",
            1,
            one(&long, Kind::Put, b"v"),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a range from a key that is too long",
            1,
            range(&long, b"\x02"),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a range to a key that is too long",
            1,
            range(b"\x01", &long),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a range of no keyspace",
            1,
            range(&no_keyspace, &[0xff; 13]),
            Some(ErrorKind::Corrupt),
        ),
        ("a length beyond the record", 1, huge, Some(ErrorKind::Corrupt)),
        (
            "more writes than are said",
            1,
            [one(b"\x01a", Kind::Put, b"v"), one(b"\x01b", Kind::Put, b"v")].concat(),
            Some(ErrorKind::Corrupt),
        ),
        (
            "fewer writes than are said",
            3,
            one(b"\x01a", Kind::Put, b"v"),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a kind that there is not",
            1,
            b"\x09\x01a".to_vec(),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a catalog key of no kind",
            1,
            one(b"\0", Kind::Put, b""),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a catalog key of another kind",
            1,
            one(b"\0x", Kind::Put, b""),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a keyspace that ends too soon",
            1,
            one(b"\0kshort", Kind::Put, b"\x02"),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a keyspace with the catalog's number",
            1,
            keyspace(0),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a keyspace with the last number",
            1,
            keyspace(u32::MAX),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a snapshot of the future",
            1,
            snapshot(1 << 40),
            Some(ErrorKind::Corrupt),
        ),
        (
            "a snapshot of the last number",
            1,
            snapshot(u64::MAX),
            Some(ErrorKind::Corrupt),
        ),
        ("a snapshot of the beginning", 1, snapshot(0), None),
        ("a next number that is taken", 1, next(1), None),
        ("a next number of the catalog", 1, next(0), None),
        (
            "the next number is the last",
            1,
            next(u32::MAX),
            Some(ErrorKind::Corrupt),
        ),
        ("an empty range", 1, range(b"\x01b", b"\x01b"), None),
        (
            "a range that ends before it begins",
            1,
            range(b"\x02", b"\x01"),
            None,
        ),
        (
            "a range over two keyspaces",
            1,
            range(b"\x01\x00\x00\x00\x05", b"\x02\x00\x00\x00\x05"),
            None,
        ),
        (
            "a key of a keyspace that was dropped",
            1,
            one(b"\x09a", Kind::Put, b"v"),
            None,
        ),
        (
            "a merge without an operator",
            1,
            one(b"\x01a", Kind::Merge, b"v"),
            None,
        ),
        (
            "an operand that is refused",
            1,
            one(b"\x02\0\0\0\x03", Kind::Merge, b"text"),
            None,
        ),
        (
            "a base that is refused",
            2,
            [
                one(b"\x02a", Kind::Put, b"text"),
                one(b"\x02a", Kind::Merge, &[1; 8]),
            ]
            .concat(),
            None,
        ),
    ];
    for (what, count, payload, wanted) in cases {
        let directory = with_record(count, &payload);
        match tiny().open_existing_in(Arc::clone(&directory)) {
            Err(error) => assert_eq!(Some(error.kind()), wanted, "{what}: {error}"),
            Ok(db) => {
                assert_eq!(wanted, None, "{what}");
                use_it(db, &directory, what);
            }
        }
        // A repair gives it up, or keeps it.
        let directory = with_record(count, &payload);
        if let Err(error) = tiny().repair_in(Arc::clone(&directory)) {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        }
    }
}
