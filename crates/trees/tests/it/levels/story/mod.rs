//! A miniature database on levels that stitch, under the simulator: what a user and the background
//! do to it in an order drawn from a seed, and what a crash may leave.

mod db;
mod steps;

use crate::story::Flaw;
use crate::story::ops::Action;
use crate::story::trouble;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_dictionary::findings::Depth;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::ops::{Op, outcome};
use alluvium_sim::{Contents, Durability, Step, Story, Trouble, World, Write};
use alluvium_storage::Error;
use alluvium_storage::extents::{ExtentOptions, UNIT};
use alluvium_storage::log;
use alluvium_storage::store::StoreOptions;
use alluvium_trees::levels::{LevelsOptions, Stitching};
use db::Db;
use std::sync::Arc;

/// Every how many openings every run and filter is checked.
const EVERYTHING: u64 = 4;

/// The story, with the ways in which it varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levelled {
    pub(crate) policy: &'static str,
    pub(crate) stitching: Stitching,
    /// Values longer than this are kept apart from their leaves.
    pub(crate) value_threshold: Option<usize>,
    pub(crate) name: &'static str,
    pub(crate) flaw: Flaw,
}

impl Levelled {
    fn store_options() -> StoreOptions {
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
                // One: what a merge or a range delete comes to depends on the commits before it.
                lanes: 1,
                access: log::Access::Written,
                identity: 7,
            },
            ..StoreOptions::default()
        }
    }

    fn options(&self) -> LevelsOptions {
        LevelsOptions {
            policy: self.policy.parse().expect("a policy"),
            unit_bytes: 8 << 10,
            fingerprint_bits: 24,
            stitching: self.stitching,
            ..LevelsOptions::default()
        }
    }

    fn commit(db: &mut Db, ops: &[Op], durability: Durability, world: &World) -> Result<(), Trouble> {
        db.make_room(world).map_err(trouble)?;
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

    /// What the writes of a commit come to, for the ledger.
    fn outcome(db: &Db, ops: &[Op]) -> Result<Vec<Write>, Trouble> {
        let keys = |start: &[u8], end: &[u8]| {
            let range = KeyRange::new(start, Some(end));
            let found = db
                .walk(&range, Direction::Forward)
                .map_err(trouble)?
                .map_err(Trouble::wrong)?;
            Ok(found.into_keys().collect())
        };
        outcome(ops, |key| db.get(key).map_err(trouble), keys)
    }

    fn act(db: &mut Db, action: &Action, world: &World) -> Result<(), Trouble> {
        let newest = world.ledger.newest();
        match action {
            Action::Commit { ops, durability } => Self::commit(db, ops, *durability, world),
            Action::Sync => {
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

impl Story for Levelled {
    type Action = Action;
    type System = Db;

    fn name(&self) -> &'static str {
        self.name
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<Step<Action>> {
        steps::steps(seed, count)
    }

    fn create(&self, world: &World) -> Result<Db, Trouble> {
        let directory = Arc::clone(&world.directory);
        let (store, levels) = (Levelled::store_options(), self.options());
        Db::create(directory, &store, levels, self.value_threshold, self.flaw).map_err(trouble)
    }

    fn open(&self, world: &World) -> Result<Db, Trouble> {
        let directory = Arc::clone(&world.directory);
        let (store, levels) = (Levelled::store_options(), self.options());
        Db::open(directory, &store, &levels, self.value_threshold, self.flaw).map_err(trouble)
    }

    fn apply(&self, db: &mut Db, action: &Action, world: &World) -> Result<(), Trouble> {
        let result = Self::act(db, action, world);
        db.count(world);
        result
    }

    fn contents(&self, db: &mut Db) -> Result<Contents, Trouble> {
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
        let superblock = db.store().superblock();
        let depth = match (superblock.generation + db.next).is_multiple_of(EVERYTHING) {
            true => Depth::Everything,
            false => Depth::Trunk,
        };
        let durable = Some(&superblock.payload[..]).filter(|payload| !payload.is_empty());
        let examined = db
            .levels
            .examine(depth, &db.under_way(), durable, &mut |_| Ok(()))
            .map_err(trouble)?;
        let mut found = db
            .store()
            .check(examined.reachable.into_iter())
            .map_err(trouble)?;
        found.extend(examined.findings.into_sentences());
        found.extend(db.store().cache().check().iter().map(ToString::to_string));
        Ok(found)
    }

    fn close(&self, db: Db, world: &World) -> Result<(), Trouble> {
        let Db {
            steps,
            sealed,
            levels,
            home,
            ..
        } = db;
        drop((steps, sealed, levels));
        let store = Arc::into_inner(home.store).expect("nothing else has the store");
        store.close().map_err(trouble)?;
        world.ledger.cover(world.ledger.newest());
        Ok(())
    }
}
