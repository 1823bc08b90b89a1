//! Transactions with many spills. Their layers are merged while they are open, and they commit
//! concurrently with others.

use crate::spills::keyspaces_in;
use alluvium::{
    Db, ErrorKind, Isolation, Keyspace, KeyspaceOptions, Options, Transaction, TransactionOptions,
};
use alluvium_sim::environment::effort;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Adds one to the numbers of some keys in a transaction. Returns the keys, or `None` if the commit
/// conflicted.
fn add_to_some(
    db: &Db,
    numbers: &Keyspace,
    random: &mut fastrand::Rng,
    how: &TransactionOptions,
) -> Option<Vec<u8>> {
    let mut transaction = db.begin_with(how);
    let first = random.u8(..40);
    let keys: Vec<u8> = (first..first + random.u8(1..20)).collect();
    for key in &keys {
        let number = transaction.get(numbers, [*key]).unwrap();
        let number = number.map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap()));
        let value = [&(number + 1).to_le_bytes()[..], &[7; 60]].concat();
        transaction.put(numbers, [*key], value).unwrap();
    }
    match transaction.commit() {
        Ok(()) => Some(keys),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            None
        }
    }
}

#[test]
fn no_update_is_lost_while_spilled_transactions_commit() {
    for (structure, isolation) in [
        ("tiered", Isolation::Snapshot),
        ("tiered", Isolation::Serializable),
        ("levels,k=2", Isolation::Snapshot),
        ("hashed", Isolation::Snapshot),
    ] {
        let db = Options::new().memory(24 << 20).in_memory().unwrap();
        let [_, numbers] = keyspaces_in(&db, structure);
        let added = counts_of_zero();
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (db, numbers, added) = (&db, &numbers, &added);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for turn in 0..effort(60, 600) {
                        let how = TransactionOptions::new().isolation(isolation);
                        let how = if (turn + seed as usize).is_multiple_of(3) {
                            how.memory(300)
                        } else {
                            how
                        };
                        let keys = add_to_some(db, numbers, &mut random, &how);
                        for key in keys.into_iter().flatten() {
                            added[usize::from(key)].fetch_add(1, Ordering::Relaxed);
                        }
                        if random.u8(..20) == 0 {
                            db.checkpoint().unwrap();
                        }
                    }
                });
            }
        });
        for (key, count) in added.iter().enumerate() {
            let number = numbers.get([key as u8]).unwrap();
            let number = number.map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap()));
            assert_eq!(
                number,
                count.load(Ordering::Relaxed),
                "{structure}, {isolation:?}, {key}"
            );
        }
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

fn counts_of_zero() -> [AtomicU64; 64] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

#[test]
fn the_layers_of_a_large_transaction_are_merged_while_it_is_open() {
    for structure in ["tiered", "levels,k=4", "hashed"] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("store");
        let options = Options::new().memory(24 << 20);
        let db = options.open(&path).unwrap();
        let [_, keyspace] = keyspaces_in(&db, structure);
        let mut transaction = db.begin_with(&TransactionOptions::new().memory(4 << 10));
        let key = |number: u32| number.wrapping_mul(0x9e37_79b1).to_be_bytes();
        let layers = |transaction: &Transaction| {
            let open = db.transactions();
            let own = open.iter().find(|open| open.number == transaction.number());
            own.unwrap().spilled_layers
        };
        let (mut savepoint, mut most) = (None, 0);
        for number in 0..12_000u32 {
            transaction
                .put(&keyspace, key(number), [number as u8; 40])
                .unwrap();
            most = most.max(layers(&transaction));
            if number == 6000 {
                savepoint = Some(transaction.savepoint());
            }
        }
        // There were about 500 spills.
        assert!(most <= 64, "{structure}: {most} layers");
        for number in (0..12_000).step_by(97) {
            let found = transaction.get(&keyspace, key(number)).unwrap();
            assert_eq!(
                found.as_deref(),
                Some(&[number as u8; 40][..]),
                "{structure}, {number}"
            );
        }
        transaction.rollback_to(&savepoint.unwrap()).unwrap();
        let found = |number| transaction.get(&keyspace, key(number)).unwrap().is_some();
        assert!(found(6000) && !found(6001) && !found(11_999), "{structure}");
        transaction.commit().unwrap();
        assert_eq!(keyspace.unordered().count(), 6001, "{structure}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        drop((keyspace, db));
        let db = options.open(&path).unwrap();
        let [_, keyspace] = keyspaces_in(&db, structure);
        assert_eq!(keyspace.unordered().count(), 6001, "{structure}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn small_transactions_that_stay_open_do_not_make_others_spill() {
    let db = Options::new().memory(64 << 20).in_memory().unwrap();
    let [plain, _] = keyspaces_in(&db, "tiered");
    let spilled = |transaction: &Transaction| {
        let open = db.transactions();
        let own = open.iter().find(|open| open.number == transaction.number());
        own.unwrap().spilled_bytes
    };
    let mut small: Vec<Transaction> = (0..50u8).map(|_| db.begin()).collect();
    for (number, transaction) in (0u8..).zip(&mut small) {
        transaction.put(&plain, [number], [1; 1000]).unwrap();
    }
    let mut large = db.begin();
    for number in 0..500u32 {
        large.put(&plain, number.to_be_bytes(), [2; 1000]).unwrap();
    }
    assert_eq!(spilled(&large), 0, "half a megabyte fits");
    // The two transactions share a memory limit, so their writes in memory do not exceed two
    // memtables.
    for number in 0..30_000u32 {
        for transaction in &mut small[..2] {
            transaction.put(&plain, number.to_be_bytes(), [3; 1000]).unwrap();
        }
    }
    assert!(small[..2].iter().all(|transaction| spilled(transaction) > 0));
    let stats = db.stats().transactions;
    assert!(stats.write_bytes < 16 << 20, "{stats:?}");
    drop((small, large));
    assert_eq!(db.stats().transactions.write_bytes, 0);
}

#[test]
fn a_spilled_transaction_says_that_the_store_is_closed() {
    for structure in ["tiered", "levels,k=4", "hashed"] {
        for round in 0..effort(8, 100) {
            let db = Options::new().memory(24 << 20).in_memory().unwrap();
            let [_, keyspace] = keyspaces_in(&db, structure);
            let mut transaction = db.begin_with(&TransactionOptions::new().memory(300));
            for number in 0..50u32 {
                transaction
                    .put(&keyspace, number.to_be_bytes(), [1; 100])
                    .unwrap();
            }
            let error = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_micros(100 * round as u64));
                    db.close().unwrap();
                });
                loop {
                    if let Err(error) = transaction.get(&keyspace, 7u32.to_be_bytes()) {
                        break error;
                    }
                }
            });
            assert_eq!(error.kind(), ErrorKind::Closed, "{structure}: {error}");
        }
    }
}

#[test]
fn copies_of_pages_succeed_while_others_make_checkpoints() {
    let db = Options::new().memory(24 << 20).in_memory().unwrap();
    let paged = db
        .keyspace_with(
            "paged",
            &KeyspaceOptions::new().structure("paged".parse().unwrap()),
        )
        .unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                paged.put("key", "value").unwrap();
                db.checkpoint().unwrap();
            }
        });
        for copy in 0..effort(40, 400) {
            let place = tempfile::tempdir().unwrap();
            let copied = db.checkpoint_to(place.path().join("copy"));
            is_over.store(copied.is_err(), Ordering::Relaxed);
            copied.unwrap_or_else(|error| panic!("copy {copy}: {error}"));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
