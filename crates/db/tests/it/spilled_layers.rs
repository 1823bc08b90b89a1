//! Transactions with many spills. Their layers are merged while they are open, and they commit
//! concurrently with others.

use crate::spills::keyspaces_in;
use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{
    Db, ErrorKind, Isolation, Keyspace, KeyspaceOptions, Options, Structure, Transaction, TransactionOptions,
};
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_sim::environment::effort;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
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
    let transaction = db.begin_with(how);
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
        let transaction = db.begin_with(&TransactionOptions::new().memory(4 << 10));
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
    let large = db.begin();
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
            let transaction = db.begin_with(&TransactionOptions::new().memory(300));
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

/// Structures whose spilled layers are on disk.
const ON_DISK: [&str; 3] = ["tiered", "levels,k=4,f=0", "hashed"];

/// Begins a transaction of many spills over `keyspace`, which must contain the keys below 200: it
/// overwrites, deletes and merges. Background work runs in between, so layers are merged.
fn spilled_often(db: &Db, keyspace: &Keyspace) -> alluvium::Result<Transaction> {
    let transaction = db.begin_with(&TransactionOptions::new().memory(2000));
    for number in 0..1500u32 {
        let key = (number.wrapping_mul(0x9e37_79b1) % 600).to_be_bytes();
        match number % 10 {
            0 => transaction.delete(keyspace, key)?,
            1 | 2 => transaction.merge(keyspace, key, "+")?,
            3 if keyspace.options().structure == Structure::Tiered && number % 100 == 3 => {
                let end = (number % 600 + 20).to_be_bytes();
                transaction.delete_range(keyspace, (number % 600).to_be_bytes(), Some(&end))?;
            }
            _ => transaction.put(keyspace, key, [number as u8; 80])?,
        }
        if number % 40 == 0 {
            for _ in 0..20 {
                db.work()?;
            }
        }
    }
    Ok(transaction)
}

fn contents(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pairs = keyspace.unordered().map(Result::unwrap);
    pairs.map(|(key, value)| (key, value.into_vec())).collect()
}

fn fill_small(keyspace: &Keyspace) {
    for number in 0..200u32 {
        keyspace.put(number.to_be_bytes(), "old").unwrap();
    }
}

#[test]
fn a_crash_in_a_transaction_with_merged_layers_leaves_all_or_nothing() {
    for structure in ON_DISK {
        let world = SimDirectory::new(7);
        let options = Options::new().memory(16 << 20).workers(0);
        let db = options.create_in(Arc::new(world.clone())).unwrap();
        let [_, keyspace] = keyspaces_in(&db, structure);
        fill_small(&keyspace);
        db.checkpoint().unwrap();
        let before = contents(&keyspace);
        let images: Arc<Mutex<Vec<SimDirectory>>> = Arc::default();
        let (taken, mut count, every) = (Arc::clone(&images), 0u64, effort(4, 1));
        world.on_operation(move |point| {
            count += 1;
            if count % every == 0 {
                let survival = CrashSurvival::ALL[(count / every) as usize % CrashSurvival::ALL.len()];
                taken.lock().push(point.image(survival, count));
            }
        });
        let transaction = spilled_often(&db, &keyspace).unwrap();
        let open = db.transactions();
        assert!(open[0].spilled_layers < 60, "{structure}: {open:?}");
        let until_commit = images.lock().len();
        transaction.commit().unwrap();
        let after = contents(&keyspace);
        assert_ne!(before, after);
        let committed = world.image(CrashSurvival::Process, 1);
        db.abandon();
        let images = std::mem::take(&mut *images.lock());
        assert!(
            until_commit > 3 && images.len() > until_commit,
            "{structure}: {}",
            images.len()
        );
        for (number, image) in images.iter().chain([&committed]).enumerate() {
            let db = options.open_in(Arc::new(image.clone())).unwrap();
            let found = contents(&db.existing_keyspace("lists").unwrap());
            let is_old = found == before && number < images.len();
            assert!(
                is_old || found == after && number >= until_commit,
                "{structure}, image {number}"
            );
            assert_eq!(db.check().unwrap(), [""; 0], "{structure}, image {number}");
            let provisional = db.stats().tiers[0].space.provisional_bytes;
            assert_eq!(provisional, 0, "{structure}, image {number}: the space is back");
        }
    }
}

#[test]
fn a_transaction_with_merged_layers_on_a_full_disk_gives_its_space_back() {
    for structure in ON_DISK {
        let world = SimDirectory::new(8);
        let db = Options::new()
            .memory(16 << 20)
            .create_in(Arc::new(world.clone()))
            .unwrap();
        let [_, keyspace] = keyspaces_in(&db, structure);
        fill_small(&keyspace);
        db.checkpoint().unwrap();
        let before = contents(&keyspace);
        world.set_capacity(world.used() + (40 << 20));
        for _ in 0..2 {
            let transaction = db.begin_with(&TransactionOptions::new().memory(64 << 10));
            let error = (0..100_000u32).find_map(|number| {
                let key = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
                transaction.put(&keyspace, key, [number as u8; 2000]).err()
            });
            let error = error.expect("the disk is full long before");
            assert!(error.is_full(), "{structure}: {error}");
            let spilled = db.transactions()[0].spilled_bytes;
            let space = db.stats().tiers[0].space;
            assert!(
                spilled > 4 << 20,
                "{structure}: refused after {spilled} bytes: {error}, {space:?}"
            );
            transaction.rollback();
            assert_eq!(contents(&keyspace), before);
            keyspace.put(0u32.to_be_bytes(), "old").unwrap();
        }
        world.set_capacity(u64::MAX);
        assert_eq!(db.check().unwrap(), [""; 0], "{structure}");
    }
}

/// What others commit while a spilled transaction is open that has written the even keys below 400.
enum OthersCommit {
    Puts(std::ops::Range<u32>, usize),
    Delete(u32),
    RangeDelete(std::ops::Range<u32>),
    SpilledPuts(std::ops::Range<u32>, usize),
}

impl OthersCommit {
    fn apply(&self, db: &Db, keyspace: &Keyspace) {
        let key = |number: u32| number.to_be_bytes();
        match self {
            OthersCommit::Puts(keys, step) => {
                for number in keys.clone().step_by(*step) {
                    keyspace.put(key(number), "other").unwrap();
                }
            }
            OthersCommit::Delete(number) => keyspace.delete(key(*number)).unwrap(),
            OthersCommit::RangeDelete(keys) => {
                keyspace
                    .delete_range(key(keys.start), Some(&key(keys.end)))
                    .unwrap();
            }
            OthersCommit::SpilledPuts(keys, step) => {
                let other = db.begin_with(&TransactionOptions::new().memory(300));
                for number in keys.clone().step_by(*step) {
                    other.put(keyspace, key(number), [2; 60]).unwrap();
                }
                other.commit().unwrap();
            }
        }
    }
}

#[test]
fn a_spilled_snapshot_transaction_conflicts_with_flushed_commits_to_its_keys_only() {
    use OthersCommit::{Delete, Puts, RangeDelete, SpilledPuts};
    let cases = [
        (vec![Puts(1..400, 2)], false),
        (vec![Puts(1..400, 2), Puts(200..201, 1)], true),
        (vec![Puts(398..399, 1)], true),
        (vec![Puts(400..402, 1)], false),
        (vec![Delete(0)], true),
        (vec![RangeDelete(7..8), RangeDelete(399..1000)], false),
        (vec![RangeDelete(7..9)], true),
        // Too many keys for the record: each own key is looked up in the store.
        (vec![Puts(10_000..20_000, 1)], false),
        (vec![Puts(10_000..20_000, 1), Puts(6..7, 1)], true),
        (vec![Puts(6..7, 1), Puts(10_000..20_000, 1)], true),
        // The keys of attached runs are not recorded.
        (vec![SpilledPuts(1..99, 2), Puts(99..100, 1)], false),
        (vec![SpilledPuts(0..99, 1)], true),
        (vec![Puts(98..99, 1), SpilledPuts(1..99, 2)], true),
    ];
    for structure in ["tiered", "levels,k=2", "hashed"] {
        for (case, (commits, is_conflict)) in cases.iter().enumerate() {
            let has_ranges = commits.iter().any(|one| matches!(one, RangeDelete(_)));
            if structure == "hashed" && has_ranges {
                continue;
            }
            let db = Options::new().memory(24 << 20).in_memory().unwrap();
            let [_, keyspace] = keyspaces_in(&db, structure);
            let how = TransactionOptions::new()
                .isolation(Isolation::Snapshot)
                .memory(300);
            let transaction = db.begin_with(&how);
            for number in (0..400u32).step_by(2) {
                transaction.put(&keyspace, number.to_be_bytes(), [1; 60]).unwrap();
                if number % 40 == 0 {
                    db.checkpoint().unwrap();
                }
            }
            for other in commits {
                other.apply(&db, &keyspace);
                db.checkpoint().unwrap();
            }
            let committed = transaction.commit().map_err(|error| error.kind());
            let expected = if *is_conflict {
                Err(ErrorKind::Conflict)
            } else {
                Ok(())
            };
            assert_eq!(committed, expected, "{structure}, case {case}");
        }
    }
}
