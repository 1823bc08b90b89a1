//! Checks that all read paths agree on merges, range deletes and expiries, in memtables, the record
//! cache and the tree, now and in snapshots. One model holds every write in order.

use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _, StoreScale};
use alluvium::{Db, Keyspace, KeyspaceOptions, Options, Snapshot, Value, WriteBatch};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_sim::environment::effort;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Steps of a history. `ALLUVIUM_AGREE_STEPS` sets their number and `ALLUVIUM_AGREE_SEED` selects
/// other histories.
const STEPS: u64 = 2500;
const SEEDS: u64 = 3;
const KEYS: u32 = 150;
const OPERATORS: [&str; 3] = ["append", "add", "maximum"];

/// A write in the model.
#[derive(Clone, Debug)]
enum Wrote {
    Put(Vec<u8>, u64),
    Merge(Vec<u8>),
    Delete,
}

/// All writes to each key in order, each with its sequence number.
type History = BTreeMap<Vec<u8>, Vec<(u64, Wrote)>>;

fn fold(operator: &str, older: Option<Vec<u8>>, newer: &[u8]) -> Vec<u8> {
    let Some(older) = older else {
        return newer.to_vec();
    };
    match operator {
        "append" => [&older[..], newer].concat(),
        "maximum" => older.max(newer.to_vec()),
        _ => {
            let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
            let sum = number(&older).wrapping_add(number(newer));
            sum.to_le_bytes().to_vec()
        }
    }
}

/// Returns the pairs of the history that are visible at a sequence number and a time.
fn read(history: &History, operator: &str, at: u64, now_ms: u64) -> Model {
    let value = |writes: &[(u64, Wrote)]| {
        let mut found: Option<Vec<u8>> = None;
        for (_, wrote) in writes.iter().take_while(|(number, _)| *number <= at) {
            found = match wrote {
                Wrote::Put(value, expires) => (*expires > now_ms).then(|| value.clone()),
                Wrote::Merge(operand) => Some(fold(operator, found, operand)),
                Wrote::Delete => None,
            };
        }
        found
    };
    let found = history
        .iter()
        .filter_map(|(key, writes)| Some((key.clone(), value(writes)?)));
    found.collect()
}

struct World {
    seed: u64,
    random: fastrand::Rng,
    clock: Arc<AtomicU64>,
    directory: Arc<dyn Directory>,
    db: Option<Db>,
    keyspaces: Vec<Keyspace>,
    histories: Vec<History>,
    /// Sequence number of the last write.
    last: u64,
    snapshots: Vec<(Snapshot, u64)>,
    named: BTreeMap<String, u64>,
    /// Number of results compared.
    compared: u64,
}

fn options(clock: &Arc<AtomicU64>) -> Options {
    let clock = Arc::clone(clock);
    let scale = StoreScale::small(26, 32 << 10, 384 << 10);
    Options::new()
        .record_memory(64 << 10)
        .simulated(scale, move || clock.load(Ordering::Relaxed))
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            seed,
            random: fastrand::Rng::with_seed(seed),
            clock: Arc::new(AtomicU64::new(1000)),
            directory: Arc::new(MemoryDirectory::new()),
            db: None,
            keyspaces: Vec::new(),
            histories: vec![History::new(); OPERATORS.len()],
            last: 0,
            snapshots: Vec::new(),
            named: BTreeMap::new(),
            compared: 0,
        };
        world.open();
        world
    }

    fn open(&mut self) {
        let db = options(&self.clock).open_in(Arc::clone(&self.directory)).unwrap();
        let keyspace = |name: &&str| {
            // Some values are stored separately from their leaves.
            let options = KeyspaceOptions::new().merge_operator(name).value_threshold(600);
            db.keyspace_with(name, &options).unwrap()
        };
        self.keyspaces = OPERATORS.iter().map(keyspace).collect();
        self.db = Some(db);
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Draws a key. Some keys are drawn far more often than others.
    fn key(&mut self) -> Vec<u8> {
        let of = if self.random.bool() { 8 } else { KEYS };
        let number = self.random.u32(..of);
        let tail = "y".repeat(number as usize % 3 * 15);
        format!("{number:03}{tail}").into_bytes()
    }

    fn operand(&mut self, operator: &str) -> Vec<u8> {
        let len = match (operator, self.random.u32(..20)) {
            ("add", _) => 8,
            (_, 0) => self.random.usize(..1500),
            _ => self.random.usize(..40),
        };
        (0..len).map(|_| self.random.u8(..)).collect()
    }

    /// Writes one batch to one or several keyspaces.
    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.random.usize(1..5) {
            let of = self.random.usize(..OPERATORS.len());
            let (key, keyspace) = (self.key(), self.keyspaces[of].clone());
            let operand = self.operand(OPERATORS[of]);
            self.last += 1;
            let number = self.last;
            let wrote = match self.random.u32(..20) {
                0..5 => {
                    batch.put(&keyspace, &key, &operand).unwrap();
                    Wrote::Put(operand, u64::MAX)
                }
                5..8 => {
                    let expires = self.now() + self.random.u64(..400);
                    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(expires);
                    batch.put_until(&keyspace, &key, &operand, at).unwrap();
                    Wrote::Put(operand, expires)
                }
                8..16 => {
                    batch.merge(&keyspace, &key, &operand).unwrap();
                    Wrote::Merge(operand)
                }
                16..18 => {
                    batch.delete(&keyspace, &key).unwrap();
                    Wrote::Delete
                }
                _ => {
                    let mut end = self.key();
                    end.push(b'z');
                    let (start, end) = (key.clone().min(end.clone()), key.max(end));
                    batch.delete_range(&keyspace, &start, Some(&end[..])).unwrap();
                    for (_, writes) in self.histories[of].range_mut(start..end) {
                        writes.push((number, Wrote::Delete));
                    }
                    continue;
                }
            };
            let history = self.histories[of].entry(key).or_default();
            history.push((number, wrote));
        }
        match self.random.bool() {
            true => self.db().write(&batch).unwrap(),
            false => pollster::block_on(self.db().write_async(batch)).unwrap(),
        }
    }

    fn compare_now(&mut self) {
        for (of, operator) in OPERATORS.into_iter().enumerate() {
            let wanted = read(&self.histories[of], operator, self.last, self.now());
            let keys: Vec<Vec<u8>> = (0..6).map(|_| self.key()).collect();
            let keyspace = &self.keyspaces[of];
            let what = format!("seed {}, {}, write {}", self.seed, operator, self.last);
            let asked = |key: &[u8]| wanted.get(key).map(Vec::as_slice);
            let expected: Vec<Option<&[u8]>> = keys.iter().map(|key| asked(key)).collect();
            // Look up everything twice, so that the record cache answers some lookups.
            for _ in 0..2 {
                for (key, expected) in keys.iter().zip(&expected) {
                    let shown = key.escape_ascii();
                    let one = keyspace.get(key).unwrap();
                    assert_eq!(one.as_deref(), *expected, "{what}, get {shown}");
                    let polled = pollster::block_on(keyspace.get_async(key)).unwrap();
                    assert_eq!(polled.as_deref(), *expected, "{what}, polled {shown}");
                    assert_eq!(
                        keyspace.contains(key).unwrap(),
                        expected.is_some(),
                        "{what}, {shown}"
                    );
                }
            }
            let many = keyspace.multi_get(&keys).unwrap();
            same(&many, &expected, &format!("{what}, many"));
            let polled = pollster::block_on(keyspace.multi_get_async(&keys)).unwrap();
            same(&polled, &expected, &format!("{what}, many polled"));
            let mut window = self.db().reads();
            for (tag, key) in keys.iter().enumerate() {
                window.get(keyspace, key, tag).unwrap();
            }
            while let Some((tag, value)) = window.wait() {
                assert_eq!(value.unwrap().as_deref(), expected[tag], "{what}, in a window");
            }
            walks(keyspace.iter(), &wanted, &mut self.random, &what);
            let (low, high) = (
                keys[0].clone().min(keys[1].clone()),
                keys[0].clone().max(keys[1].clone()),
            );
            let within = wanted.range(low.clone()..high.clone());
            let within: Model = within.map(|(key, value)| (key.clone(), value.clone())).collect();
            walks(keyspace.range(low..high), &within, &mut self.random, &what);
            let ends = |pair: Option<(Vec<u8>, Value)>| pair.map(|(key, value)| (key, value.into_vec()));
            let model =
                |pair: Option<(&Vec<u8>, &Vec<u8>)>| pair.map(|(key, value)| (key.clone(), value.clone()));
            assert_eq!(
                ends(keyspace.first().unwrap()),
                model(wanted.first_key_value()),
                "{what}"
            );
            assert_eq!(
                ends(keyspace.last().unwrap()),
                model(wanted.last_key_value()),
                "{what}"
            );
            self.compared += 30 + 2 * wanted.len() as u64;
        }
    }

    fn compare_snapshot(&mut self, snapshot: &Snapshot, at: u64) {
        for (of, operator) in OPERATORS.into_iter().enumerate() {
            let wanted = read(&self.histories[of], operator, at, self.now());
            let keys: Vec<Vec<u8>> = (0..6).map(|_| self.key()).collect();
            let keyspace = &self.keyspaces[of];
            let what = format!("seed {}, {}, as of {at} of {}", self.seed, operator, self.last);
            let expected: Vec<Option<&[u8]>> = keys
                .iter()
                .map(|key| wanted.get(key).map(Vec::as_slice))
                .collect();
            for (key, expected) in keys.iter().zip(&expected) {
                let one = snapshot.get(keyspace, key).unwrap();
                assert_eq!(one.as_deref(), *expected, "{what}, get");
                let polled = pollster::block_on(snapshot.get_async(keyspace, key)).unwrap();
                assert_eq!(polled.as_deref(), *expected, "{what}, polled");
            }
            same(&snapshot.multi_get(keyspace, &keys).unwrap(), &expected, &what);
            let polled = pollster::block_on(snapshot.multi_get_async(keyspace, &keys)).unwrap();
            same(&polled, &expected, &what);
            walks(snapshot.iter(keyspace), &wanted, &mut self.random, &what);
            self.compared += 24 + wanted.len() as u64;
        }
    }

    fn step(&mut self) {
        match self.random.u32(..1000) {
            0..640 => self.write(),
            640..760 => self.compare_now(),
            760..850 => drop(self.clock.fetch_add(self.random.u64(..60), Ordering::Relaxed)),
            850..900 => {
                for _ in 0..self.random.u32(..4) {
                    self.db().work().unwrap();
                }
            }
            900..915 if self.snapshots.len() < 3 => self.snapshots.push((self.db().snapshot(), self.last)),
            915..940 if !self.snapshots.is_empty() => {
                let one = self.random.usize(..self.snapshots.len());
                let (snapshot, at) = self.snapshots.swap_remove(one);
                self.compare_snapshot(&snapshot, at);
                if self.random.bool() {
                    self.snapshots.push((snapshot, at));
                }
            }
            940..950 if self.named.len() < 2 => {
                let name = format!("at {}", self.last);
                if !self.named.contains_key(&name) {
                    self.db().create_snapshot(&name).unwrap();
                    self.named.insert(name, self.last);
                }
            }
            950..965 => {
                let Some((name, at)) = self.named.pop_first() else {
                    return;
                };
                let snapshot = self.db().open_snapshot(&name).unwrap();
                self.compare_snapshot(&snapshot, at);
                match self.random.bool() {
                    true => drop(self.named.insert(name, at)),
                    false => self.db().remove_snapshot(&name).unwrap(),
                }
            }
            965..980 => self.db().checkpoint().unwrap(),
            980..988 => self.db().compact().unwrap(),
            988..992 => assert_eq!(self.db().check().unwrap(), [""; 0], "seed {}", self.seed),
            _ => self.open_again(),
        }
    }

    fn open_again(&mut self) {
        self.snapshots.clear();
        self.keyspaces.clear();
        let db = self.db.take().expect("it is open");
        match self.random.bool() {
            true => db.close().unwrap(),
            // Simulate a killed process.
            false => {
                db.abandon();
                drop(db);
            }
        }
        self.open();
    }
}

fn same(found: &[Option<Value>], expected: &[Option<&[u8]>], what: &str) {
    let found: Vec<Option<&[u8]>> = found.iter().map(Option::as_deref).collect();
    assert_eq!(found, expected, "{what}");
}

/// Iterates forwards, backwards, or alternately from both ends.
fn walks(
    mut walk: impl DoubleEndedIterator<Item = alluvium::Result<(Vec<u8>, Value)>>,
    wanted: &Model,
    random: &mut fastrand::Rng,
    what: &str,
) {
    let mut left = wanted.iter();
    let manner = random.u32(..3);
    loop {
        let is_forward = manner == 0 || (manner == 2 && random.bool());
        let (found, expected) = match is_forward {
            true => (walk.next(), left.next()),
            false => (walk.next_back(), left.next_back()),
        };
        let found = found.map(|pair| pair.unwrap());
        let found = found.as_ref().map(|(key, value)| (&key[..], &value[..]));
        let expected = expected.map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(found, expected, "{what}, a walk in manner {manner}");
        if expected.is_none() {
            return;
        }
    }
}

#[test]
fn every_way_to_read_merges_and_expiries_agrees_with_the_model() {
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let first = number("ALLUVIUM_AGREE_SEED", 1);
    let mut hits = 0;
    for seed in first..first + effort(1, SEEDS) {
        let mut world = World::new(seed);
        for _ in 0..number("ALLUVIUM_AGREE_STEPS", STEPS) {
            world.step();
        }
        world.compare_now();
        assert_eq!(world.db().check().unwrap(), [""; 0], "seed {seed}");
        hits += world.db().stats().records.hits;
        assert!(world.compared > 10_000, "{}", world.compared);
    }
    assert!(hits > 0, "the record cache answers");
}
