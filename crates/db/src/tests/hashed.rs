//! Tests of hashed keyspaces through the public interface.

use super::{hashed_of, memory, pairs, small, tiny};
use crate::admin::changes::Change;
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::admin::stats::Stats;
use crate::error::{Error, ErrorKind};
use crate::options::{HashedForm, HashedOptions, KeyspaceOptions, Structure};
use crate::write::batch::WriteBatch;
use alluvium_base::Purpose;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_model::structures::{
    HashIndex, MachineProfile, OperationRates, StructureModel as Model, WorkloadProfile,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn hashed(options: HashedOptions) -> KeyspaceOptions {
    KeyspaceOptions::new()
        .structure(Structure::Hashed(options))
        .merge_operator("append")
}

#[test]
fn each_index_has_a_structure_of_its_own() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let trie = hashed(HashedOptions::trie());
    let pachash = hashed(HashedOptions::pachash());
    for (name, options) in [("blobs", &trie), ("other", &pachash)] {
        let keyspace = db.keyspace_with(name, options).unwrap();
        keyspace.put("key", name).unwrap();
    }
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    for (name, options) in [("blobs", &trie), ("other", &pachash)] {
        let keyspace = db.keyspace_with(name, options).unwrap();
        assert_eq!(keyspace.options(), options);
        assert_eq!(keyspace.get("key").unwrap().as_deref(), Some(name.as_bytes()));
    }
    let place = |name, options| {
        let keyspace = db.keyspace_with(name, options).unwrap();
        keyspace.definition().dictionary()
    };
    assert_eq!(place("second", &trie), place("blobs", &trie));
    assert_ne!(place("second", &trie), place("other", &pachash));
}

#[test]
fn ordered_calls_say_that_there_is_no_order() {
    let db = small().open_in(memory()).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    for number in 0..100 {
        k.put(number.to_string(), "v").unwrap();
    }
    let refused = |error: Error| {
        assert!(matches!(error, Error::NotOrdered { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("\"k\""), "{error}");
    };
    refused(k.iter().next().unwrap().unwrap_err());
    refused(k.range("1".."2").next_back().unwrap().unwrap_err());
    refused(k.prefix("1").next().unwrap().unwrap_err());
    refused(k.keys().next().unwrap().unwrap_err());
    refused(k.first().unwrap_err());
    refused(k.last().unwrap_err());
    let mut sought = k.iter();
    sought.seek("5");
    refused(sought.next().unwrap().unwrap_err());
    refused(k.delete_range("1", Some(b"2")).unwrap_err());
    refused(db.snapshot().iter(&k).next().unwrap().unwrap_err());
    let transaction = db.begin();
    transaction.put(&k, "own", "v").unwrap();
    refused(transaction.range(&k, "1".."2").next().unwrap().unwrap_err());
    refused(transaction.delete_range(&k, "1", Some(b"2")).unwrap_err());
    drop(transaction);
    let snapshot = db.snapshot();
    assert_eq!(pairs(&k).len(), 100);
    k.delete_range("", None).unwrap();
    assert_eq!(pairs(&k).len(), 0);
    assert_eq!(snapshot.unordered(&k).count(), 100);
}

#[test]
fn points_transactions_and_expiry_work_across_structures() {
    let db = small().open_in(memory()).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    let tree = db.keyspace("tree").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&k, "both", "1").unwrap();
    batch.put(&tree, "both", "1").unwrap();
    db.write(&batch).unwrap();
    k.merge("both", "2").unwrap();
    assert!(k.compare_and_set("new", None, Some(b"1")).unwrap());
    assert!(!k.compare_and_set("new", None, Some(b"2")).unwrap());
    k.put_until("gone", "v", UNIX_EPOCH + Duration::from_secs(1))
        .unwrap();
    db.checkpoint().unwrap();
    let mut first = db.begin();
    let mut second = db.begin();
    for transaction in [&mut first, &mut second] {
        let found = transaction.get(&k, "new").unwrap().unwrap();
        transaction.put(&k, "new", [&found[..], b"+"].concat()).unwrap();
        transaction.put(&tree, "new", "+").unwrap();
    }
    first.commit().unwrap();
    assert!(matches!(second.commit(), Err(Error::Conflict { .. })));
    db.compact().unwrap();
    let many = k.multi_get(["both", "new", "gone", "never"]).unwrap();
    let many: Vec<Option<&[u8]>> = many.iter().map(Option::as_deref).collect();
    assert_eq!(many, [Some(&b"12"[..]), Some(b"1+"), None, None]);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    assert!(hashed_of(&db).sorted_records() == 2, "what has expired is gone");
}

/// Returns the records of a keyspace as a transaction sees them, sorted. Panics if a key occurs
/// twice.
fn seen(
    transaction: &crate::transaction::Transaction,
    k: &crate::keyspace::Keyspace,
) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let all = transaction.unordered(k).map(Result::unwrap);
    let mut all: Vec<_> = all.map(|(key, value)| (text(&key), text(&value))).collect();
    all.sort();
    assert!(all.windows(2).all(|two| two[0].0 != two[1].0), "{all:?}");
    all
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn a_transaction_walks_over_what_it_sees_and_depends_on_all_of_it() {
    use crate::options::{Concurrency, Isolation, TransactionOptions};
    let db = small().open_in(memory()).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    let tree = db.keyspace("tree").unwrap();
    for key in ["a", "b", "c", "d"] {
        k.put(key, "1").unwrap();
    }
    db.checkpoint().unwrap();
    let own = db.begin();
    own.put(&k, "b", "2").unwrap();
    own.delete(&k, "c").unwrap();
    own.merge(&k, "d", "2").unwrap();
    own.put(&k, "e", "2").unwrap();
    k.put("f", "later").unwrap();
    assert_eq!(
        seen(&own, &k),
        named(&[("a", "1"), ("b", "2"), ("d", "12"), ("e", "2")])
    );
    own.delete_range(&k, "", None).unwrap();
    own.put(&k, "g", "3").unwrap();
    assert_eq!(seen(&own, &k), named(&[("g", "3")]));
    drop(own);
    for (concurrency, isolation, conflicts) in [
        (Concurrency::Optimistic, Isolation::Serializable, true),
        (Concurrency::Optimistic, Isolation::Snapshot, false),
    ] {
        let options = TransactionOptions::new()
            .concurrency(concurrency)
            .isolation(isolation);
        for is_written_out in [false, true] {
            let reads = db.begin_with(&options);
            assert_eq!(seen(&reads, &k).len(), 5);
            reads.put(&tree, "sum", "5").unwrap();
            k.put("new", "1").unwrap();
            if is_written_out {
                db.checkpoint().unwrap();
            }
            assert_eq!(reads.commit().is_err(), conflicts, "{isolation:?}");
            k.delete("new").unwrap();
        }
        let reads = db.begin_with(&options);
        assert_eq!(seen(&reads, &k).len(), 5);
        reads.put(&tree, "sum", "5").unwrap();
        tree.put("other", "1").unwrap();
        reads.commit().unwrap();
    }
    let locking = TransactionOptions::new().concurrency(Concurrency::Locking);
    let first = db.begin_with(&locking);
    assert_eq!(seen(&first, &k).len(), 5);
    let second = db.begin_with(&locking.clone().lock_timeout(Duration::ZERO));
    let refused = second.put(&k, "new", "1").unwrap_err();
    assert!(matches!(refused, Error::LockTimedOut { .. }), "{refused}");
}

#[test]
fn many_memtables_become_few_runs_and_all_is_there_after_a_crash() {
    let boa = |lambda, refined| HashedOptions::default().form(HashedForm::Boa { lambda, refined });
    for options in [
        HashedOptions::pachash(),
        HashedOptions::trie(),
        boa(2, false),
        boa(4, true),
    ] {
        let directory = memory();
        let db = tiny().open_in(Arc::clone(&directory)).unwrap();
        let k = db.keyspace_with("k", &hashed(options)).unwrap();
        for number in 0..20_000u32 {
            k.put((number * 7919 % 5000).to_be_bytes(), [b'v'; 100]).unwrap();
            if number % 100 == 0 {
                while db.work().unwrap() {}
            }
        }
        db.checkpoint().unwrap();
        while db.work().unwrap() {}
        let young = hashed_of(&db).hash_store_count();
        assert!(young < 32, "{young}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        k.put("last", "one").unwrap();
        db.abandon();
        drop((k, db));
        let db = tiny().open_existing_in(directory).unwrap();
        let k = db.existing_keyspace("k").unwrap();
        assert_eq!(pairs(&k).len(), 5001);
        let (first, _) = k.unordered().nth(1000).unwrap().unwrap();
        assert_eq!(k.unordered().after(&first).count(), 4000);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.compact().unwrap();
        let structure = hashed_of(&db);
        assert_eq!(
            (structure.hash_store_count(), structure.sorted_records()),
            (0, 5001)
        );
        db.drop_keyspace("k").unwrap();
        db.compact().unwrap();
        let structure = hashed_of(&db);
        assert_eq!((structure.hash_store_count(), structure.sorted_records()), (0, 0));
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn what_is_written_across_structures_is_whole_after_a_crash() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::trie())).unwrap();
    let tree = db.keyspace("tree").unwrap();
    let from = db.sequence();
    let write = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let transaction = db.begin();
            transaction.put(&k, number.to_be_bytes(), "1").unwrap();
            transaction.put(&tree, number.to_be_bytes(), "1").unwrap();
            if number % 2 == 0 {
                transaction.commit().unwrap();
            }
        }
    };
    write(0..30);
    let mut told = BTreeSet::new();
    let mut changes = db.changes_since(from).unwrap();
    for set in changes.by_ref() {
        for change in set.unwrap().changes {
            if let Change::Put { keyspace, key, .. } = change {
                told.insert((keyspace, key));
            }
        }
    }
    db.checkpoint().unwrap();
    write(30..50);
    db.abandon();
    drop((k, tree, changes, db));
    let db = small().open_existing_in(directory).unwrap();
    let [k, tree] = ["k", "tree"].map(|name| db.existing_keyspace(name).unwrap());
    assert_eq!(pairs(&k).len(), 25);
    assert_eq!(pairs(&k), pairs(&tree));
    let keys = pairs(&k).into_keys().take(15);
    let wanted = keys.flat_map(|key| ["k", "tree"].map(|name| (name.to_owned(), key.clone())));
    assert_eq!(told, wanted.collect());
}

#[test]
fn hash_stores_that_are_too_many_are_counted_and_hold_writers_back() {
    let db = tiny().open_in(memory()).unwrap();
    assert_eq!(db.stats().hashed, None);
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    assert!(!db.engine().dictionaries.has_pending_work());
    let mut crowding = Vec::new();
    for load in 0..40u32 {
        k.ingest([(load.to_be_bytes(), "loaded")]).unwrap();
        crowding.push(db.engine().dictionaries.read_amplification_percent());
    }
    // Up to eight hash stores may accumulate while the sorted store is empty. At twice that number,
    // writers are throttled.
    assert_eq!((crowding[7], crowding[15], crowding[31]), (50, 100, 200));
    let stats = db.stats().hashed.unwrap();
    assert_eq!((stats.hash_stores, stats.merges), (40, 0));
    assert_eq!(stats.hash_store_records, 40);
    assert_eq!(db.engine().dictionaries.overdue_steps(), 40 - 24);
    assert!(
        db.engine().dictionaries.has_pending_work(),
        "a full disk is relieved by merges"
    );
    db.compact().unwrap();
    assert!(!db.engine().dictionaries.has_pending_work());
    let stats = db.stats();
    let hashed = stats.hashed.unwrap();
    assert_eq!((hashed.hash_stores, hashed.sorted_records), (0, 40));
    assert!(hashed.merges >= 16 && hashed.merged_records >= 40, "{hashed:?}");
    assert!(hashed.memory_bytes > 0 && hashed.device_bytes > 0, "{hashed:?}");
    assert_eq!(hashed_of(&db).read_amplification_percent(), 0);
    let list = stats.list();
    let figure = |name| list.iter().find(|figure| figure.name == name).unwrap().value;
    assert_eq!(figure("hashed.sorted_records"), 40.0);
}

#[test]
fn a_walk_goes_on_behind_any_key_in_every_structure() {
    let db = small().open_in(memory()).unwrap();
    let structures = [
        Structure::Tiered,
        "levels,samt,k=4".parse().unwrap(),
        Structure::Hashed(HashedOptions::default()),
    ];
    for (number, structure) in structures.into_iter().enumerate() {
        let options = KeyspaceOptions::new().structure(structure);
        let k = db.keyspace_with(&format!("k{number}"), &options).unwrap();
        for number in 0..40 {
            k.put(format!("key {number}"), "v").unwrap();
            if number == 20 {
                db.compact().unwrap();
            }
        }
        let walked: Vec<Vec<u8>> = k.unordered().map(|pair| pair.unwrap().0).collect();
        assert_eq!(walked.len(), 40);
        let (mut after, mut found) = (k.unordered(), Vec::new());
        while let Some((key, _)) = after.next().transpose().unwrap() {
            after = k.unordered().after(&key);
            found.push(key);
            assert!(
                found.len() <= walked.len(),
                "a walk does not come back, k{number}"
            );
        }
        assert_eq!(found, walked, "each key once, k{number}");
        // An iteration can resume even after a deleted key.
        k.delete(&walked[10]).unwrap();
        assert_eq!(k.unordered().after(&walked[10]).count(), 29);
    }
}

#[test]
fn the_model_says_what_updates_write_and_how_much_memory_is_taken() {
    const KEYS: u64 = 30_000;
    let db = small().open_in(memory()).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::pachash())).unwrap();
    let put = |numbers: &mut dyn Iterator<Item = u64>| {
        let mut batch = WriteBatch::new();
        for number in numbers {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            batch.put(&k, [key, key].concat(), [number as u8; 100]).unwrap();
        }
        db.write(&batch).unwrap();
        while db.work().unwrap() {}
    };
    let mut random = fastrand::Rng::with_seed(31);
    (0..KEYS / 500).for_each(|part| put(&mut (500 * part..500 * (part + 1))));
    db.compact().unwrap();
    // There are enough rounds that the progress of the last merge does not affect the result.
    let (before, mut memory_bytes) = (db.stats(), Vec::new());
    for _ in 0..300 {
        put(&mut (0..500).map(|_| random.u64(..KEYS)));
        memory_bytes.push(db.stats().hashed.unwrap().memory_bytes as f64);
    }
    let after = db.stats();
    let tree = |stats: &Stats| {
        let of = |purpose| stats.device.of(purpose).written_bytes;
        of(Purpose::Incorporate) + of(Purpose::Compact)
    };
    let user = (after.written_bytes - before.written_bytes) as f64;
    let measured = (tree(&after) - tree(&before)) as f64 / user;
    let workload = WorkloadProfile {
        keys: KEYS as f64,
        operations: OperationRates {
            hits: 0.0,
            ..WorkloadProfile::default().operations
        },
        ..WorkloadProfile::default()
    };
    let machine = MachineProfile {
        memory_bytes: f64::from(16 << 20),
        ..MachineProfile::default()
    };
    let index = HashIndex::PaCHash;
    let cost = Model::Hashed { index }.cost(&workload, &machine).unwrap();
    // Subtract the cost of the log, which writes whole blocks for each commit.
    let predicted = cost.write_amplification.middle - 140.0 / 116.0;
    assert!(
        (measured / predicted - 1.0).abs() < 0.2,
        "{measured} written, {predicted} predicted"
    );
    let each = memory_bytes.iter().sum::<f64>() / memory_bytes.len() as f64 / KEYS as f64;
    let predicted = cost.memory_per_key;
    assert!(
        (each / predicted - 1.0).abs() < 0.4,
        "{each} bytes a key, {predicted} predicted"
    );
}

#[test]
fn on_a_full_disk_the_background_merges_deletes_of_hashed_keys() {
    for options in [
        HashedOptions::default(),
        HashedOptions::default().form(HashedForm::Bot { lambda: 4 }),
    ] {
        let db = small().open_in(memory()).unwrap();
        let k = db.keyspace_with("k", &hashed(options)).unwrap();
        for number in 0..3000u32 {
            k.put(number.to_be_bytes(), [b'v'; 50]).unwrap();
        }
        db.compact().unwrap();
        for number in 0..2900u32 {
            k.delete(number.to_be_bytes()).unwrap();
        }
        db.checkpoint().unwrap();
        while db.work().unwrap() {}
        let stats = || db.stats().hashed.unwrap();
        let before = stats();
        assert!(before.tombstones >= 2900, "they wait for others: {before:?}");
        let full = alluvium_storage::Error::Full {
            wanted: 1,
            free: 0,
            reserve: true,
        };
        db.engine().note_full(&Error::from(full));
        for _ in 0..2 {
            db.engine().free_space().unwrap();
            while db.work().unwrap() {}
        }
        let after = stats();
        assert_eq!(after.tombstones, 0, "{after:?}");
        assert!(
            2 * after.device_bytes < before.device_bytes,
            "{before:?}, {after:?}"
        );
        let merges = after.merges;
        db.engine().free_space().unwrap();
        while db.work().unwrap() {}
        assert_eq!(stats().merges, merges, "there is nothing else to free");
        assert_eq!(pairs(&k).len(), 100);
    }
}
