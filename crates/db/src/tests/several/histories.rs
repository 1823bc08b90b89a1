//! Random histories in which keyspaces are dropped and created again with other options, compared
//! with a model.

use super::{keyspace, listed, options, pairs, settle, tiny};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::keyspace::snapshot::Snapshot;
use crate::write::batch::WriteBatch;
use alluvium_device::Directory;
use alluvium_sim::environment::effort;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const STRUCTURES: [&str; 9] = [
    "levels,k=2",
    "levels,k=4",
    "levels,k=2,f=0",
    "levels,cola,r=2",
    "levels,never",
    "hashed",
    "hashed,index=trie",
    "hashed,form=boa,lambda=2,refined=no",
    "hashed,form=bot,lambda=2",
];

/// Number of steps of a history.
const STEPS: usize = 1_500;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The keyspaces by name, each with its structure and contents.
type Model = BTreeMap<String, (&'static str, Pairs)>;

struct World {
    random: fastrand::Rng,
    directory: Arc<dyn Directory>,
    db: Option<Db>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

impl World {
    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:02}", self.random.u32(..60)).into_bytes()
    }

    fn name(&mut self) -> String {
        format!("k{}", self.random.u32(..6))
    }

    /// Opens a keyspace. If it does not exist, it gets a random structure.
    fn made(&mut self, name: &str) -> &'static str {
        let structure = STRUCTURES[self.random.usize(..STRUCTURES.len())];
        self.model
            .entry(name.to_owned())
            .or_insert_with(|| (structure, Pairs::new()))
            .0
    }

    /// Writes to several keyspaces in one commit.
    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.random.usize(1..6) {
            let (name, key) = (self.name(), self.key());
            let structure = self.made(&name);
            let keyspace = keyspace(self.db(), &name, structure);
            let value = vec![self.random.u8(..); self.random.usize(..200)];
            let action = self.random.u32(..10);
            let (_, model) = self.model.get_mut(&name).expect("it was made");
            match action {
                0..6 => {
                    batch.put(&keyspace, &key, &value).unwrap();
                    model.insert(key, value);
                }
                6..8 => {
                    batch.delete(&keyspace, &key).unwrap();
                    model.remove(&key);
                }
                8 => {
                    // The range reaches the end of the keyspace, where its neighbour begins.
                    let from = if structure.starts_with("levels") {
                        key
                    } else {
                        Vec::new()
                    };
                    batch.delete_range(&keyspace, &from, None::<&[u8]>).unwrap();
                    model.retain(|key, _| *key < from);
                }
                _ => {}
            }
        }
        self.db().write(&batch).unwrap();
    }

    fn drop_one(&mut self) {
        let name = self.name();
        if self.model.remove(&name).is_some() {
            self.db().drop_keyspace(&name).unwrap();
            for (_, model) in &mut self.snapshots {
                model.remove(&name);
            }
        }
    }

    fn compare(&mut self) {
        assert_eq!(
            self.db().keyspaces(),
            self.model.keys().cloned().collect::<Vec<_>>()
        );
        for (name, (structure, expected)) in &self.model {
            let keyspace = self.db().keyspace_with(name, &options(structure)).unwrap();
            assert_eq!(pairs(&keyspace), *expected, "{name} in {structure}");
            for number in 0..60 {
                let key = format!("{number:02}").into_bytes();
                let found = keyspace.get(&key).unwrap();
                assert_eq!(found.as_deref(), expected.get(&key).map(|value| &value[..]));
            }
        }
        for (snapshot, model) in &self.snapshots {
            for (name, (structure, expected)) in model {
                let keyspace = self.db().existing_keyspace(name).unwrap();
                let found = snapshot.unordered(&keyspace).map(|pair| pair.unwrap());
                let found: Pairs = found.map(|(key, value)| (key, value.into_vec())).collect();
                assert_eq!(found, *expected, "{name} in {structure}, seen by a snapshot");
            }
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        let db = self.db.take().expect("it is open");
        if self.random.bool() {
            db.close().unwrap();
        } else {
            db.abandon();
            drop(db);
        }
        self.db = Some(tiny().open_in(Arc::clone(&self.directory)).unwrap());
        self.compare();
    }

    fn step(&mut self) {
        match self.random.u32(..100) {
            0..62 => self.write(),
            62..70 => self.drop_one(),
            70..80 => {
                for _ in 0..self.random.u32(..6) {
                    self.db().work().unwrap();
                }
            }
            80..84 => self.db().checkpoint().unwrap(),
            84..88 if self.snapshots.len() < 2 => {
                self.snapshots.push((self.db().snapshot(), self.model.clone()));
            }
            84..90 => self.snapshots.clear(),
            90..92 => self.db().compact().unwrap(),
            92..94 => assert_eq!(self.db().check().unwrap(), Vec::<String>::new()),
            94..98 => self.compare(),
            _ => self.reopen(),
        }
    }
}

#[test]
fn keyspaces_that_get_other_options_hold_what_the_model_holds() {
    for seed in 0..effort(2, 12) {
        let directory = super::memory();
        let mut world = World {
            random: fastrand::Rng::with_seed(seed),
            db: Some(tiny().open_in(Arc::clone(&directory)).unwrap()),
            directory,
            model: Model::new(),
            snapshots: Vec::new(),
        };
        eprintln!("seed {seed}");
        (0..STEPS).for_each(|_| world.step());
        world.compare();
        // Without readers, only the dictionaries of the keyspaces are left.
        world.snapshots.clear();
        keyspace(world.db(), "last", "tiered").put("a", "commit").unwrap();
        settle(world.db());
        let in_use = world.model.values().map(|(structure, _)| *structure);
        let in_use: BTreeSet<&str> = in_use.collect();
        let found = listed(world.db());
        assert_eq!(found.len(), 1 + in_use.len(), "{found:?} for {in_use:?}");
        assert_eq!(world.db().check().unwrap(), Vec::<String>::new());
    }
}
