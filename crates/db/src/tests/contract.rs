//! Tests of the behaviour common to all structures. Each part of the suite runs on every kind of
//! structure.

use super::{directories, memory, spread};
use crate::admin::changes::Change;
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::options::hashed::UNNAMED;
use crate::options::kind::StructureKind;
use crate::options::{HashedForm, KeyspaceOptions};
use crate::write::batch::WriteBatch;
use alluvium_dictionary::merge::{CompactionFilter, FilterCandidate, FilterVerdict};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A part of the test suite. It receives a store and a new keyspace with the merge operator
/// `append`.
type Part = fn(&Db, &Keyspace, &Context);

/// Where a part's writes are stored when it reads them.
struct Context {
    /// Leaves the writes in the memtable, flushes them, or compacts them.
    settle: fn(&Db),
}

const SETTLES: [fn(&Db); 3] = [
    |_| (),
    |db| {
        db.checkpoint().unwrap();
        while db.work().unwrap() {}
    },
    |db| db.compact().unwrap(),
];

fn options() -> KeyspaceOptions {
    KeyspaceOptions::new().merge_operator("append")
}

/// Runs a part of the suite on every kind of structure, on one tier and on two, with the writes in
/// memory, flushed, and compacted.
fn each(part: Part) {
    for (structure, form) in kinds() {
        UNNAMED.set(form);
        for settle in SETTLES {
            for tiers in [1, 2] {
                let db = spread().open_in(directories(tiers)).unwrap();
                let keyspace = db.keyspace_in("k", structure, &options()).unwrap();
                part(&db, &keyspace, &Context { settle });
                assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{structure:?}, {form}");
            }
        }
    }
}

/// Returns every structure. The hashed structure appears once per form.
fn kinds() -> impl Iterator<Item = (StructureKind, HashedForm)> {
    let arrays = |(lambda, refined)| HashedForm::Boa { lambda, refined };
    let bundles = [(2, false), (4, true)].map(arrays).into_iter();
    let bundles = bundles.chain([2, 4].map(|lambda| HashedForm::Bot { lambda }));
    let all = StructureKind::ALL.map(|structure| (structure, HashedForm::Silt));
    let bundles = bundles.map(|form| (StructureKind::Hashed, form));
    all.into_iter().chain(bundles)
}

fn value(keyspace: &Keyspace, key: &str) -> Option<Vec<u8>> {
    let found = keyspace.get(key).unwrap().map(|value| value.into_vec());
    let polled = pollster::block_on(keyspace.get_async(key)).unwrap();
    assert_eq!(polled.as_deref(), found.as_deref(), "{key}, polled");
    let many = keyspace.multi_get([key, "there is none"]).unwrap();
    assert_eq!(many[0].as_deref(), found.as_deref(), "{key}, with others");
    assert!(many[1].is_none());
    found
}

fn keys(keyspace: &Keyspace) -> Vec<String> {
    let key = |pair: crate::error::Result<(Vec<u8>, crate::read::value::Value)>| {
        String::from_utf8(pair.unwrap().0).unwrap()
    };
    let forward: Vec<String> = keyspace.iter().map(key).collect();
    let mut backward: Vec<String> = keyspace.iter().rev().map(key).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

#[test]
fn what_is_put_is_read_until_it_is_deleted() {
    each(|db, k, context| {
        for key in ["Elbe", "Oder", "Rhein", "Weser"] {
            k.put(key, key.len().to_string()).unwrap();
        }
        (context.settle)(db);
        assert_eq!(value(k, "Elbe").unwrap(), b"4");
        k.delete("Oder").unwrap();
        k.put("Elbe", "1094").unwrap();
        assert_eq!(keys(k), ["Elbe", "Rhein", "Weser"]);
        (context.settle)(db);
        assert_eq!(value(k, "Elbe").unwrap(), b"1094");
        assert_eq!(value(k, "Oder"), None);
        assert_eq!(keys(k), ["Elbe", "Rhein", "Weser"]);
        assert!(k.approximate_len().unwrap() >= 3);
    });
}

#[test]
fn merges_fold_in_their_order() {
    each(|db, k, context| {
        k.merge("a", "1").unwrap();
        k.put("b", "0").unwrap();
        (context.settle)(db);
        k.merge("a", "2").unwrap();
        k.merge("b", "1").unwrap();
        (context.settle)(db);
        k.merge("a", "3").unwrap();
        assert_eq!(value(k, "a").unwrap(), b"123");
        assert_eq!(value(k, "b").unwrap(), b"01");
        k.delete("a").unwrap();
        k.merge("a", "4").unwrap();
        (context.settle)(db);
        assert_eq!(value(k, "a").unwrap(), b"4");
    });
}

#[test]
fn a_range_is_deleted_below_what_is_written_later() {
    each(|db, k, context| {
        for number in 0..50 {
            k.put(format!("{number:02}"), "old").unwrap();
        }
        (context.settle)(db);
        let before = db.snapshot();
        k.delete_range("10", Some(b"40")).unwrap();
        k.put("20", "new").unwrap();
        k.merge("30", "merged").unwrap();
        (context.settle)(db);
        assert_eq!(keys(k).len(), 22);
        assert_eq!(value(k, "20").unwrap(), b"new");
        assert_eq!(value(k, "30").unwrap(), b"merged");
        assert_eq!(value(k, "15"), None);
        assert_eq!(before.iter(k).count(), 50);
        assert_eq!(before.get(k, "20").unwrap().unwrap(), b"old");
        drop(before);
        k.delete_range("", None).unwrap();
        (context.settle)(db);
        assert_eq!(keys(k), Vec::<String>::new());
    });
}

#[test]
fn a_snapshot_reads_what_was_there_when_it_was_taken() {
    each(|db, k, context| {
        k.put("a", "1").unwrap();
        k.merge("b", "1").unwrap();
        (context.settle)(db);
        let first = db.snapshot();
        k.put("a", "2").unwrap();
        k.merge("b", "2").unwrap();
        (context.settle)(db);
        let second = db.create_snapshot("second").unwrap();
        k.delete("a").unwrap();
        k.delete("b").unwrap();
        (context.settle)(db);
        let all = |snapshot: &crate::keyspace::snapshot::Snapshot| {
            let pairs = snapshot.iter(k).map(|pair| pair.unwrap().1.into_vec());
            pairs.collect::<Vec<_>>().concat()
        };
        assert_eq!((all(&first), all(&second)), (b"11".to_vec(), b"212".to_vec()));
        assert_eq!(first.get(k, "a").unwrap().unwrap(), b"1");
        assert_eq!(
            pollster::block_on(second.get_async(k, "b")).unwrap().unwrap(),
            b"12"
        );
        assert_eq!(keys(k), Vec::<String>::new());
    });
}

#[test]
fn a_walk_goes_where_it_is_sent_from_either_end() {
    each(|db, k, context| {
        for number in (0..100).step_by(2) {
            k.put(format!("{number:02}"), "").unwrap();
            if number == 50 {
                (context.settle)(db);
            }
        }
        let range = |from: &str, to: &str| -> Vec<String> {
            let found = k
                .range(from..to)
                .map(|pair| String::from_utf8(pair.unwrap().0).unwrap());
            found.collect()
        };
        assert_eq!(range("45", "53"), ["46", "48", "50", "52"]);
        assert_eq!(range("98", "98").len(), 0);
        let last = k.range(.."31").next_back().unwrap().unwrap();
        assert_eq!(last.0, b"30");
        let mut iter = k.range("10".."20");
        iter.seek("15");
        assert_eq!(iter.next().unwrap().unwrap().0, b"16");
        assert_eq!(iter.next_back().unwrap().unwrap().0, b"18");
        assert!(iter.next().is_none());
        iter.seek("00");
        assert_eq!(iter.next().unwrap().unwrap().0, b"10");
        // A key inserted behind an iterator's position is not returned.
        let mut iter = k.iter();
        iter.next();
        k.put("01", "").unwrap();
        (context.settle)(db);
        assert_eq!(iter.next().unwrap().unwrap().0, b"02");
    });
}

#[test]
fn a_batch_a_condition_and_a_load_take_effect_as_one() {
    each(|db, k, context| {
        let other = db.keyspace("other").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(k, "a", "1").unwrap();
        batch.put(&other, "a", "2").unwrap();
        db.write(&batch).unwrap();
        (context.settle)(db);
        assert!(k.compare_and_set("a", Some(b"1"), Some(b"3")).unwrap());
        assert!(!k.compare_and_set("a", Some(b"1"), None).unwrap());
        (context.settle)(db);
        assert_eq!(value(k, "a").unwrap(), b"3");
        assert_eq!(value(&other, "a").unwrap(), b"2");
        let mut load = k.begin_ingest().unwrap();
        for key in ["a", "b", "c"] {
            load.put(key, "loaded").unwrap();
        }
        assert!(matches!(load.put("b", ""), Err(Error::Unsorted { .. })));
        load.finish().unwrap();
        (context.settle)(db);
        k.put("b", "after").unwrap();
        assert_eq!(value(k, "a").unwrap(), b"loaded");
        assert_eq!(value(k, "b").unwrap(), b"after");
        assert_eq!(keys(k), ["a", "b", "c"]);
    });
}

#[test]
fn a_value_expires_and_its_key_is_as_if_it_were_not() {
    each(|db, k, context| {
        let past = SystemTime::now() - Duration::from_secs(60);
        let future = SystemTime::now() + Duration::from_secs(3600);
        k.put("a", "stays").unwrap();
        k.put_until("b", "gone", past).unwrap();
        k.put_until("c", "there", future).unwrap();
        (context.settle)(db);
        assert_eq!(keys(k), ["a", "c"]);
        assert_eq!(value(k, "b"), None);
        assert_eq!(value(k, "c").unwrap(), b"there");
    });
}

#[test]
fn a_follower_is_told_of_the_changes_of_every_keyspace() {
    each(|db, k, context| {
        k.put("a", "1").unwrap();
        let from = db.sequence();
        k.delete("a").unwrap();
        (context.settle)(db);
        k.put("b", "2").unwrap();
        let Ok(mut changes) = db.changes_since(from) else {
            return;
        };
        let mut told = Vec::new();
        while let Some(Ok(set)) = changes.next() {
            told.extend(set.changes);
        }
        let is_named = |change: &Change| match change {
            Change::Put { keyspace, .. } | Change::Delete { keyspace, .. } => keyspace == "k",
            _ => false,
        };
        assert!(told.iter().all(is_named), "{told:?}");
    });
}

#[test]
fn a_keyspace_is_renamed_and_dropped() {
    each(|db, k, context| {
        k.put("a", "1").unwrap();
        (context.settle)(db);
        db.rename_keyspace("k", "renamed").unwrap();
        assert_eq!(value(k, "a").unwrap(), b"1");
        db.drop_keyspace("renamed").unwrap();
        assert!(matches!(k.get("a"), Err(Error::KeyspaceDropped { .. })));
        (context.settle)(db);
        let again = db.keyspace("k").unwrap();
        assert_eq!(keys(&again), Vec::<String>::new());
    });
}

/// A compaction filter that removes small values.
#[derive(Debug)]
struct Large;

impl CompactionFilter for Large {
    fn decide(&self, candidate: &FilterCandidate<'_>) -> FilterVerdict {
        match (candidate.key, candidate.value.len()) {
            (b"replaced", _) => FilterVerdict::Replace(b"other".to_vec()),
            (_, 0..3) => FilterVerdict::Remove,
            _ => FilterVerdict::Keep,
        }
    }
}

#[test]
fn a_filter_is_asked_when_everything_is_compacted() {
    for (structure, form) in kinds() {
        UNNAMED.set(form);
        let options = spread().register_compaction_filter("large", Arc::new(Large));
        let db = options.open_in(memory()).unwrap();
        let filtered = KeyspaceOptions::new().compaction_filter("large");
        let k = db.keyspace_in("k", structure, &filtered).unwrap();
        for (key, value) in [("a", "1"), ("b", "large"), ("replaced", "x")] {
            k.put(key, value).unwrap();
        }
        let held = db.snapshot();
        db.compact().unwrap();
        assert_eq!(keys(&k), ["a", "b", "replaced"], "a snapshot holds it back");
        drop(held);
        db.compact().unwrap();
        assert_eq!(keys(&k), ["b", "replaced"], "{structure:?}");
        assert_eq!(value(&k, "replaced").unwrap(), b"other");
    }
}

#[test]
fn what_is_acknowledged_is_there_after_the_store_is_opened_again() {
    for (structure, form) in kinds().filter(|(structure, _)| structure.lasts()) {
        UNNAMED.set(form);
        for settle in SETTLES {
            let directories = directories(2);
            let db = spread().open_in(&directories).unwrap();
            let k = db.keyspace_in("k", structure, &options()).unwrap();
            k.put("a", "1").unwrap();
            k.merge("b", "1").unwrap();
            settle(&db);
            k.merge("b", "2").unwrap();
            k.delete("a").unwrap();
            // Simulate a process crash. Writes that were not flushed are only in the log.
            db.abandon();
            drop((k, db));
            let db = spread().open_existing_in(directories).unwrap();
            let k = db.existing_keyspace("k").unwrap();
            assert_eq!(k.definition().structure, structure);
            assert_eq!(value(&k, "a"), None);
            assert_eq!(value(&k, "b").unwrap(), b"12", "{structure:?}");
            db.close().unwrap();
        }
    }
}
