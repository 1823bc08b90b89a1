//! A model test of keyspaces whose compactions gather separate values. It mixes puts and merges
//! with spilled transactions, range deletes, expiry, snapshots, two tiers and reopening.
//!
//! The crossing test cannot gather: a value extent has at least 128 KiB, and its stores are so
//! small that nearly all extents are less than half full, so compactions copy their values anyway.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Keyspace, KeyspaceOptions, Options, Snapshot, TransactionOptions, ValueOrder};
use alluvium_device::memory::MemoryDirectory;
use alluvium_sim::environment::effort;
use alluvium_storage::TierDirectories;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const KEYS: u32 = 2500;

type State = BTreeMap<u32, (Vec<u8>, u64)>;

/// A store, and what it must hold: values, each with the time at which it ends.
struct GatheringStore {
    random: fastrand::Rng,
    clock: Arc<AtomicU64>,
    tiers: Vec<Arc<MemoryDirectory>>,
    open: Option<(Db, Keyspace)>,
    state: State,
    snapshot: Option<(Snapshot, State)>,
    gathered: u64,
}

impl GatheringStore {
    fn new(seed: u64, tiers: usize) -> GatheringStore {
        let mut store = GatheringStore {
            random: fastrand::Rng::with_seed(seed),
            clock: Arc::new(AtomicU64::new(1000)),
            tiers: (0..tiers).map(|_| Arc::new(MemoryDirectory::new())).collect(),
            open: None,
            state: State::new(),
            snapshot: None,
            gathered: 0,
        };
        store.open();
        store
    }

    fn open(&mut self) {
        let now = Arc::clone(&self.clock);
        let options = Options::new().memory(16 << 20).workers(0);
        let options = options.clocked(move || now.load(Ordering::Relaxed));
        let first: Arc<dyn alluvium_device::Directory> = self.tiers[0].clone();
        let others = self.tiers[1..].iter().map(|tier| tier.clone() as Arc<_>);
        let directories = others.fold(TierDirectories::from(first), TierDirectories::and);
        let db = options.open_in(directories).unwrap();
        let gathered = KeyspaceOptions::new()
            .value_threshold(1000)
            .value_order(ValueOrder::Gathered)
            .merge_operator("append");
        let keyspace = db.keyspace_with("values", &gathered).unwrap();
        self.open = Some((db, keyspace));
    }

    fn parts(&self) -> (Db, Keyspace) {
        self.open.clone().unwrap()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.u32(..10) {
            0 => self.random.usize(..900),
            _ => self.random.usize(1500..6000),
        };
        let random = &mut self.random;
        (0..len).map(|_| random.u8(..)).collect()
    }

    fn write(&mut self) {
        let (_, keyspace) = self.parts();
        let number = self.random.u32(..KEYS);
        let (key, value) = (number.to_be_bytes(), self.value());
        let now = self.clock.load(Ordering::Relaxed);
        match self.random.u32(..20) {
            0 => {
                keyspace.delete(key).unwrap();
                self.state.remove(&number);
            }
            1 => {
                let ends = now + self.random.u64(1..3000);
                let time = SystemTime::UNIX_EPOCH + Duration::from_millis(ends);
                keyspace.put_until(key, &value, time).unwrap();
                self.state.insert(number, (value, ends));
            }
            2 => {
                keyspace.merge(key, &value[..value.len().min(50)]).unwrap();
                self.expire();
                let (whole, ends) = self.state.entry(number).or_insert((Vec::new(), u64::MAX));
                // An operand on an expiring value outlives it; the test merges into lasting ones.
                if *ends == u64::MAX {
                    whole.extend_from_slice(&value[..value.len().min(50)]);
                } else {
                    keyspace.put(key, &value).unwrap();
                    (*whole, *ends) = (value, u64::MAX);
                }
            }
            _ => {
                keyspace.put(key, &value).unwrap();
                self.state.insert(number, (value, u64::MAX));
            }
        }
    }

    /// Writes in a transaction that spills, and commits it or not.
    fn transaction(&mut self) {
        let (db, keyspace) = self.parts();
        let transaction = db.begin_with(&TransactionOptions::new().memory(1));
        let mut state = self.state.clone();
        let first = self.random.u32(..KEYS);
        let last = first + self.random.u32(1..60);
        transaction
            .delete_range(&keyspace, first.to_be_bytes(), Some(&last.to_be_bytes()))
            .unwrap();
        state.retain(|number, _| !(first..last).contains(number));
        for _ in 0..self.random.u32(1..300) {
            let (number, value) = (self.random.u32(..KEYS), self.value());
            transaction.put(&keyspace, number.to_be_bytes(), &value).unwrap();
            state.insert(number, (value, u64::MAX));
        }
        match self.random.bool() {
            true => {
                transaction.commit().unwrap();
                self.state = state;
            }
            false => transaction.rollback(),
        }
    }

    fn expire(&mut self) {
        let now = self.clock.load(Ordering::Relaxed);
        self.state.retain(|_, (_, ends)| *ends > now);
    }

    fn compare(&mut self) {
        self.expire();
        let (db, keyspace) = self.parts();
        let pairs = keyspace.iter().expecting_bytes(1 << 20);
        same(pairs, &self.state, self.clock.load(Ordering::Relaxed));
        if let Some((snapshot, state)) = &self.snapshot {
            same(
                snapshot.iter(&keyspace),
                state,
                self.clock.load(Ordering::Relaxed),
            );
        }
        self.gathered = self.gathered.max(db.stats().tree.gathered_bytes);
    }

    fn step(&mut self) {
        let (db, keyspace) = self.parts();
        match self.random.u32(..1000) {
            0..3 => self.transaction(),
            3 => {
                let first = self.random.u32(..KEYS);
                let last = first + self.random.u32(1..100);
                keyspace
                    .delete_range(first.to_be_bytes(), Some(&last.to_be_bytes()))
                    .unwrap();
                self.state.retain(|number, _| !(first..last).contains(number));
            }
            4..8 => {
                self.clock.fetch_add(400, Ordering::Relaxed);
            }
            8 => {
                self.expire();
                self.snapshot = Some((db.snapshot(), self.state.clone()));
            }
            9 => self.snapshot = None,
            10..13 => db.checkpoint().unwrap(),
            13..100 => {
                db.work().unwrap();
            }
            100 => self.compare(),
            101 => {
                self.compare();
                drop((db, keyspace));
                self.snapshot = None;
                self.open.take().unwrap().0.close().unwrap();
                self.open();
            }
            _ => self.write(),
        }
    }
}

fn same(pairs: alluvium::Iter, state: &State, now: u64) {
    let mut expected = state.iter().filter(|(_, (_, ends))| *ends > now);
    for pair in pairs {
        let (key, value) = pair.unwrap();
        let (number, (bytes, _)) = expected.next().expect("no key more");
        assert_eq!(key, number.to_be_bytes());
        assert!(value == *bytes, "the value of {number}");
    }
    assert_eq!(expected.next().map(|(number, _)| number), None);
}

#[test]
fn what_is_gathered_reads_as_before_with_everything_else_that_touches_it() {
    for seed in 0..effort(2, 8) as u64 {
        let mut store = GatheringStore::new(seed, 1 + seed as usize % 2);
        for _ in 0..effort(12_000, 40_000) {
            store.step();
        }
        let (db, keyspace) = store.parts();
        db.compact().unwrap();
        while db.work().unwrap() {}
        store.compare();
        assert!(store.gathered > 1 << 20, "{} bytes", store.gathered);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        drop(keyspace);
    }
}
