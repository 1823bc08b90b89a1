//! Iterations and lookups that omit long values, and iterations over keys only.

use alluvium::{
    Concurrency, Db, Keyspace, KeyspaceOptions, Options, Structure, Transaction, TransactionOptions, Value,
    WriteSet,
};
use alluvium_base::Purpose;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Structures, each with the maximum length in bytes of the values that the tests write.
const STRUCTURES: [(&str, usize); 6] = [
    ("tiered", 100_000),
    ("levels,k=4", 100_000),
    ("hashed", 100_000),
    ("hashed,form=bot", 100_000),
    ("paged,key=64,value=2048", 2000),
    ("volatile,bytes=8000000", 4000),
];

/// Maximum length in bytes of values that are not omitted.
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

/// Writes values of all lengths. Some are overwritten, deleted or merged into, and some expire.
/// Returns the expected contents.
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

/// Returns the pairs that an iteration without long values should return.
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
    let owned = |pair: alluvium::Result<(Vec<u8>, Value)>| {
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
    // Read without long values in the middle of an iteration, and after a seek.
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
        // Operands apply to values that are otherwise not read, both short and long. Some operands
        // are in a newer run.
        for index in (0..KEYS).step_by(3) {
            // Paged keyspaces merge only into values that do not expire.
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

/// Returns the bytes that scans have read from the device.
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

/// Compares a transaction's iterations and lookups without long values with the complete ones.
fn check_within(transaction: &Transaction, keyspace: &Keyspace, ordered: bool, case: &str) -> usize {
    let pairs = |walk: &mut dyn Iterator<Item = alluvium::Result<(Vec<u8>, Value)>>| {
        walk.map(|pair| pair.map(|(key, value)| (key, value.to_vec())).unwrap())
            .collect::<BTreeMap<_, _>>()
    };
    let there = pairs(&mut transaction.unordered(keyspace));
    let short = pairs(&mut transaction.unordered(keyspace).without_long_values());
    assert!(short.into_iter().eq(without_long(&there)), "{case}");
    for index in 0..2 * KEYS {
        let is_there = transaction.contains(keyspace, key(index)).unwrap();
        assert_eq!(is_there, there.contains_key(&key(index)), "{case}: {index}");
    }
    if ordered {
        assert_eq!(pairs(&mut transaction.iter(keyspace)), there, "{case}");
        let mut walk = transaction.iter(keyspace).without_long_values();
        let forward = pairs(&mut walk);
        let mut walk = transaction.iter(keyspace).without_long_values();
        let back = pairs(&mut std::iter::from_fn(|| walk.next_back()));
        assert!(
            forward == back && forward.into_iter().eq(without_long(&there)),
            "{case}"
        );
    }
    there.len()
}

#[test]
fn transactions_walk_without_long_values_over_their_own_writes_and_those_that_they_spilled() {
    for (structure, longest) in STRUCTURES {
        for operator in [true, false] {
            for (concurrency, memory) in [
                (Concurrency::Optimistic, 1 << 20),
                (Concurrency::Locking, 1 << 20),
                (Concurrency::Optimistic, 3000),
            ] {
                if structure.starts_with("volatile") && memory == 3000 {
                    continue;
                }
                let case = format!("{structure}, operator {operator}, {concurrency:?}, {memory}");
                let place = tempfile::tempdir().unwrap();
                let db = Options::new()
                    .memory(16 << 20)
                    .open(place.path().join("store"))
                    .unwrap();
                let options = match operator {
                    true => options(structure),
                    false => KeyspaceOptions::new().structure(structure.parse().unwrap()),
                };
                let keyspace = db.keyspace_with("k", &options).unwrap();
                filled(&keyspace, longest);
                db.checkpoint().unwrap();
                let how = TransactionOptions::new().concurrency(concurrency).memory(memory);
                let transaction = db.begin_with(&how);
                let ordered = !structure.starts_with("hashed");
                let before = check_within(&transaction, &keyspace, ordered, &case);
                for index in (0..2 * KEYS).step_by(5) {
                    let long = vec![b'o'; longest];
                    transaction.put(&keyspace, key(index), long).unwrap();
                    transaction.put(&keyspace, key(index + 1), "short").unwrap();
                    transaction.delete(&keyspace, key(index + 2)).unwrap();
                    // Operands apply to long values of the store, whose lengths count towards the
                    // limit.
                    if operator && longest + 3 <= 100_003 && !structure.starts_with("paged") {
                        transaction.merge(&keyspace, key(index + 3), "end").unwrap();
                    }
                }
                let after = check_within(&transaction, &keyspace, ordered, &case);
                assert!(
                    after > before / 2 && after < 2 * KEYS,
                    "{case}: {before}, {after}"
                );
                transaction.commit().unwrap();
                let transaction = db.begin();
                assert_eq!(
                    check_within(&transaction, &keyspace, ordered, &case),
                    after,
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn write_sets_walk_without_long_values() {
    for operator in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let db = Options::new()
            .memory(16 << 20)
            .open(place.path().join("s"))
            .unwrap();
        let options = match operator {
            true => options("tiered"),
            false => KeyspaceOptions::new(),
        };
        let keyspace = db.keyspace_with("k", &options).unwrap();
        filled(&keyspace, 100_000);
        db.checkpoint().unwrap();
        let mut writes = WriteSet::new(&keyspace);
        for index in (0..2 * KEYS).step_by(5) {
            writes.put(key(index), vec![b'o'; 50_000]);
            writes.delete(key(index + 1));
            if operator {
                writes.merge(key(index + 2), "end").unwrap();
            }
        }
        let owned = |pair: alluvium::Result<(Vec<u8>, Value)>| {
            pair.map(|(key, value)| (key, value.to_vec())).unwrap()
        };
        let there: BTreeMap<_, _> = writes.iter().map(owned).collect();
        let short: Vec<_> = writes.iter().without_long_values().map(owned).collect();
        assert_eq!(short, without_long(&there));
        let back: Vec<_> = writes.iter().without_long_values().rev().map(owned).collect();
        assert!(back.into_iter().rev().eq(short));
        let before = scanned(&db);
        let walk = writes.range(key(30)..key(40)).without_long_values();
        assert!(walk.count() > 5);
        let read = scanned(&db) - before;
        assert!(operator || read < 100_000, "{read} bytes");
    }
}

#[test]
fn lookups_without_long_values_read_none_outside_leaves() {
    for structure in ["tiered", "levels,k=4", "hashed", "hashed,form=bot"] {
        let place = tempfile::tempdir().unwrap();
        let open = || Options::new().memory(16 << 20).open(place.path()).unwrap();
        let db = open();
        let options = KeyspaceOptions::new().structure(structure.parse().unwrap());
        let keyspace = db.keyspace_with("k", &options).unwrap();
        for index in 0..KEYS {
            let len = [50_000, 10][index % 2];
            keyspace.put(key(index), vec![index as u8; len]).unwrap();
        }
        db.close().unwrap();
        let db = open();
        let keyspace = db.existing_keyspace("k").unwrap();
        let names: Vec<_> = (0..KEYS + 5).map(key).collect();
        let found = keyspace.multi_get_without_long_values(&names).unwrap();
        for (index, value) in found.iter().enumerate() {
            let expected = (index < KEYS).then(|| vec![index as u8; [0, 10][index % 2]]);
            assert_eq!(value.as_deref(), expected.as_deref(), "{structure}: {index}");
            assert_eq!(
                keyspace.contains(key(index)).unwrap(),
                index < KEYS,
                "{structure}"
            );
        }
        let read = db.stats().device.of(Purpose::Lookup).read_bytes;
        assert!(read < 300_000, "{structure}: {read} bytes");
        // The iteration's empty placeholders must not enter the cache.
        let value = keyspace.get(key(0)).unwrap().unwrap();
        assert_eq!(value.len(), 50_000, "{structure}");
    }
}
