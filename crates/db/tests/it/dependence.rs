//! What a transaction depends on: untracked reads, shared reads and declared ranges.

use crate::transactions::{kinds, store};
use alluvium::{
    Concurrency, Db, Error, ErrorKind, Isolation, Keyspace, KeyspaceOptions, Transaction, TransactionOptions,
};

fn locks(options: &TransactionOptions) -> bool {
    options.concurrency == Concurrency::Locking
}

/// Flushes all commits from the memtables to disk, or leaves them in memory.
fn settle(db: &Db, flushes: bool) {
    if flushes {
        db.compact().unwrap();
    }
}

#[test]
fn a_read_without_tracking_has_no_conflict_and_sees_own_writes() {
    for options in kinds() {
        for flushes in [false, true] {
            let db = store();
            let seas = db.keyspace("seas").unwrap();
            seas.put("a", "1").unwrap();
            let own = db.begin_with(&options);
            assert_eq!(own.get_untracked(&seas, "a").unwrap().unwrap(), b"1");
            assert!(own.get_untracked(&seas, "b").unwrap().is_none());
            own.put(&seas, "c", "own").unwrap();
            assert_eq!(own.get_untracked(&seas, "c").unwrap().unwrap(), b"own");
            own.delete(&seas, "d").unwrap();
            assert!(own.get_untracked(&seas, "d").unwrap().is_none());
            seas.put("a", "2").unwrap();
            seas.put("b", "2").unwrap();
            settle(&db, flushes);
            // Outside a snapshot, a transaction reads the newest value.
            let seen = own.get_untracked(&seas, "a").unwrap().unwrap();
            let has_snapshot = own.sequence().is_some();
            assert_eq!(seen, if has_snapshot { b"1" } else { b"2" }, "{options:?}");
            own.commit().unwrap();
            assert_eq!(seas.get("a").unwrap().unwrap(), b"2");
            assert_eq!(seas.get("c").unwrap().unwrap(), b"own");
        }
    }
}

#[test]
fn a_read_without_tracking_leaves_tracked_reads_of_the_key() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let own = db.begin();
    assert!(own.get(&seas, "a").unwrap().is_none());
    assert!(own.get_untracked(&seas, "a").unwrap().is_none());
    own.put(&seas, "b", "1").unwrap();
    seas.put("a", "1").unwrap();
    assert_eq!(own.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_read_without_tracking_sees_spilled_writes() {
    for options in kinds() {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let own = db.begin_with(&options.memory(0));
        for key in ["a", "b", "c"] {
            own.put(&seas, key, key).unwrap();
        }
        assert_eq!(own.get_untracked(&seas, "a").unwrap().unwrap(), b"a");
        own.commit().unwrap();
    }
}

/// Begins a transaction, makes it depend on a key or range with `depend`, and lets it write another
/// key. Returns whether this excludes a concurrent transaction that does `change`.
fn excludes(
    options: &TransactionOptions,
    flushes: bool,
    depend: &dyn Fn(&Transaction, &Keyspace) -> alluvium::Result<()>,
    change: &dyn Fn(&mut Transaction, &Keyspace) -> alluvium::Result<()>,
) -> bool {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    for key in ["a/1", "a/2", "b/1"] {
        seas.put(key, "1").unwrap();
    }
    settle(&db, flushes);
    let own = db.begin_with(options);
    depend(&own, &seas).unwrap();
    own.put(&seas, "own", "1").unwrap();
    let mut other = db.begin_with(options);
    if let Err(error) = change(&mut other, &seas) {
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(locks(options), "only locks make others wait");
        drop(other);
        own.commit().unwrap();
        return true;
    }
    other.commit().unwrap();
    settle(&db, flushes);
    match own.commit() {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(seas.get("own").unwrap().is_none());
            true
        }
    }
}

#[test]
fn a_shared_read_excludes_changes_and_no_other_reads() {
    for options in kinds() {
        for flushes in [false, true] {
            let shared = |own: &Transaction, seas: &Keyspace| own.get_shared(seas, "a/1").map(drop);
            let absent = |own: &Transaction, seas: &Keyspace| own.get_shared(seas, "a/3").map(drop);
            let put =
                |key: &'static str| move |other: &mut Transaction, seas: &Keyspace| other.put(seas, key, "2");
            assert!(excludes(&options, flushes, &shared, &put("a/1")), "{options:?}");
            assert!(excludes(&options, flushes, &absent, &put("a/3")));
            assert!(excludes(&options, flushes, &shared, &|other, seas| other
                .delete_range(seas, "a", Some(b"b"))));
            assert!(!excludes(&options, flushes, &shared, &put("a/2")));
            // Two transactions may read the same key.
            assert!(!excludes(&options, flushes, &shared, &|other, seas| {
                other.get_shared(seas, "a/1")?;
                other.put(seas, "other", "2")
            }));
        }
    }
}

#[test]
fn shared_reads_prevent_write_skew() {
    for options in kinds() {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let (one, two) = (db.begin_with(&options), db.begin_with(&options));
        assert!(one.get_shared(&seas, "b").unwrap().is_none());
        assert!(two.get_shared(&seas, "a").unwrap().is_none());
        let writes = [one.put(&seas, "a", "1"), two.put(&seas, "b", "1")];
        let done = writes.into_iter().zip([one, two]);
        let done: Vec<bool> = done
            .map(|(write, own)| write.and_then(|()| own.commit()).is_ok())
            .collect();
        assert!(!(done[0] && done[1]), "{options:?}");
        assert_eq!(seas.iter().count(), done.iter().filter(|done| **done).count());
    }
}

#[test]
fn a_shared_read_after_a_change_since_the_begin_is_a_conflict_of_the_snapshot() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let options = TransactionOptions::new().isolation(Isolation::Snapshot);
    let locking = db.begin_with(&options.clone().concurrency(Concurrency::Locking));
    let optimistic = db.begin_with(&options);
    seas.put("a", "1").unwrap();
    let error = locking.get_shared(&seas, "a").unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    let error = locking.depend_on_range(&seas, "a".."b").unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    locking.depend_on_range(&seas, "b".."c").unwrap();
    locking.put(&seas, "x", "1").unwrap();
    locking.commit().unwrap();
    assert!(optimistic.get_shared(&seas, "a").unwrap().is_none());
    optimistic.put(&seas, "y", "1").unwrap();
    assert_eq!(optimistic.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_declared_range_excludes_changes_of_its_keys() {
    for options in kinds() {
        for flushes in [false, true] {
            let depend = |own: &Transaction, seas: &Keyspace| own.depend_on_range(seas, "a/".."a0");
            let change = |change: &dyn Fn(&mut Transaction, &Keyspace) -> alluvium::Result<()>| {
                excludes(&options, flushes, &depend, change)
            };
            assert!(change(&|other, seas| other.put(seas, "a/1", "2")), "{options:?}");
            assert!(change(&|other, seas| other.put(seas, "a/9", "2")), "a phantom");
            assert!(change(&|other, seas| other.delete(seas, "a/2")));
            assert!(change(&|other, seas| other.delete_range(seas, "a/2", None)));
            // Under snapshot isolation, memtables that are younger than the transaction cannot show
            // that no commit has written to the range.
            let is_exact = options.isolation == Isolation::Serializable || locks(&options) || !flushes;
            if is_exact {
                assert!(!change(&|other, seas| other.put(seas, "b/1", "2")));
                assert!(!change(&|other, seas| other.put(seas, "a0", "2")));
                // Others may read the range and also depend on it.
                assert!(!change(&|other, seas| {
                    other.depend_on_range(seas, "a".."b")?;
                    other.put(seas, "other", "2")
                }));
            }
        }
    }
}

#[test]
fn every_bound_of_a_range_can_be_declared() {
    for options in kinds() {
        let excluded = |depend: &dyn Fn(&Transaction, &Keyspace) -> alluvium::Result<()>,
                        key: &'static str| {
            excludes(&options, false, depend, &move |other, seas| {
                other.put(seas, key, "2")
            })
        };
        let all = |own: &Transaction, seas: &Keyspace| own.depend_on_range::<&str>(seas, ..);
        assert!(excluded(&all, "a") && excluded(&all, "zz"));
        let upto = |own: &Transaction, seas: &Keyspace| own.depend_on_range(seas, ..="b");
        assert!(excluded(&upto, "b") && !excluded(&upto, "b\0"));
        let empty = |own: &Transaction, seas: &Keyspace| own.depend_on_range(seas, "b".."a");
        assert!(!excluded(&empty, "a") && !excluded(&empty, "b"));
    }
}

#[test]
fn a_declared_range_remains_after_a_rollback_to_a_savepoint() {
    for options in kinds() {
        let depend = |own: &Transaction, seas: &Keyspace| own.depend_on_range(seas, "a".."b");
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let own = db.begin_with(&options);
        let before = own.savepoint();
        depend(&own, &seas).unwrap();
        own.put(&seas, "x", "1").unwrap();
        own.rollback_to(&before).unwrap();
        own.put(&seas, "y", "1").unwrap();
        let other = db.begin_with(&options);
        let written = other.put(&seas, "a", "1").and_then(|()| other.commit());
        assert!(written.is_err() || own.commit().is_err(), "{options:?}");
    }
}

#[test]
fn a_transaction_that_writes_nothing_has_no_conflict_with_what_it_declared() {
    for options in kinds().into_iter().filter(|options| !locks(options)) {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let own = db.begin_with(&options);
        own.depend_on_range(&seas, "a".."b").unwrap();
        own.get_shared(&seas, "c").unwrap();
        seas.put("a", "1").unwrap();
        seas.put("c", "1").unwrap();
        own.commit().unwrap();
    }
}

#[test]
fn a_range_of_hashed_keys_is_declared_as_a_whole_only() {
    for options in kinds() {
        let db = store();
        let hashed = KeyspaceOptions::new().structure("hashed".parse().unwrap());
        let hashed = db.keyspace_with("hashed", &hashed).unwrap();
        let own = db.begin_with(&options);
        let error = own.depend_on_range(&hashed, "a".."b").unwrap_err();
        assert!(matches!(error, Error::NotOrdered { .. }), "{error}");
        own.depend_on_range::<&str>(&hashed, ..).unwrap();
        own.put(&hashed, "x", "1").unwrap();
        let other = db.begin_with(&options);
        let written = other.put(&hashed, "a", "1").and_then(|()| other.commit());
        assert!(written.is_err() || own.commit().is_err(), "{options:?}");
    }
}

#[test]
fn misuse_of_a_dependence_is_a_typed_error() {
    for options in kinds() {
        let (db, other) = (store(), store());
        let foreign = other.keyspace("seas").unwrap();
        let own = db.begin_with(&options);
        assert!(matches!(own.get_untracked(&foreign, "x"), Err(Error::OtherStore)));
        assert!(matches!(own.get_shared(&foreign, "x"), Err(Error::OtherStore)));
        let declared = own.depend_on_range(&foreign, "a".."b");
        assert!(matches!(declared, Err(Error::OtherStore)));
    }
}
