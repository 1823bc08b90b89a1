//! Reads, writes and rollbacks of transactions, alone and with concurrent transactions.

mod locking;
mod waiting;

use alluvium::{
    Concurrency, Db, Durability, Error, ErrorKind, Isolation, Keyspace, KeyspaceOptions, Options,
    Transaction, TransactionOptions,
};
use std::time::{Duration, SystemTime};

/// Each isolation level with each concurrency control. Operations do not wait for locks.
pub(crate) fn kinds() -> [TransactionOptions; 4] {
    let of = |isolation, concurrency| {
        TransactionOptions::new()
            .isolation(isolation)
            .concurrency(concurrency)
            .lock_timeout(Duration::ZERO)
    };
    [
        of(Isolation::Serializable, Concurrency::Optimistic),
        of(Isolation::Serializable, Concurrency::Locking),
        of(Isolation::Snapshot, Concurrency::Optimistic),
        of(Isolation::Snapshot, Concurrency::Locking),
    ]
}

pub(crate) fn store() -> Db {
    Options::new().memory(16 << 20).workers(0).in_memory().unwrap()
}

fn pairs(transaction: &Transaction, keyspace: &Keyspace) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let pairs = transaction.iter(keyspace).map(|pair| pair.unwrap());
    let forward: Vec<_> = pairs.map(|(key, value)| (text(&key), text(&value))).collect();
    let pairs = transaction.iter(keyspace).rev().map(|pair| pair.unwrap());
    let mut backward: Vec<_> = pairs.map(|(key, value)| (text(&key), text(&value))).collect();
    backward.reverse();
    assert_eq!(forward, backward, "from both ends");
    forward
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|&(key, value)| (key.into(), value.into()))
        .collect()
}

#[test]
fn a_transaction_sees_its_own_writes_over_the_store_and_others_see_all_or_nothing() {
    for options in kinds() {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let logs = KeyspaceOptions::new().merge_operator("append");
        let logs = db.keyspace_with("logs", &logs).unwrap();
        for (key, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
            seas.put(key, value).unwrap();
        }
        logs.put("x", "base").unwrap();
        let own = db.begin_with(&options);
        own.delete_range(&seas, "b", Some(b"d")).unwrap();
        own.put(&seas, "bb", "new").unwrap();
        own.delete(&seas, "a").unwrap();
        own.merge(&logs, "x", "+1").unwrap();
        own.merge(&logs, "x", "+2").unwrap();
        own.merge(&logs, "y", "alone").unwrap();
        assert_eq!(own.get(&seas, "b").unwrap(), None);
        assert_eq!(own.get(&seas, "bb").unwrap().unwrap(), b"new");
        assert_eq!(own.get(&logs, "x").unwrap().unwrap(), b"base+1+2");
        assert!(own.contains(&seas, "d").unwrap());
        let many = own.multi_get(&seas, ["a", "bb", "c", "d", "zz"]).unwrap();
        let many: Vec<_> = many.iter().map(|value| value.as_deref()).collect();
        assert_eq!(many, [None, Some(&b"new"[..]), None, Some(&b"4"[..]), None]);
        assert_eq!(pairs(&own, &seas), named(&[("bb", "new"), ("d", "4")]));
        assert_eq!(pairs(&own, &logs), named(&[("x", "base+1+2"), ("y", "alone")]));
        assert_eq!(own.prefix(&seas, "b").count(), 1);
        assert_eq!(seas.get("a").unwrap().unwrap(), b"1", "{options:?}");
        own.commit().unwrap();
        assert_eq!(seas.iter().count(), 2);
        assert_eq!(logs.get("x").unwrap().unwrap(), b"base+1+2");
        assert_eq!(logs.get("y").unwrap().unwrap(), b"alone");
        assert!(db.transactions().is_empty());
    }
}

#[test]
fn a_dropped_transaction_leaves_nothing_behind() {
    for options in kinds() {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let gone = db.begin_with(&options);
        gone.put(&seas, "North", "1").unwrap();
        drop(gone);
        let gone = db.begin_with(&options);
        gone.put(&seas, "North", "1").unwrap();
        gone.rollback();
        assert!(seas.get("North").unwrap().is_none());
        assert!(db.transactions().is_empty());
        seas.put("North", "free").unwrap();
        let stats = db.stats();
        assert_eq!((stats.snapshots, stats.transactions.rolled_back), (0, 2));
    }
}

#[test]
fn savepoints_nest_and_take_back_every_kind_of_write() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let logs = KeyspaceOptions::new().merge_operator("append");
    let logs = db.keyspace_with("logs", &logs).unwrap();
    seas.put("kept", "store").unwrap();
    let own = db.begin();
    own.put(&seas, "a", "1").unwrap();
    own.delete_range(&seas, "k", Some(b"l")).unwrap();
    let before = (pairs(&own, &seas), pairs(&own, &logs));
    let first = own.savepoint();
    own.put(&seas, "a", "2").unwrap();
    own.put(&seas, "kept", "own").unwrap();
    own.merge(&logs, "x", "one").unwrap();
    let middle = (pairs(&own, &seas), pairs(&own, &logs));
    let second = own.savepoint();
    own.delete_range(&seas, "a", None).unwrap();
    own.merge(&logs, "x", "two").unwrap();
    own.delete(&logs, "x").unwrap();
    own.merge(&logs, "x", "three").unwrap();
    assert_eq!(pairs(&own, &logs), named(&[("x", "three")]));
    own.rollback_to(&second).unwrap();
    assert_eq!((pairs(&own, &seas), pairs(&own, &logs)), middle);
    own.delete(&seas, "a").unwrap();
    own.rollback_to(&second).unwrap();
    assert_eq!((pairs(&own, &seas), pairs(&own, &logs)), middle);
    own.rollback_to(&first).unwrap();
    assert_eq!((pairs(&own, &seas), pairs(&own, &logs)), before);
    let gone = own.rollback_to(&second).unwrap_err();
    assert!(matches!(gone, Error::NoSuchSavepoint), "{gone}");
    own.put(&seas, "z", "9").unwrap();
    own.release(&first).unwrap();
    assert!(own.rollback_to(&first).is_err());
    let other = db.begin().savepoint();
    assert_eq!(own.rollback_to(&other).unwrap_err().kind(), ErrorKind::Gone);
    own.commit().unwrap();
    let left: Vec<_> = seas.keys().map(|key| key.unwrap()).collect();
    assert_eq!(left, [b"a".to_vec(), b"z".to_vec()]);
}

#[test]
fn what_is_taken_back_frees_its_memory() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let own = db.begin();
    own.put(&seas, "a", vec![1; 1000]).unwrap();
    let bytes = |db: &Db| db.transactions()[0].write_bytes;
    let before = bytes(&db);
    let point = own.savepoint();
    own.put(&seas, "a", vec![2; 5000]).unwrap();
    own.put(&seas, "b", vec![3; 5000]).unwrap();
    own.delete_range(&seas, "a", Some(b"z")).unwrap();
    assert!(bytes(&db) > before);
    own.rollback_to(&point).unwrap();
    assert_eq!(bytes(&db), before);
}

#[test]
fn a_commit_is_refused_whose_reads_have_changed_and_a_run_again_succeeds() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    seas.put("x", "1").unwrap();
    let own = db.begin();
    own.get(&seas, "x").unwrap();
    own.put(&seas, "y", "from 1").unwrap();
    seas.put("x", "2").unwrap();
    let error = own.commit().unwrap_err();
    assert!(
        matches!(&error, Error::Conflict { keyspace, key } if keyspace == "seas" && key == b"x"),
        "{error}"
    );
    assert!(seas.get("y").unwrap().is_none());
    let mut runs = 0;
    db.transaction(|tx| {
        runs += 1;
        let x = tx.get(&seas, "x")?.unwrap();
        if runs == 1 {
            seas.put("x", "3")?;
        }
        tx.put(&seas, "y", &x)
    })
    .unwrap();
    assert_eq!(
        (runs, seas.get("y").unwrap().unwrap().into_vec()),
        (2, b"3".to_vec())
    );
}

#[test]
fn it_says_after_how_many_runs_it_has_given_up() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let options = TransactionOptions::new().max_tries(3);
    let mut runs = 0;
    let error = db.transaction_with(&options, |tx| {
        runs += 1;
        tx.get(&seas, "x")?;
        seas.put("x", runs.to_string())?;
        tx.put(&seas, "y", "never")
    });
    let error = error.unwrap_err();
    assert_eq!((runs, error.kind()), (3, ErrorKind::Conflict));
    assert!(error.to_string().contains("3 times"), "{error}");
    let own: Result<(), Error> = db.transaction(|_| Err(Error::NoSuchSavepoint));
    assert!(
        matches!(own, Err(Error::NoSuchSavepoint)),
        "what the body says is passed on"
    );
}

#[test]
fn blind_writes_and_readers_conflict_with_nothing() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let (one, other, reader) = (db.begin(), db.begin(), db.begin());
    assert!(reader.get(&seas, "x").unwrap().is_none());
    one.put(&seas, "x", "1").unwrap();
    other.put(&seas, "x", "2").unwrap();
    one.commit().unwrap();
    other.commit().unwrap();
    assert_eq!(seas.get("x").unwrap().unwrap(), b"2");
    assert!(
        reader.get(&seas, "x").unwrap().is_none(),
        "it reads as of its begin"
    );
    assert_eq!(reader.iter(&seas).count(), 0);
    reader.commit().unwrap();
}

#[test]
fn a_walk_depends_on_what_it_has_passed_over_and_on_no_more() {
    type Change = fn(&Keyspace) -> Result<(), Error>;
    let changes: [(&str, Change, bool, bool); 7] = [
        ("before its first key", |k| k.put("a", ""), true, false),
        ("between its keys", |k| k.put("cc", ""), true, false),
        ("the last of it", |k| k.delete("d"), true, false),
        ("behind it", |k| k.put("dd", ""), false, false),
        (
            "a range in it",
            |k| k.delete_range("bb", Some(b"cc")),
            true,
            false,
        ),
        ("before the backward walk", |k| k.put("w", ""), false, false),
        ("in the backward walk", |k| k.put("xx", ""), false, true),
    ];
    for (what, change, forward, backward) in changes {
        for is_backward in [false, true] {
            let db = store();
            let seas = db.keyspace("seas").unwrap();
            for key in ["b", "c", "d", "e", "x", "y", "z"] {
                seas.put(key, "").unwrap();
            }
            let own = db.begin();
            let mut iter = own.iter(&seas);
            let walked = match is_backward {
                false => iter.by_ref().take(3).count(),
                true => iter.by_ref().rev().take(3).count(),
            };
            assert_eq!(walked, 3);
            drop(iter);
            own.put(&seas, "own", "").unwrap();
            change(&seas).unwrap();
            let refused = own.commit().is_err();
            let expected = if is_backward { backward } else { forward };
            assert_eq!(refused, expected, "{what}, backward: {is_backward}");
        }
    }
}

#[test]
fn a_forgotten_walk_counts_whole_and_an_ended_one_has_no_phantoms() {
    for forget in [false, true] {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let own = db.begin();
        let mut iter = own.range(&seas, "a".."m");
        assert!(iter.next().is_none());
        match forget {
            true => std::mem::forget(iter),
            false => drop(iter),
        }
        own.put(&seas, "own", "").unwrap();
        seas.put("lz", "phantom").unwrap();
        assert_eq!(own.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn what_is_in_the_tree_meanwhile_is_a_conflict_all_the_same() {
    type Change = fn(&Keyspace) -> Result<(), Error>;
    let changes: [(&str, Change, bool); 5] = [
        ("nothing", |_| Ok(()), false),
        ("another key", |k| k.put("other", "1"), false),
        ("a put", |k| k.put("x", "2"), true),
        ("a delete", |k| k.delete("x"), true),
        ("a range delete", |k| k.delete_range("w", Some(b"y")), true),
    ];
    for (what, change, conflicts) in changes {
        for walks in [false, true] {
            let db = store();
            let seas = db.keyspace("seas").unwrap();
            seas.put("x", "1").unwrap();
            let own = db.begin();
            match walks {
                true => drop(own.range(&seas, "w".."y").collect::<Vec<_>>()),
                false => drop(own.get(&seas, "x").unwrap()),
            }
            own.put(&seas, "own", "").unwrap();
            change(&seas).unwrap();
            db.checkpoint().unwrap();
            seas.put("later", "").unwrap();
            db.checkpoint().unwrap();
            assert_eq!(own.commit().is_err(), conflicts, "{what}, walks: {walks}");
        }
    }
}

#[test]
fn an_ingest_is_a_commit_like_others() {
    for options in &kinds()[..1] {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let own = db.begin_with(options);
        assert_eq!(own.range(&seas, "a".."m").count(), 0);
        own.put(&seas, "own", "").unwrap();
        seas.ingest([("b", "1")]).unwrap();
        assert_eq!(own.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn of_two_that_write_the_same_key_under_snapshot_isolation_the_first_wins() {
    for in_tree in [false, true] {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let snapshot = TransactionOptions::new().isolation(Isolation::Snapshot);
        let (one, other) = (db.begin_with(&snapshot), db.begin_with(&snapshot));
        one.put(&seas, "x", "1").unwrap();
        other.put(&seas, "x", "1").unwrap();
        one.commit().unwrap();
        if in_tree {
            db.checkpoint().unwrap();
        }
        assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict);
        // Under snapshot isolation, a read causes no conflict.
        let (one, other) = (db.begin_with(&snapshot), db.begin_with(&snapshot));
        other.get(&seas, "x").unwrap();
        other.put(&seas, "y", "2").unwrap();
        one.put(&seas, "x", "3").unwrap();
        one.commit().unwrap();
        other.commit().unwrap();
    }
}

#[test]
fn a_value_that_expires_stays_for_those_who_began_before() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let past = SystemTime::now() - Duration::from_secs(60);
    let own = db.begin();
    own.put_until(&seas, "gone", "1", past).unwrap();
    own.put_until(&seas, "there", "2", SystemTime::now() + Duration::from_secs(600))
        .unwrap();
    assert!(own.get(&seas, "gone").unwrap().is_none());
    assert_eq!(pairs(&own, &seas), named(&[("there", "2")]));
    own.commit().unwrap();
    assert_eq!(seas.iter().count(), 1);
}

#[test]
fn a_limit_says_which_it_is_and_leaves_the_transaction_as_it_was() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let own = db.begin_with(&TransactionOptions::new().max_write_bytes(1000));
    own.put(&seas, "a", vec![1; 500]).unwrap();
    let error = own.put(&seas, "b", vec![1; 500]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
    assert!(error.to_string().contains("max_write_bytes"), "{error}");
    assert!(own.get(&seas, "b").unwrap().is_none());
    own.commit().unwrap();

    // Neighbouring keys are tracked as ranges, at least one for each keyspace.
    let own = db.begin_with(&TransactionOptions::new().max_tracked(4));
    let keys: Vec<String> = (0..200).map(|key| format!("{key:03}")).collect();
    for key in &keys {
        own.get(&seas, key).unwrap();
        assert!(db.transactions()[0].reads <= 4);
    }
    let more = (0..4).map(|number| db.keyspace(&format!("sea {number}")).unwrap());
    let more: Vec<_> = more.collect();
    let failed = more.iter().find_map(|sea| own.get(sea, "a").err());
    let failed = failed.expect("there is a limit");
    assert_eq!(failed.kind(), ErrorKind::LimitReached);
    assert!(failed.to_string().contains("max_tracked"), "{failed}");
    let walks: Vec<_> = (0..2).map(|_| own.iter(&seas)).collect();
    drop(walks);

    let locking = &kinds()[1];
    let own = db.begin_with(&locking.clone().max_tracked(4));
    for key in &keys {
        own.put(&seas, key, "").unwrap();
    }
    assert!(db.transactions()[0].locks <= 4, "one range for all of a keyspace");
    own.commit().unwrap();
}

#[test]
fn a_transaction_that_is_too_old_is_ended_and_says_so() {
    for options in kinds() {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let own = db.begin_with(&options.timeout(Duration::ZERO));
        let error = own.put(&seas, "x", "1").unwrap_err();
        assert!(matches!(error, Error::TransactionTooOld { .. }), "{error}");
        assert_eq!(own.get(&seas, "x").unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(own.iter(&seas).next().unwrap().is_err());
        assert_eq!(own.commit().unwrap_err().kind(), ErrorKind::TimedOut);
        let stats = db.stats();
        assert_eq!((stats.snapshots, stats.transactions.timeouts), (0, 1));
    }
}

#[test]
fn misuse_is_a_typed_error() {
    for options in kinds() {
        let (db, other) = (store(), store());
        let seas = db.keyspace("seas").unwrap();
        let foreign = other.keyspace("seas").unwrap();
        let own = db.begin_with(&options);
        assert!(matches!(own.get(&foreign, "x"), Err(Error::OtherStore)));
        assert!(matches!(own.put(&foreign, "x", ""), Err(Error::OtherStore)));
        assert!(matches!(own.iter(&foreign).next(), Some(Err(Error::OtherStore))));
        let long = vec![7; alluvium::MAX_KEY + 1];
        assert!(matches!(own.put(&seas, &long, ""), Err(Error::TooLong { .. })));
        assert!(matches!(
            own.merge(&seas, "x", "1"),
            Err(Error::NoOperator { .. })
        ));
        own.put(&seas, "x", "1").unwrap();
        drop(own);
        let own = db.begin_with(&options);
        own.put(&seas, "x", "1").unwrap();
        drop(own);
        let own = db.begin_with(&options);
        db.drop_keyspace("seas").unwrap();
        assert!(matches!(
            own.put(&seas, "x", "1"),
            Err(Error::KeyspaceDropped { .. })
        ));
        assert!(matches!(own.get(&seas, "x"), Err(Error::KeyspaceDropped { .. })));
        let again = db.clone();
        db.close().unwrap();
        assert!(matches!(own.commit(), Err(Error::Closed)));
        assert!(again.begin_with(&options).commit().is_err());
    }
}

#[test]
fn asynchronous_commits_are_validated_and_durable() {
    for options in kinds() {
        let db = store();
        let seas = db.keyspace("seas").unwrap();
        let own = db.begin_with(&options);
        own.get(&seas, "x").unwrap();
        own.put(&seas, "y", "1").unwrap();
        pollster::block_on(own.commit_async(Durability::Disk)).unwrap();
        assert_eq!(seas.get("y").unwrap().unwrap(), b"1");
        if options.concurrency == Concurrency::Optimistic {
            let own = db.begin_with(&options);
            own.get_for_update(&seas, "x").unwrap();
            own.put(&seas, "y", "2").unwrap();
            seas.put("x", "1").unwrap();
            let late = pollster::block_on(own.commit_async(Durability::Process));
            assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict);
        }
        let dropped = db.begin_with(&options);
        dropped.put(&seas, "z", "1").unwrap();
        drop(dropped.commit_async(Durability::Process));
        assert!(db.transactions().is_empty());
    }
}

#[test]
fn a_commit_whose_future_is_dropped_takes_effect_as_a_whole_or_not_and_ends() {
    use std::future::Future;
    let db = Options::new().memory(16 << 20).in_memory().unwrap();
    let rivers = db.keyspace("rivers").unwrap();
    for is_polled in [false, true] {
        let survey = db.begin();
        for name in ["Elbe", "Oder"] {
            assert!(survey.get(&rivers, name).unwrap().is_none());
            survey.put(&rivers, name, "long").unwrap();
        }
        let mut commit = Box::pin(survey.commit_async(Durability::Process));
        if is_polled {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = commit.as_mut().poll(&mut context);
        }
        drop(commit);
        // A later write has committed, so this one has committed as well.
        pollster::block_on(rivers.put_async("last", "")).unwrap();
        assert!(db.transactions().is_empty(), "polled: {is_polled}");
        let there = ["Elbe", "Oder"].map(|name| rivers.contains(name).unwrap());
        assert_eq!(there[0], there[1], "polled: {is_polled}");
        assert!(is_polled || !there[0], "it was never begun");
    }
}

#[test]
fn a_transaction_can_be_sent_to_another_thread() {
    fn sends<T: Send + 'static>(value: T) -> T {
        value
    }
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let own = sends(db.begin());
    let sent = std::thread::spawn(move || {
        own.put(&seas, "x", "1")?;
        own.commit()
    });
    sent.join().unwrap().unwrap();
    assert_eq!(db.stats().transactions.committed, 1);
}
