//! A miniature database on a hashed structure, under the simulator: what a user and the background
//! do to it in an order drawn from a seed, and what a crash may leave.

use super::db::Db;
use super::ops::{Action, steps};
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_dictionary::findings::Depth;
use alluvium_dictionary::key::SEED;
use alluvium_dictionary::range::KeyRange;
use alluvium_hashes::hashed::{HashedForm, HashedOptions};
use alluvium_sim::ops::{Op, outcome};
use alluvium_sim::{Cause, Contents, Durability, Part, Step, Story, Trouble, World, Write};
use alluvium_storage::extents::{ExtentOptions, UNIT};
use alluvium_storage::store::StoreOptions;
use alluvium_storage::{Directories, Error, log};
use std::sync::Arc;

/// What a caller of the simulator sees of an error.
pub(crate) fn trouble(error: Error) -> Trouble {
    if error.failing_tier().is_some() {
        return Trouble::new(Cause::Part, error);
    }
    Trouble::of(error.kind(), error)
}

/// A mistake that a caller of the structure could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// None.
    Right,
    /// What compactions gave up is used again before the generation without it is durable.
    ReusesEarly,
    /// The log is released before the generation that holds its records is durable.
    ReleasesTheLogFirst,
    /// A memtable is said to hold one commit more than it does.
    CutsTooHigh,
    /// A memtable is said to hold one write less than it does: replayed, a merge counts twice.
    CutsTooLow,
    /// A sealed memtable is let go before its incorporation has ended, once another is sealed.
    DropsTheMemtable,
    /// Deletes are not replayed.
    ForgetsDeletes,
    /// The first record after the cut is not replayed.
    ReplaysOneLess,
    /// `Disk` is answered at `Process`.
    AcknowledgesEarly,
}

/// Every how many openings every run and filter is checked.
const EVERYTHING: u64 = 4;

/// The story, with the ways in which it varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosted {
    pub(crate) form: HashedForm,
    pub(crate) name: &'static str,
    pub(crate) flaw: Flaw,
    /// How many tiers there are: 1 or 2.
    pub(crate) tiers: u8,
}

impl Hosted {
    fn store_options(&self) -> StoreOptions {
        StoreOptions {
            id: 0xa11,
            cache_bytes: 1 << 20,
            extents: ExtentOptions {
                max_bytes: None,
                min_reserve: UNIT,
                max_reserve: 2 * UNIT,
                min_map_deltas: 2 << 10,
                // Of two tiers the second has what merges write.
                planned_bytes: (self.tiers > 1).then_some(0),
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

    /// The directories of the tiers: of two, each is a part of the one that crashes.
    fn directories(&self, world: &World) -> Directories {
        match self.tiers {
            1 => (&world.directory).into(),
            _ => Directories::from(Arc::new(Part::of(&world.directory, "one.")))
                .and(Arc::new(Part::of(&world.directory, "two."))),
        }
    }

    fn options(&self) -> HashedOptions {
        HashedOptions {
            form: self.form,
            seed: SEED + 0x5eed,
            parts_log: 1,
            least_young: 2,
            most_young: 3,
            ..HashedOptions::default()
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
            let found = db.walk(&range).map_err(trouble)?.map_err(Trouble::wrong)?;
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

impl Story for Hosted {
    type Action = Action;
    type System = Db;

    fn name(&self) -> &'static str {
        self.name
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<Step<Action>> {
        steps(seed, count)
    }

    fn create(&self, world: &World) -> Result<Db, Trouble> {
        let directories = self.directories(world);
        Db::create(directories, &self.store_options(), self.options(), self.flaw).map_err(trouble)
    }

    fn open(&self, world: &World) -> Result<Db, Trouble> {
        let directories = self.directories(world);
        Db::open(directories, &self.store_options(), &self.options(), self.flaw).map_err(trouble)
    }

    fn apply(&self, db: &mut Db, action: &Action, world: &World) -> Result<(), Trouble> {
        let result = Self::act(db, action, world);
        db.count(world);
        result
    }

    fn contents(&self, db: &mut Db) -> Result<Contents, Trouble> {
        let pairs = db.walk(&KeyRange::everything()).map_err(trouble)?;
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
            .hashed
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
            hashed,
            home,
            ..
        } = db;
        drop((steps, sealed, hashed));
        let store = Arc::into_inner(home.store).expect("nothing else has the store");
        store.close().map_err(trouble)?;
        world.ledger.cover(world.ledger.newest());
        Ok(())
    }
}
