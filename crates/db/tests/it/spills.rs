//! Transactions whose writes spill to disk before the commit.

use crate::transactions::kinds;
use alluvium::{
    Change, Concurrency, Db, ErrorKind, Isolation, Keyspace, KeyspaceOptions, Options, Savepoint, Structure,
    Transaction, TransactionOptions,
};
use alluvium_sim::environment::effort;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns two keyspaces of a store. The second has an append operator and the given structure.
pub(crate) fn keyspaces_in(db: &Db, structure: &str) -> [Keyspace; 2] {
    let structure = structure.parse().unwrap();
    let append = KeyspaceOptions::new().merge_operator("append");
    [
        db.keyspace("plain").unwrap(),
        db.keyspace_with("lists", &append.structure(structure)).unwrap(),
    ]
}

/// Returns whether the keys of a keyspace are ordered.
fn is_ordered(keyspace: &Keyspace) -> bool {
    !matches!(keyspace.options().structure, Structure::Hashed(_))
}

fn keyspaces(db: &Db) -> [Keyspace; 2] {
    keyspaces_in(db, "tiered")
}

fn store() -> (Db, [Keyspace; 2]) {
    let db = Options::new().memory(24 << 20).in_memory().unwrap();
    let keyspaces = keyspaces(&db);
    (db, keyspaces)
}

/// A transaction and the state that it must see.
struct Run<'k> {
    random: fastrand::Rng,
    keyspaces: &'k [Keyspace; 2],
    transaction: Transaction,
    state: [State; 2],
    savepoints: Vec<(Savepoint, [State; 2])>,
}

impl Run<'_> {
    fn key(&mut self) -> Vec<u8> {
        let number = self.random.u32(..300);
        match number % 50 {
            49 => [format!("{number:04}").as_bytes(), &[b'k'; 700]].concat(),
            _ => format!("{number:04}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.u32(..100) {
            0 => 30_000,
            _ => self.random.usize(..60),
        };
        vec![self.random.u8(..); len]
    }

    fn write(&mut self) {
        let at = self.random.usize(..2);
        let (key, value) = (self.key(), self.value());
        let (keyspace, transaction) = (&self.keyspaces[at], &mut self.transaction);
        let state = &mut self.state[at];
        match self.random.u32(..20) {
            0..3 => {
                transaction.delete(keyspace, &key).unwrap();
                state.remove(&key);
            }
            3 if !is_ordered(keyspace) => {
                transaction.delete_range(keyspace, "", None).unwrap();
                state.clear();
            }
            3 => {
                let mut ends = [key, format!("{:04}", self.random.u32(..300)).into_bytes()];
                ends.sort();
                let [start, end] = &ends;
                let end = (self.random.u32(..8) > 0).then_some(&end[..]);
                transaction.delete_range(keyspace, start, end).unwrap();
                state.retain(|key, _| key < start || end.is_some_and(|end| &key[..] >= end));
            }
            4..10 if at == 1 => {
                let operand = &value[..value.len().min(5)];
                transaction.merge(keyspace, &key, operand).unwrap();
                state.entry(key).or_default().extend(operand);
            }
            10 => {
                let expires = SystemTime::now() + Duration::from_secs(3600);
                transaction.put_until(keyspace, &key, &value, expires).unwrap();
                state.insert(key, value);
            }
            11 => {
                let expected = state.get(&key).cloned();
                let done = transaction.compare_and_set(keyspace, &key, expected.as_deref(), Some(&value));
                assert!(done.unwrap());
                state.insert(key, value);
            }
            _ => {
                transaction.put(keyspace, &key, &value).unwrap();
                state.insert(key, value);
            }
        }
    }

    fn savepoint(&mut self) {
        match self.random.u32(..5) {
            0..2 => {
                let savepoint = self.transaction.savepoint();
                self.savepoints.push((savepoint, self.state.clone()));
            }
            2 if !self.savepoints.is_empty() => {
                let at = self.random.usize(..self.savepoints.len());
                self.transaction.release(&self.savepoints[at].0).unwrap();
                self.savepoints.truncate(at);
            }
            _ if !self.savepoints.is_empty() => {
                let at = self.random.usize(..self.savepoints.len());
                self.savepoints.truncate(at + 1);
                let (savepoint, state) = &self.savepoints[at];
                self.transaction.rollback_to(savepoint).unwrap();
                self.state = state.clone();
            }
            _ => {}
        }
    }

    fn read(&mut self) {
        let at = self.random.usize(..2);
        let keys = [self.key(), self.key(), self.key()];
        let (keyspace, state) = (&self.keyspaces[at], &self.state[at]);
        let found = self.transaction.get(keyspace, &keys[0]).unwrap();
        assert_eq!(found.as_deref(), state.get(&keys[0]).map(|value| &value[..]));
        let found = self.transaction.multi_get(keyspace, &keys).unwrap();
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found.as_deref(), state.get(key).map(|value| &value[..]));
        }
    }

    /// Iterates over a range, each time from a random end.
    fn walk(&mut self) {
        let at = self.random.usize(..2);
        let mut ends = [self.key(), self.key()];
        ends.sort();
        let [low, high] = ends;
        if !is_ordered(&self.keyspaces[at]) {
            let found = self
                .transaction
                .unordered(&self.keyspaces[at])
                .map(Result::unwrap);
            let found: State = found.map(|(key, value)| (key, value.into_vec())).collect();
            assert_eq!(found, self.state[at]);
            return;
        }
        let mut expected = self.state[at].range(low.clone()..high.clone());
        let mut walk = self
            .transaction
            .range::<&[u8]>(&self.keyspaces[at], &low[..]..&high[..]);
        loop {
            let is_forward = self.random.bool();
            let (found, expected) = match is_forward {
                true => (walk.next(), expected.next()),
                false => (walk.next_back(), expected.next_back()),
            };
            let found = found.map(|pair| pair.map(|(key, value)| (key, value.into_vec())).unwrap());
            assert_eq!(found, expected.map(|(key, value)| (key.clone(), value.clone())));
            if found.is_none() {
                break;
            }
        }
    }
}

fn everything(keyspaces: &[Keyspace; 2]) -> [State; 2] {
    let all = |keyspace: &Keyspace| {
        let pairs: Vec<_> = match is_ordered(keyspace) {
            true => keyspace.iter().map(Result::unwrap).collect(),
            false => keyspace.unordered().map(Result::unwrap).collect(),
        };
        let pairs = pairs.into_iter();
        pairs.map(|(key, value)| (key, value.into_vec())).collect()
    };
    [all(&keyspaces[0]), all(&keyspaces[1])]
}

#[test]
fn a_transaction_reads_and_commits_what_it_has_spilled() {
    run_all("tiered", effort(12, 60));
}

#[test]
fn a_transaction_spills_to_several_structures_at_once() {
    run_all("levels,k=2", effort(8, 40));
    run_all("levels,never", effort(4, 12));
    run_all("hashed", effort(4, 12));
    run_all("hashed,form=boa,lambda=2,refined=no", effort(2, 6));
    run_all("hashed,form=bot,lambda=2", effort(2, 6));
    run_all("paged,node=8192,key=800,value=64", effort(2, 6));
}

/// Structures of each kind.
const STRUCTURES: [&str; 8] = [
    "tiered",
    "levels,k=2",
    "levels,never",
    "hashed",
    "hashed,form=boa,lambda=2,refined=no",
    "hashed,form=bot,lambda=2",
    "paged",
    "volatile,bytes=1M",
];

/// The steps of a transaction, and the points at which it spills.
struct Steps<'t> {
    transaction: &'t mut Transaction,
    filler: &'t Keyspace,
    /// One bit for each point at which the transaction may spill.
    spills: u32,
}

impl Steps<'_> {
    /// Spills the writes so far if the next bit is set.
    fn pause(&mut self) {
        let is_due = self.spills & 1 == 1;
        self.spills >>= 1;
        if is_due {
            for number in 0..8u8 {
                self.transaction.put(self.filler, [number], [1; 200]).unwrap();
            }
        }
    }

    /// Range-deletes all keys of a keyspace, then merges and puts.
    fn delete_all_and_write(&mut self, keyspace: &Keyspace) {
        self.transaction.delete_range(keyspace, "", None).unwrap();
        self.pause();
        self.transaction.merge(keyspace, "merged", "a").unwrap();
        self.transaction.merge(keyspace, "two", "a").unwrap();
        self.transaction.put(keyspace, "put", "new").unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        self.transaction
            .put_until(keyspace, "expired", "over", long_ago)
            .unwrap();
        self.pause();
        self.transaction.merge(keyspace, "two", "b").unwrap();
        self.transaction.merge(keyspace, "put", "!").unwrap();
        self.transaction.merge(keyspace, "expired", "c").unwrap();
        self.pause();
    }
}

#[test]
fn a_spilled_transaction_reads_nothing_below_a_range_that_it_has_deleted() {
    for structure in STRUCTURES {
        let db = Options::new().memory(24 << 20).in_memory().unwrap();
        let [filler, keyspace] = keyspaces_in(&db, structure);
        for spills in 0..8 {
            for is_in_tree in [false, true] {
                for key in ["merged", "deleted", "put", "expired", "two"] {
                    keyspace.put(key, "old").unwrap();
                }
                if is_in_tree {
                    db.checkpoint().unwrap();
                }
                below_a_deleted_range(&db, &keyspace, &filler, spills);
            }
        }
    }
}

/// Spills one more operand after a savepoint, then rolls back to the savepoint.
fn merge_and_roll_back(transaction: &mut Transaction, keyspace: &Keyspace, filler: &Keyspace, case: &str) {
    let savepoint = transaction.savepoint();
    transaction.merge(keyspace, "merged", "z").unwrap();
    let mut steps = Steps {
        transaction: &mut *transaction,
        filler,
        spills: 1,
    };
    steps.pause();
    assert_eq!(
        transaction.get(keyspace, "merged").unwrap().unwrap(),
        b"az",
        "{case}"
    );
    transaction.rollback_to(&savepoint).unwrap();
    assert_eq!(
        transaction.get(keyspace, "merged").unwrap().unwrap(),
        b"a",
        "{case}"
    );
}

fn below_a_deleted_range(db: &Db, keyspace: &Keyspace, filler: &Keyspace, spills: u32) {
    let mut transaction = db.begin_with(&TransactionOptions::new().memory(500));
    let mut steps = Steps {
        transaction: &mut transaction,
        filler,
        spills,
    };
    steps.delete_all_and_write(keyspace);
    let expected: State = [("expired", "c"), ("merged", "a"), ("put", "new!"), ("two", "ab")]
        .map(|(key, value)| (key.into(), value.into()))
        .into();
    let case = format!("{:?}, spills {spills:b}", keyspace.options().structure);
    let keys = ["merged", "deleted", "put", "expired", "two"];
    let wanted = keys.map(|key| expected.get(key.as_bytes()).map(|value| &value[..]));
    for (key, wanted) in keys.iter().zip(wanted) {
        let found = transaction.get(keyspace, key).unwrap();
        assert_eq!(found.as_deref(), wanted, "{key}, {case}");
        assert_eq!(
            transaction.contains(keyspace, key).unwrap(),
            wanted.is_some(),
            "{case}"
        );
    }
    let found = transaction.multi_get(keyspace, keys).unwrap();
    assert_eq!(
        found.iter().map(|value| value.as_deref()).collect::<Vec<_>>(),
        wanted,
        "{case}"
    );
    let collect = |pairs: Vec<(Vec<u8>, alluvium::Value)>| {
        let pairs = pairs.into_iter();
        pairs
            .map(|(key, value)| (key, value.into_vec()))
            .collect::<State>()
    };
    let walked = transaction.unordered(keyspace).map(Result::unwrap).collect();
    assert_eq!(collect(walked), expected, "{case}");
    if is_ordered(keyspace) {
        let forward = transaction.iter(keyspace).map(Result::unwrap).collect();
        assert_eq!(collect(forward), expected, "{case}");
        let back = transaction.iter(keyspace).rev().map(Result::unwrap).collect();
        assert_eq!(collect(back), expected, "{case}");
    }
    merge_and_roll_back(&mut transaction, keyspace, filler, &case);
    transaction.commit().unwrap();
    let committed = keyspace.unordered().map(Result::unwrap).collect();
    assert_eq!(collect(committed), expected, "{case}");
}

/// Runs transactions over several keyspaces, one of which has this structure.
fn run_all(structure: &str, seeds: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let options = Options::new().memory(24 << 20);
    let mut db = options.open(&path).unwrap();
    let mut keyspaces = keyspaces_in(&db, structure);
    for seed in 0..seeds {
        let kind = kinds()[seed as usize % 4].clone();
        let mut random = fastrand::Rng::with_seed(seed);
        let memory = random.usize(..8000);
        let before = everything(&keyspaces);
        let mut run = Run {
            transaction: db.begin_with(&kind.memory(memory)),
            random,
            keyspaces: &keyspaces,
            state: before.clone(),
            savepoints: Vec::new(),
        };
        for step in 0..400 {
            match run.random.u32(..40) {
                0..32 => run.write(),
                32 => run.savepoint(),
                33 => run.walk(),
                _ => run.read(),
            }
            if step % 100 == 0 {
                assert_eq!(everything(&keyspaces), before, "others see nothing");
            }
        }
        let (transaction, state) = (run.transaction, run.state);
        match seed % 5 {
            0 => {
                transaction.rollback();
                assert_eq!(everything(&keyspaces), before, "seed {seed}");
            }
            _ => {
                transaction.commit().unwrap();
                assert_eq!(everything(&keyspaces), state, "seed {seed}");
            }
        }
        if seed % 7 == 0 {
            db.compact().unwrap();
        }
        if seed % 11 == 10 {
            let before = everything(&keyspaces);
            db.close().unwrap();
            drop(keyspaces);
            db = options.open(&path).unwrap();
            keyspaces = keyspaces_in(&db, structure);
            assert_eq!(everything(&keyspaces), before, "opened again");
        }
    }
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

/// Begins a transaction that has spilled a hundred even-numbered keys.
fn spilled(db: &Db, keyspace: &Keyspace, options: TransactionOptions) -> Transaction {
    let transaction = db.begin_with(&options.memory(500));
    for number in (0..200u8).step_by(2) {
        transaction.put(keyspace, [number], [number; 50]).unwrap();
    }
    let number = transaction.number();
    let open = db.transactions();
    let own = open.iter().find(|open| open.number == number).unwrap();
    assert!(own.spilled_bytes > 3000, "{own:?}");
    assert!(own.write_bytes < 1000, "{own:?}");
    transaction
}

#[test]
fn of_two_that_write_a_spilled_key_under_snapshot_isolation_the_first_wins() {
    let (db, [plain, _]) = store();
    for is_in_tree in [false, true] {
        let snapshot = || TransactionOptions::new().isolation(Isolation::Snapshot);
        let (meets, passes) = (spilled(&db, &plain, snapshot()), spilled(&db, &plain, snapshot()));
        plain.put([51], "between").unwrap();
        if is_in_tree {
            db.checkpoint().unwrap();
        }
        passes.commit().unwrap();
        // The conflict with the runs attached by the other transaction is detected.
        let error = meets.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let blind = spilled(&db, &plain, TransactionOptions::new());
        plain.put([50], "overwritten").unwrap();
        blind.commit().unwrap();
        assert_eq!(plain.get([50]).unwrap().unwrap(), &[50; 50][..]);
        let range = spilled(&db, &plain, snapshot());
        plain.delete_range([20], Some(&[30])).unwrap();
        assert_eq!(range.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn a_serializable_transaction_that_spills_depends_on_what_it_has_read() {
    let (db, [plain, lists]) = store();
    plain.put([1], "one").unwrap();
    let reader = spilled(&db, &plain, TransactionOptions::new());
    assert!(reader.get(&plain, [1]).unwrap().is_some());
    reader.merge(&lists, "sum", "x").unwrap();
    plain.put([1], "two").unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(lists.get("sum").unwrap().is_none() && plain.get([2]).unwrap().is_none());
}

#[test]
fn a_commit_of_spilled_writes_waits_for_the_locks_of_others() {
    let (db, [plain, _]) = store();
    let locking = TransactionOptions::new().concurrency(Concurrency::Locking);
    let holder = db.begin_with(&locking);
    holder.put(&plain, [50], "holder").unwrap();
    let optimistic = spilled(&db, &plain, TransactionOptions::new());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| optimistic.commit().unwrap());
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            assert!(plain.get([2]).unwrap().is_none(), "the lock is held");
        }
        holder.commit().unwrap();
        waiter.join().unwrap();
    });
    assert_eq!(plain.get([50]).unwrap().unwrap(), &[50; 50][..]);
}

#[test]
fn what_a_transaction_has_spilled_ends_with_it() {
    let (db, [plain, _]) = store();
    let used = || db.stats().space.provisional_bytes;
    db.checkpoint().unwrap();
    let before = used();
    let open = spilled(&db, &plain, TransactionOptions::new());
    assert!(used() > before);
    open.rollback();
    assert_eq!(used(), before);
    let old = spilled(
        &db,
        &plain,
        TransactionOptions::new().timeout(Duration::from_secs(2)),
    );
    assert!(used() > before);
    let error = (0..).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        old.put(&plain, [0], "1").err()
    });
    assert_eq!(error.unwrap().kind(), ErrorKind::TimedOut);
    assert_eq!(used(), before, "although there is a handle of it");
    assert_eq!(old.get(&plain, [2]).unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn a_limit_counts_what_was_spilled() {
    let (db, [plain, _]) = store();
    let options = TransactionOptions::new().memory(1000).max_write_bytes(10_000);
    let transaction = db.begin_with(&options);
    let refused =
        (0..1000u32).find_map(|number| transaction.put(&plain, number.to_be_bytes(), [7; 100]).err());
    let error = refused.unwrap();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
    assert!(
        error.to_string().contains("TransactionOptions::max_write_bytes"),
        "{error}"
    );
    assert_eq!(
        transaction.get(&plain, 0u32.to_be_bytes()).unwrap().unwrap(),
        &[7; 100][..]
    );
    transaction.commit().unwrap();
    assert!(plain.iter().count() > 20);
}

#[test]
fn a_dropped_keyspace_and_a_closed_store_refuse_spilled_writes() {
    let (db, [plain, lists]) = store();
    let transaction = spilled(&db, &plain, TransactionOptions::new());
    transaction.put(&lists, "a", "1").unwrap();
    db.drop_keyspace("plain").unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dropped, "{error}");
    assert!(lists.get("a").unwrap().is_none());
    let again = db.keyspace("plain").unwrap();
    let transaction = spilled(&db, &again, TransactionOptions::new());
    db.close().unwrap();
    assert_eq!(
        transaction.get(&again, [2]).unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_feed_of_changes_names_the_keys_between_which_a_transaction_has_spilled() {
    let db = Options::new()
        .memory(24 << 20)
        .keep_log(8 << 20)
        .in_memory()
        .unwrap();
    let [plain, lists] = keyspaces(&db);
    let feed = db.changes_since(db.sequence()).unwrap();
    let transaction = spilled(&db, &plain, TransactionOptions::new());
    transaction.merge(&lists, "a", "1").unwrap();
    transaction.commit().unwrap();
    plain.put("after", "1").unwrap();
    let sets: Vec<_> = feed.map(Result::unwrap).collect();
    let changes: Vec<&Change> = sets.iter().flat_map(|set| &set.changes).collect();
    assert!(
        matches!(&changes[..], [Change::Ingest { first, last, .. }, Change::Ingest { .. }, Change::Put { .. }]
            if *first == [0] && *last == [198]),
        "{changes:?}"
    );
}
