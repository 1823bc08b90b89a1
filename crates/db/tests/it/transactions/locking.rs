//! Locking transactions and lock waits.

use super::{kinds, store};
use alluvium::{Concurrency, Durability, Error, ErrorKind, TransactionOptions};

#[test]
fn a_locked_key_makes_writers_wait_whatever_they_are() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let [optimistic, locking, ..] = kinds();
    let holder = db.begin_with(&locking);
    holder.put(&seas, "x", "1").unwrap();
    assert_eq!(holder.range(&seas, "m".."p").count(), 0);
    assert!(db.transactions()[0].locks >= 2);
    let other = db.begin_with(&locking);
    for refused in [
        other.get(&seas, "x").map(drop),
        other.put(&seas, "x", ""),
        other.put(&seas, "nn", ""),
        other.delete_range(&seas, "a", None),
        other.iter(&seas).try_for_each(|pair| pair.map(drop)),
    ] {
        let error = refused.unwrap_err();
        let Error::LockTimedOut {
            keyspace, holders, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!((&keyspace[..], &holders[..]), ("seas", &[holder.number()][..]));
    }
    // The transaction can still use other keys.
    assert!(other.get(&seas, "nn").unwrap().is_none());
    other.put(&seas, "y", "2").unwrap();
    other.commit().unwrap();
    let entered = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            entered.wait();
            seas.put("x", "2")
        });
        let committer = scope.spawn(|| {
            let own = db.begin_with(&optimistic);
            own.put(&seas, "mm", "3").unwrap();
            own.commit()
        });
        entered.wait();
        holder.commit_with(Durability::Disk).unwrap();
        writer.join().unwrap().unwrap();
        committer.join().unwrap().unwrap();
    });
    assert_eq!(seas.get("x").unwrap().unwrap(), b"2");
    assert_eq!(seas.get("mm").unwrap().unwrap(), b"3");
}

#[test]
fn a_deadlock_ends_the_youngest_and_names_the_circle() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let locking = TransactionOptions::new().concurrency(Concurrency::Locking);
    let (old, young) = (db.begin_with(&locking), db.begin_with(&locking));
    let numbers = (old.number(), young.number());
    old.put(&seas, "x", "old").unwrap();
    young.put(&seas, "y", "young").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            old.put(&seas, "y", "old").unwrap();
            old.commit()
        });
        let error = young.put(&seas, "x", "young").unwrap_err();
        let Error::Deadlock { victim, cycle } = &error else {
            panic!("{error}")
        };
        assert_eq!(*victim, numbers.1);
        let mut circle = cycle.clone();
        circle.sort();
        assert_eq!(circle, [(numbers.0, b"y".to_vec()), (numbers.1, b"x".to_vec())]);
        waits.join().unwrap().unwrap();
        assert_eq!(young.get(&seas, "x").unwrap_err().kind(), ErrorKind::Ended);
    });
    assert_eq!(seas.get("y").unwrap().unwrap(), b"old");
    assert_eq!(db.stats().transactions.deadlocks, 1);
}

#[test]
fn a_locking_transaction_sees_what_is_newest_when_it_reads() {
    let db = store();
    let seas = db.keyspace("seas").unwrap();
    let locking = &kinds()[1];
    let own = db.begin_with(locking);
    seas.put("x", "1").unwrap();
    assert_eq!(own.get(&seas, "x").unwrap().unwrap(), b"1");
    for key in 0..300u32 {
        seas.put(format!("k{key:03}"), "").unwrap();
    }
    let keys = own.range(&seas, "k".."l").map(|pair| pair.unwrap().0);
    assert_eq!(keys.count(), 300);
    let mut iter = own.range(&seas, "k".."l");
    let (mut front, mut back, mut ended) = (0, 0, false);
    while !ended {
        ended = match iter.next() {
            Some(_) => {
                front += 1;
                iter.next_back().map(|_| back += 1).is_none()
            }
            None => true,
        };
    }
    assert_eq!(front + back, 300);
}
