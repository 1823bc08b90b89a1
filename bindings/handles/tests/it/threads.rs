//! Handles that several threads use while a store or a transaction ends.

use alluvium::{Options, TransactionOptions};
use alluvium_handles::{ClosePolicy, StoreHandle, WalkDirection, WalkRange};
use std::sync::atomic::{AtomicBool, Ordering};

fn store() -> StoreHandle {
    let options: Options = "--memory 16M --workers 1".parse().unwrap();
    StoreHandle::open(None, &options).unwrap()
}

#[test]
fn a_forced_close_ends_the_calls_of_all_threads() {
    for _ in 0..20 {
        let store = store();
        let keyspace = store.keyspace("k", None).unwrap();
        for n in 0..500u32 {
            keyspace.inner().unwrap().put(n.to_be_bytes(), "v").unwrap();
        }
        let begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut buffer = [0; 64];
                loop {
                    let walk = match keyspace.walk(None, &WalkRange::default()) {
                        Ok(walk) => walk,
                        Err(error) => return error,
                    };
                    begun.store(true, Ordering::Release);
                    loop {
                        match walk.fill(WalkDirection::Forward, &mut buffer) {
                            Ok(extent) if extent.records == 0 => break,
                            Ok(_) => {}
                            Err(error) => return error,
                        }
                    }
                }
            });
            let writer = scope.spawn(|| {
                loop {
                    let done = store.begin(&TransactionOptions::new()).and_then(|tx| {
                        tx.with(|tx| Ok(tx.put(keyspace.inner()?, "a", "b")?))?;
                        tx.commit(None)
                    });
                    if let Err(error) = done {
                        return error;
                    }
                }
            });
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            store.close(ClosePolicy::Force).unwrap();
            assert_eq!(reader.join().unwrap().kind().name(), "closed");
            assert_eq!(writer.join().unwrap().kind().name(), "closed");
        });
        assert_eq!(store.live(), 0);
    }
}

#[test]
fn a_commit_ends_the_iterators_of_other_threads() {
    let store = store();
    let keyspace = store.keyspace("k", None).unwrap();
    for n in 0..2000u32 {
        keyspace.inner().unwrap().put(n.to_be_bytes(), "v").unwrap();
    }
    for _ in 0..50 {
        let transaction = store.begin(&TransactionOptions::new()).unwrap();
        let walk = transaction.walk(&keyspace, &WalkRange::default()).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut records = 0;
                loop {
                    match walk.fetch(WalkDirection::Forward, 100, 3) {
                        Ok(pairs) if pairs.is_empty() => return (records, None),
                        Ok(pairs) => records += pairs.len(),
                        Err(error) => return (records, Some(error)),
                    }
                }
            });
            transaction.commit(None).unwrap();
            match reader.join().unwrap() {
                (records, None) => assert_eq!(records, 2000),
                (records, Some(error)) => {
                    assert!(records < 2000);
                    assert_eq!(error.kind().name(), "ended");
                }
            }
        });
    }
}
