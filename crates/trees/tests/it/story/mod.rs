//! A miniature database on the tiered tree, under the simulator: what a user and the background do
//! to it, and what a crash, or a device that fails, may leave.

mod background;
pub(crate) mod db;
mod flaw;
mod ingest;
pub(crate) mod ops;

pub(crate) use flaw::Flaw;

use crate::alone::Alone;
use crate::schema::schema;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::ops::{Op, outcome};
use alluvium_sim::{Cause, Contents, Durability, Part, Step, Story, Trouble, World, Write};
use alluvium_storage::extents::{ExtentOptions, UNIT};
use alluvium_storage::store::StoreOptions;
use alluvium_storage::{Codec, Directories, Error, log};
use alluvium_trees::tiered::{Adoption, Depth, Shape, TreeOptions, Victim};
use db::Db;
use ops::Action;
use std::sync::Arc;

/// Every how many openings every run and maplet is checked; at the others the trunk alone is.
const EVERYTHING: u64 = 4;

/// The story, with the ways in which it varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiered {
    pub(crate) access: log::Access,
    pub(crate) flaw: Flaw,
    /// How many tiers there are: 1, or 2 with what compactions write on the second.
    pub(crate) tiers: u8,
}

/// What a caller of the simulator sees of an error.
pub(crate) fn trouble(error: Error) -> Trouble {
    if error.failing_tier().is_some() {
        return Trouble::new(Cause::Part, error);
    }
    Trouble::of(error.kind(), error)
}

impl Tiered {
    fn options(&self) -> StoreOptions {
        StoreOptions {
            id: 0xa11,
            cache_bytes: 1 << 20,
            extents: ExtentOptions {
                max_bytes: None,
                min_reserve: UNIT,
                max_reserve: 2 * UNIT,
                min_map_deltas: 2 << 10,
                ..ExtentOptions::default()
            },
            log: log::LogOptions {
                limit_bytes: 64 << 10,
                starts_small: false,
                stored_bytes: 0,
                segment_bytes: 8 << 10,
                reserve_bytes: 16 << 10,
                // One, so that the death of the process leaves a prefix of the commits: what a
                // merge or a range delete comes to depends on those before it.
                lanes: 1,
                access: self.access,
                identity: 7,
            },
            ..StoreOptions::default()
        }
    }

    /// The directories of the tiers: of two, each is a part of the one that crashes.
    fn directories(&self, world: &World) -> Directories {
        match self.tiers {
            1 => Arc::clone(&world.directory).into(),
            _ => Directories::from(Arc::new(Part::of(&world.directory, "one.")))
                .and(Arc::new(Part::of(&world.directory, "two."))),
        }
    }

    fn tree_options(&self) -> TreeOptions {
        TreeOptions {
            // Small, so that a run of some hundred steps has a trunk of several levels; compressed,
            // smaller still.
            shape: Shape {
                fanout: 4,
                memtable: match self.access {
                    log::Access::Mapped => 6 << 10,
                    log::Access::Written => 3 << 10,
                },
            },
            victim: match self.access {
                log::Access::Mapped => Victim::Fullest,
                log::Access::Written => Victim::RandomMessage,
            },
            fingerprint_bits: 24,
            schema: match self.access {
                log::Access::Mapped => schema(0, Codec::None),
                log::Access::Written => schema(1, Codec::None),
            },
            horizon: None,
            compacted_tier: Some(self.tiers - 1),
            adoption: Adoption::Above(0),
        }
    }

    /// What the writes of a commit come to, for the ledger.
    fn outcome(db: &Db, ops: &[Op]) -> Result<Vec<Write>, Trouble> {
        let keys = |start: &[u8], end: &[u8]| {
            let range = KeyRange::new(start, Some(end));
            let found = db.scan(&range).map_err(trouble)?.map_err(Trouble::wrong)?;
            Ok(found.into_keys().collect())
        };
        outcome(ops, |key| db.get(key).map_err(trouble), keys)
    }

    fn commit(db: &mut Db, ops: &[Op], durability: Durability, world: &World) -> Result<(), Trouble> {
        db.make_room(world).map_err(trouble)?;
        db.log_again(world.ledger.newest(), world).map_err(trouble)?;
        let writes = Self::outcome(db, ops)?;
        let ledger = &world.ledger;
        let number = ledger.begin(&writes);
        let mut result = db.commit(ops, durability);
        if result.as_ref().is_err_and(Error::is_full) {
            // A checkpoint frees log. It holds everything but this commit.
            world.coverage.hit("log full");
            result = db
                .checkpoint(true, number - 1, world)
                .and_then(|()| db.commit(ops, durability));
        }
        if result.is_ok() {
            db.commits.push((db.last(), number));
        }
        ledger.answer(number, durability, result.map_err(trouble))
    }

    fn act(db: &mut Db, action: &Action, world: &World) -> Result<(), Trouble> {
        let newest = world.ledger.newest();
        match action {
            Action::Commit { ops, durability } => Self::commit(db, ops, *durability, world),
            Action::Sync => {
                db.log_again(newest, world).map_err(trouble)?;
                db.store().health().map_err(trouble)?;
                let result = db.store().log().sync_all();
                let synced = db.store().judge(result).map_err(trouble)?;
                assert_eq!(synced, db.last(), "everything is complete");
                world.ledger.cover(newest);
                Ok(())
            }
            Action::Checkpoint => db.checkpoint(true, newest, world).map_err(trouble),
            Action::Background(choice) => db.background(*choice, world),
            Action::Get(key) => {
                let value = db.get(key).map_err(trouble)?;
                world.ledger.expect(key, value.as_deref())
            }
        }
    }
}

impl Story for Tiered {
    type Action = Action;
    type System = Db;

    fn name(&self) -> &'static str {
        match (self.access, self.tiers) {
            (_, 2) => "tiered-on-two-tiers",
            (log::Access::Mapped, _) => "tiered-mapped",
            (log::Access::Written, _) => "tiered-written",
        }
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<Step<Action>> {
        ops::steps(seed, count)
    }

    fn create(&self, world: &World) -> Result<Db, Trouble> {
        let directories = self.directories(world);
        Db::create(directories, &self.options(), self.tree_options(), self.flaw).map_err(trouble)
    }

    fn open(&self, world: &World) -> Result<Db, Trouble> {
        let directories = self.directories(world);
        Db::open(directories, &self.options(), self.tree_options(), self.flaw).map_err(trouble)
    }

    fn apply(&self, db: &mut Db, action: &Action, world: &World) -> Result<(), Trouble> {
        let result = Self::act(db, action, world);
        db.count(world);
        result
    }

    fn contents(&self, db: &mut Db) -> Result<Contents, Trouble> {
        // Each way in turn: a scan is the dearer half of what an image costs.
        let direction = if db.next.is_multiple_of(2) {
            Direction::Forward
        } else {
            Direction::Backward
        };
        let pairs = db.walk(&KeyRange::everything(), direction).map_err(trouble)?;
        let mut contents = Contents::new();
        for (key, value) in pairs.map_err(Trouble::wrong)? {
            contents.add(&key, &value).expect("a map has each key once");
        }
        Ok(contents)
    }

    fn check(&self, db: &mut Db) -> Result<Vec<String>, Trouble> {
        let depth = if (db.store().superblock().generation + db.next).is_multiple_of(EVERYTHING) {
            Depth::Everything
        } else {
            Depth::Trunk
        };
        let mut found = db.tree.check(depth, &db.jobs()).map_err(trouble)?;
        found.extend(db.store().cache().check().iter().map(ToString::to_string));
        Ok(found)
    }

    fn close(&self, mut db: Db, world: &World) -> Result<(), Trouble> {
        db.log_again(world.ledger.newest(), world).map_err(trouble)?;
        let Db {
            steps,
            sealed,
            snapshot,
            ingest,
            tree,
            ..
        } = db;
        drop((steps, sealed, snapshot, ingest));
        let store = Arc::clone(tree.store());
        drop(tree);
        let store = Arc::into_inner(store).expect("nobody else has the store");
        store.close().map_err(trouble)?;
        world.ledger.cover(world.ledger.newest());
        Ok(())
    }
}
