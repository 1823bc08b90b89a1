//! Applies the same random history to a keyspace of each kind and to a `BTreeMap`, and checks that
//! all return the same results.

use super::{directories, one_of_each, small};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::keyspace::Keyspace;
use crate::keyspace::snapshot::Snapshot;
use crate::options::hashed::UNNAMED;
use crate::options::{HashedForm, KeyspaceOptions};
use crate::write::batch::WriteBatch;
use alluvium_sim::environment::effort;
use alluvium_storage::TierDirectories;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Number of steps of a history.
const STEPS: usize = 3000;

struct World {
    random: fastrand::Rng,
    directories: TierDirectories,
    /// Planned size in bytes of the data on the first tier.
    fast_bytes: u64,
    db: Option<Db>,
    keyspaces: Vec<Keyspace>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

impl World {
    fn new(seed: u64, tiers: usize, fast_bytes: u64) -> World {
        let mut world = World {
            random: fastrand::Rng::with_seed(seed),
            directories: directories(tiers),
            fast_bytes,
            db: None,
            keyspaces: Vec::new(),
            model: Model::new(),
            snapshots: Vec::new(),
        };
        world.open();
        world
    }

    fn open(&mut self) {
        let options = small().fast_bytes(self.fast_bytes);
        let db = options.open_in(&self.directories).unwrap();
        self.keyspaces = one_of_each(&db, &KeyspaceOptions::new().merge_operator("append"));
        self.db = Some(db);
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.u32(..120);
        let long = "x".repeat(self.random.usize(..2) * 20);
        format!("{number:03}{long}").into_bytes()
    }

    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.random.usize(1..4) {
            let key = self.key();
            match self.random.u32(..20) {
                0..10 => {
                    let value = vec![self.random.u8(..); self.random.usize(..300)];
                    for keyspace in &self.keyspaces {
                        batch.put(keyspace, &key, &value).unwrap();
                    }
                    self.model.insert(key, value);
                }
                10..14 => {
                    for keyspace in &self.keyspaces {
                        batch.delete(keyspace, &key).unwrap();
                    }
                    self.model.remove(&key);
                }
                14..19 => {
                    let operand = [self.random.u8(..); 3];
                    for keyspace in &self.keyspaces {
                        batch.merge(keyspace, &key, operand).unwrap();
                    }
                    self.model.entry(key).or_default().extend(operand);
                }
                _ => {
                    let mut end = self.key();
                    end.push(0xff);
                    let (start, end) = if key < end { (key, end) } else { (end, key) };
                    for keyspace in &self.keyspaces {
                        batch.delete_range(keyspace, &start, Some(&end[..])).unwrap();
                    }
                    self.model.retain(|key, _| !(start <= *key && *key < end));
                }
            }
        }
        self.db().write(&batch).unwrap();
    }

    fn compare(&mut self) {
        let asked: Vec<Vec<u8>> = (0..8).map(|_| self.key()).collect();
        let wanted: Vec<Option<&[u8]>> = asked
            .iter()
            .map(|key| self.model.get(key).map(|value| &value[..]))
            .collect();
        for keyspace in &self.keyspaces {
            let found = keyspace.multi_get(&asked).unwrap();
            let found: Vec<Option<&[u8]>> = found.iter().map(Option::as_deref).collect();
            assert_eq!(found, wanted, "{}", keyspace.name());
            let polled = pollster::block_on(keyspace.multi_get_async(&asked)).unwrap();
            let polled: Vec<Option<&[u8]>> = polled.iter().map(Option::as_deref).collect();
            assert_eq!(polled, wanted, "{}, polled", keyspace.name());
            for (key, wanted) in asked.iter().zip(&wanted) {
                assert_eq!(keyspace.get(key).unwrap().as_deref(), *wanted);
            }
            let (low, high) = (
                asked[0].clone().min(asked[1].clone()),
                asked[0].clone().max(asked[1].clone()),
            );
            let walk = keyspace
                .range(low.clone()..high.clone())
                .map(|pair| pair.unwrap());
            let walk: Vec<_> = walk.map(|(key, value)| (key, value.into_vec())).collect();
            let expected = self.model.range(low.clone()..high.clone());
            let mut expected: Vec<_> = expected
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(walk, expected, "{}", keyspace.name());
            let back = keyspace
                .range(low.clone()..high.clone())
                .rev()
                .map(|pair| pair.unwrap());
            let back: Vec<_> = back.map(|(key, value)| (key, value.into_vec())).collect();
            expected.reverse();
            assert_eq!(back, expected, "{}", keyspace.name());
        }
    }

    fn compare_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let (snapshot, model) = &self.snapshots[self.random.usize(..self.snapshots.len())];
        for keyspace in &self.keyspaces {
            let found = snapshot.iter(keyspace).map(|pair| pair.unwrap());
            let found: Model = found.map(|(key, value)| (key, value.into_vec())).collect();
            assert_eq!(&found, model, "{}", keyspace.name());
        }
    }

    fn step(&mut self) {
        match self.random.u32(..1000) {
            0..600 => self.write(),
            600..800 => self.compare(),
            800..900 => {
                for _ in 0..self.random.u32(..4) {
                    self.db().work().unwrap();
                }
            }
            900..920 if self.snapshots.len() < 3 => {
                self.snapshots.push((self.db().snapshot(), self.model.clone()));
            }
            900..940 => self.compare_snapshot(),
            940..960 if !self.snapshots.is_empty() => {
                let ended = self.random.usize(..self.snapshots.len());
                self.snapshots.swap_remove(ended);
            }
            960..985 => self.db().checkpoint().unwrap(),
            985..990 => self.db().compact().unwrap(),
            990..996 => assert_eq!(self.db().check().unwrap(), Vec::<String>::new()),
            996 => self.load(),
            _ => {
                self.snapshots.clear();
                self.keyspaces.clear();
                let db = self.db.take().expect("it is open");
                if self.random.bool() {
                    db.close().unwrap();
                } else {
                    // Simulate a process crash.
                    db.abandon();
                    drop(db);
                }
                self.open();
            }
        }
    }

    fn load(&mut self) {
        let records: Model = (0..20)
            .map(|_| (self.key(), vec![self.random.u8(..); 50]))
            .collect();
        for keyspace in &self.keyspaces {
            keyspace.ingest(&records).unwrap();
        }
        self.model.extend(records);
    }
}

#[test]
fn a_history_has_the_same_answers_in_every_kind() {
    // Test one tier, and several tiers with all or most of the compacted data on the slower ones.
    for (seed, tiers, fast_bytes) in [
        (1, 1, 0),
        (2, 1, 0),
        (3, 2, 0),
        (4, 2, 1 << 20),
        (5, 3, 512 << 10),
    ] {
        UNNAMED.set(match seed {
            1 | 5 => HashedForm::Silt,
            4 => HashedForm::Bot { lambda: 2 },
            _ => HashedForm::Boa {
                lambda: 2,
                refined: seed == 3,
            },
        });
        let mut world = World::new(seed, tiers, fast_bytes);
        for _ in 0..effort(STEPS / 3, STEPS) {
            world.step();
        }
        world.compare();
        assert_eq!(world.db().check().unwrap(), Vec::<String>::new(), "seed {seed}");
    }
}
