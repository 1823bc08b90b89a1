//! Walks that leave out long values, and walks over keys.

use alluvium::{Db, Keyspace, KeyspaceOptions, Options, Structure};
use alluvium_base::Purpose;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Structures, and the longest value that goes into each.
const STRUCTURES: [(&str, usize); 6] = [
    ("tiered", 100_000),
    ("levels,k=4", 100_000),
    ("hashed", 100_000),
    ("hashed,form=bot", 100_000),
    ("paged,key=64,value=2048", 2000),
    ("volatile,bytes=8000000", 4000),
];

/// Values up to this length are handed out.
const SHORT: usize = 1024;

const KEYS: usize = 60;

fn key(index: usize) -> Vec<u8> {
    format!("key{index:03}").into_bytes()
}

fn options(structure: &str) -> KeyspaceOptions {
    KeyspaceOptions::new()
        .merge_operator("append")
        .structure(structure.parse::<Structure>().unwrap())
}

/// Writes values of all lengths; some are overwritten, deleted, expire, or are merged upon. Returns
/// what is there.
fn filled(keyspace: &Keyspace, longest: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut there = BTreeMap::new();
    for index in 0..KEYS {
        let len = match index % 4 {
            0 => longest,
            1 => SHORT + 1,
            2 => SHORT,
            _ => index,
        };
        let value = vec![index as u8; len];
        let hour = Duration::from_secs(3600);
        let now = SystemTime::now();
        match index % 7 {
            1 => keyspace.put_until(key(index), &value, now + hour).unwrap(),
            2 => keyspace.put_until(key(index), &value, now - hour).unwrap(),
            _ => keyspace.put(key(index), &value).unwrap(),
        }
        if index % 7 != 2 {
            there.insert(key(index), value);
        }
    }
    for index in (5..KEYS).step_by(11) {
        keyspace.delete(key(index)).unwrap();
        there.remove(&key(index));
    }
    there
}

/// What a walk hands out that leaves out long values.
fn without_long(there: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let shown = |value: &Vec<u8>| match value.len() {
        0..=SHORT => value.clone(),
        _ => Vec::new(),
    };
    there
        .iter()
        .map(|(key, value)| (key.clone(), shown(value)))
        .collect()
}

fn check(keyspace: &Keyspace, there: &BTreeMap<Vec<u8>, Vec<u8>>, structure: &str) {
    let expected = without_long(there);
    let owned = |pair: alluvium::Result<(Vec<u8>, alluvium::Value)>| {
        let (key, value) = pair.unwrap();
        (key, value.to_vec())
    };
    let mut found: Vec<_> = keyspace.unordered().without_long_values().map(owned).collect();
    found.sort();
    assert_eq!(found, expected, "{structure}");
    if structure.starts_with("hashed") {
        return;
    }
    let found: Vec<_> = keyspace.iter().without_long_values().map(owned).collect();
    assert_eq!(found, expected, "{structure}");
    let mut found: Vec<_> = keyspace.iter().without_long_values().rev().map(owned).collect();
    found.reverse();
    assert_eq!(found, expected, "{structure}");
    let keys: Vec<Vec<u8>> = keyspace.iter().keys().map(Result::unwrap).collect();
    assert!(keys.iter().eq(there.keys()), "{structure}");
    // In the middle of a walk, and where it was moved.
    let mut walk = keyspace.iter();
    let (first, value) = walk.lend().unwrap().unwrap();
    assert_eq!(Some(&value.to_vec()), there.get(first), "{structure}");
    let mut walk = walk.without_long_values();
    walk.seek(key(20));
    let rest: Vec<_> = walk.map(owned).collect();
    let at = expected.partition_point(|(name, _)| *name < key(20));
    assert_eq!(rest, expected[at..], "{structure}");
}

#[test]
fn walks_without_long_values_meet_every_key_in_every_structure() {
    for (structure, longest) in STRUCTURES {
        let place = tempfile::tempdir().unwrap();
        let open = || {
            Options::new()
                .memory(16 << 20)
                .open(place.path().join("store"))
                .unwrap()
        };
        let db = open();
        let keyspace = db.keyspace_with("k", &options(structure)).unwrap();
        let mut there = filled(&keyspace, longest);
        check(&keyspace, &there, structure);
        db.checkpoint().unwrap();
        check(&keyspace, &there, structure);
        // Operands lie upon values that are not read otherwise, short ones and long ones, and some
        // come from a younger run.
        for index in (0..KEYS).step_by(3) {
            // Paged keyspaces merge upon what does not expire.
            if structure.starts_with("paged") && matches!(index % 7, 1 | 2) {
                continue;
            }
            keyspace.merge(key(index), "end").unwrap();
            there.entry(key(index)).or_default().extend_from_slice(b"end");
        }
        check(&keyspace, &there, structure);
        db.checkpoint().unwrap();
        check(&keyspace, &there, structure);
        let whole: BTreeMap<_, _> = keyspace
            .unordered()
            .map(|pair| pair.map(|(key, value)| (key, value.to_vec())).unwrap())
            .collect();
        assert!(whole == there, "{structure}: others read all of them");
    }
}

/// What walks have read from the device.
fn scanned(db: &Db) -> u64 {
    db.stats().device.of(Purpose::Scan).read_bytes
}

#[test]
fn walks_over_keys_read_no_value_outside_leaves() {
    for structure in ["tiered", "levels,k=4", "hashed"] {
        let place = tempfile::tempdir().unwrap();
        let open = || {
            Options::new()
                .memory(16 << 20)
                .open(place.path().join("store"))
                .unwrap()
        };
        let db = open();
        let keyspace = db.keyspace_with("k", &options(structure)).unwrap();
        let until = SystemTime::now() + Duration::from_secs(3600);
        for index in 0..KEYS {
            let value = vec![index as u8; 50_000];
            match index % 2 {
                0 => keyspace.put(key(index), value).unwrap(),
                _ => keyspace.put_until(key(index), value, until).unwrap(),
            }
        }
        db.checkpoint().unwrap();
        db.close().unwrap();
        let db = open();
        let keyspace = db.existing_keyspace("k").unwrap();
        let before = scanned(&db);
        assert_eq!(keyspace.unordered().without_long_values().count(), KEYS);
        if structure != "hashed" {
            assert_eq!(keyspace.iter().keys().count(), KEYS);
            assert_eq!(keyspace.iter().keys().rev().count(), KEYS);
        }
        let read = scanned(&db) - before;
        assert!(read < 200_000, "{structure}: {read} bytes");
        assert_eq!(keyspace.unordered().count(), KEYS);
        let read = scanned(&db) - before;
        assert!(read > 2_000_000, "{structure}: {read} bytes");
    }
}
