//! Tests of volatile keyspaces, which behave like all others except that they are not persistent.

use super::{memory, pairs, small, tiny};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::error::{Error, ErrorKind};
use crate::keyspace::Keyspace;
use crate::options::{Durability, KeyspaceOptions, Structure};
use crate::write::batch::WriteBatch;
use alluvium_base::Purpose;
use alluvium_device::{Directory, FileOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

fn volatile(bytes: u64) -> KeyspaceOptions {
    KeyspaceOptions::new().structure(Structure::Volatile(bytes))
}

fn both(db: &Db) -> (Keyspace, Keyspace) {
    let durable = db.keyspace("durable").unwrap();
    (durable, db.keyspace_with("volatile", &volatile(1 << 20)).unwrap())
}

#[test]
fn it_is_empty_when_the_store_is_opened_again_and_all_else_is_there() {
    for is_checkpointed in [false, true] {
        for is_closed in [false, true] {
            let directory = memory();
            let db = tiny().open_in(Arc::clone(&directory)).unwrap();
            let (durable, gone) = both(&db);
            let mut expected = BTreeMap::new();
            for number in 0..3000_u32 {
                let key = number.to_be_bytes();
                let mut batch = WriteBatch::new();
                batch.put(&gone, key, b"of no duration").unwrap();
                batch.put(&durable, key, [7; 50]).unwrap();
                batch.delete(&gone, (number / 2).to_be_bytes()).unwrap();
                db.write(&batch).unwrap();
                gone.put(b"alone", key).unwrap();
                expected.insert(key.to_vec(), vec![7; 50]);
                if number % 100 == 0 {
                    while db.work().unwrap() {}
                }
            }
            assert_eq!(pairs(&durable), expected);
            let held = pairs(&gone);
            assert_eq!(held.len(), 1501, "what is not deleted, and one more");
            assert_eq!(held[&b"alone"[..]], 2999_u32.to_be_bytes());
            if is_checkpointed {
                db.checkpoint().unwrap();
            }
            assert_eq!(db.check().unwrap(), Vec::<String>::new());
            let last = db.snapshot().sequence();
            drop((durable, gone));
            match is_closed {
                true => db.close().unwrap(),
                false => {
                    db.abandon();
                    drop(db);
                }
            }
            let db = tiny().open_existing_in(directory).unwrap();
            let (durable, gone) = both(&db);
            assert_eq!(pairs(&durable), expected);
            assert_eq!(pairs(&gone), BTreeMap::new());
            assert!(db.snapshot().sequence() >= last, "no number is given twice");
            gone.put("again", "1").unwrap();
            db.checkpoint().unwrap();
            while db.work().unwrap() {}
            assert_eq!(gone.get("again").unwrap().as_deref(), Some(&b"1"[..]));
            assert_eq!(db.check().unwrap(), Vec::<String>::new());
        }
    }
}

/// Returns whether any file in a directory contains these bytes.
fn holds(directory: &dyn Directory, bytes: &[u8]) -> bool {
    let names = directory.list().unwrap().into_iter();
    let mut files = names.map(|name| directory.open(&name, FileOptions::BUFFERED.read_only()).unwrap());
    files.any(|file| {
        if file.is_empty() {
            return false;
        }
        let contents = file.read_at(0, file.len() as usize, Purpose::Check).unwrap();
        contents.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[test]
fn nothing_of_it_reaches_a_file() {
    const MARK: &[u8] = b"0123456789 the mark of a value 9876543210";
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let (durable, gone) = both(&db);
    gone.put("key", MARK).unwrap();
    let mut batch = WriteBatch::new().durability(Durability::Disk);
    batch.put(&gone, "with another", MARK).unwrap();
    batch.put(&durable, "key", "value").unwrap();
    db.write(&batch).unwrap();
    db.transaction(|transaction| {
        transaction.put(&gone, "in a transaction", MARK)?;
        transaction.put(&durable, "other", "value")
    })
    .unwrap();
    assert!(!holds(&*directory, MARK), "in the log");
    let changes = db.changes_since(0).unwrap().map(Result::unwrap);
    let told: Vec<String> = changes.map(|set| format!("{:?}", set.changes)).collect();
    assert!(told.iter().all(|set| !set.contains("volatile")), "{told:?}");
    db.compact().unwrap();
    db.checkpoint().unwrap();
    assert!(!holds(&*directory, MARK), "in a checkpoint");
    durable.put("the same elsewhere", MARK).unwrap();
    assert!(holds(&*directory, MARK), "the mark would be seen");
    assert_eq!(pairs(&gone).len(), 3);
}

#[test]
fn what_does_not_fit_is_refused_whole_until_there_is_space() {
    let db = tiny().open_in(memory()).unwrap();
    let gone = db.keyspace_with("gone", &volatile(256 << 10)).unwrap();
    let durable = db.keyspace("durable").unwrap();
    let fill = |from: u32| {
        for number in from..20_000 {
            let mut batch = WriteBatch::new();
            batch.put(&gone, number.to_be_bytes(), [1; 100]).unwrap();
            batch.put(&durable, number.to_be_bytes(), "x").unwrap();
            if let Err(error) = db.write(&batch) {
                return (number, error);
            }
            if number % 50 == 0 {
                while db.work().unwrap() {}
            }
        }
        panic!("all of it fits");
    };
    let (first, error) = fill(0);
    assert!(matches!(error, Error::VolatileFull { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!((500..4000).contains(&first), "{first} items of a hundred bytes");
    assert_eq!(
        durable.get(first.to_be_bytes()).unwrap(),
        None,
        "all of it is refused"
    );
    assert_eq!(pairs(&gone).len() as u32, first);
    durable.put("others", "go on").unwrap();
    gone.delete_range([0; 4], Some(&(first / 2).to_be_bytes()))
        .unwrap();
    db.compact().unwrap();
    let (second, _) = fill(first);
    assert!(second > first + first / 4, "{second} after {first}");
}

#[test]
fn its_bytes_are_asked_for_and_kept() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    db.keyspace_with("one", &volatile(1 << 20)).unwrap();
    let other = db.keyspace_with("other", &volatile(2 << 20)).unwrap_err();
    assert!(matches!(other, Error::SharedOptionsDiffer { .. }), "{other}");
    for (bytes, why) in [(1, "or more"), (1 << 40, "half of the store")] {
        let error = db.keyspace_with("wrong", &volatile(bytes)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    assert_eq!(db.keyspaces(), ["one"]);
    assert_eq!(db.keyspace("one").unwrap().options(), &volatile(1 << 20));
    let said = "volatile,bytes=1048576".parse::<Structure>().unwrap();
    assert_eq!(said, Structure::Volatile(1 << 20));
    assert_eq!(said.to_string(), "volatile,bytes=1048576");
    assert!("volatile".parse::<Structure>().is_err());
    db.drop_keyspace("one").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn snapshots_and_transactions_see_it_as_any_other() {
    let db = small().open_in(memory()).unwrap();
    let (durable, gone) = both(&db);
    gone.put("a", "1").unwrap();
    let before = db.snapshot();
    let transaction = db.begin();
    transaction.put(&gone, "a", "2").unwrap();
    transaction.put(&durable, "a", "2").unwrap();
    assert_eq!(gone.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    transaction.commit().unwrap();
    db.compact().unwrap();
    assert_eq!(gone.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(before.get(&gone, "a").unwrap().as_deref(), Some(&b"1"[..]));
    let late = db.begin();
    late.get(&gone, "a").unwrap();
    gone.put("a", "3").unwrap();
    late.put(&durable, "a", "late").unwrap();
    assert!(matches!(late.commit(), Err(Error::Conflict { .. })));
}
