//! The story of a structure, as the simulator runs it.

use crate::database::StoryDatabase;
use crate::flaw::CallerFlaw;
use crate::steps::StoryAction;
use crate::subject::StructureSubject;
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::ops::{WriteOp, outcome};
use alluvium_sim::{
    ModelWrite, PrefixDirectory, PromisedDurability, RunStep, StoreContents, Story, StoryEnvironment,
    StoryError, StoryErrorKind,
};
use alluvium_storage::extents::{ExtentOptions, UNIT};
use alluvium_storage::store::StoreOptions;
use alluvium_storage::{Error, TierDirectories, log};
use std::sync::Arc;

/// One in this many openings checks all data. The others check only the upper levels (the trunk).
const EVERYTHING: u64 = 4;

/// A crash story that runs a structure in a small database.
#[derive(Clone, Copy, Debug)]
pub struct StructureStory<S> {
    /// The name of the story, for failure reports.
    pub name: &'static str,
    pub subject: S,
    /// The deliberate mistake that the database makes.
    pub flaw: CallerFlaw,
    /// Number of tiers of the store: 1 or 2.
    pub tiers: u8,
}

/// Converts an error of the store to an error of the simulator.
#[must_use]
pub fn to_story_error(error: Error) -> StoryError {
    if error.failing_tier().is_some() {
        return StoryError::new(StoryErrorKind::Part, error);
    }
    StoryError::of(error.kind(), error)
}

impl<S: StructureSubject> StructureStory<S> {
    /// Creates a story on a single tier, whose database makes no deliberate mistake.
    pub fn new(name: &'static str, subject: S) -> StructureStory<S> {
        StructureStory {
            name,
            subject,
            flaw: CallerFlaw::Right,
            tiers: 1,
        }
    }

    /// Returns the story with a database that makes a deliberate mistake.
    #[must_use]
    pub fn with_flaw(self, flaw: CallerFlaw) -> StructureStory<S> {
        StructureStory { flaw, ..self }
    }

    /// Returns the story on two tiers, with another name.
    #[must_use]
    pub fn on_two_tiers(self, name: &'static str) -> StructureStory<S> {
        StructureStory {
            name,
            tiers: 2,
            ..self
        }
    }

    fn store_options(&self) -> StoreOptions {
        let layout = self.subject.layout();
        StoreOptions {
            id: 0xa11,
            cache_bytes: 1 << 20,
            extents: ExtentOptions {
                max_bytes: None,
                min_reserve: UNIT,
                max_reserve: 2 * UNIT,
                min_map_deltas: 2 << 10,
                planned_bytes: layout.planned_bytes.filter(|_| self.tiers > 1),
                ..ExtentOptions::default()
            },
            log: log::LogOptions {
                limit_bytes: 64 << 10,
                starts_small: false,
                stored_bytes: 0,
                segment_bytes: 8 << 10,
                reserve_bytes: 16 << 10,
                // With a single lane, a process that dies leaves a prefix of the commits. This
                // matters because the effect of a merge or range delete depends on earlier commits.
                lanes: 1,
                access: layout.access,
                identity: 7,
            },
            ..StoreOptions::default()
        }
    }

    /// Returns the directories of the tiers. Two tiers share the one directory that crashes.
    fn directories(&self, world: &StoryEnvironment) -> TierDirectories {
        match self.tiers {
            1 => Arc::clone(&world.directory).into(),
            _ => TierDirectories::from(Arc::new(PrefixDirectory::of(&world.directory, "one.")))
                .and(Arc::new(PrefixDirectory::of(&world.directory, "two."))),
        }
    }
}

/// Returns the effect of a commit's writes, in the form that the ledger records.
fn expect<S: StructureSubject>(
    database: &StoryDatabase<S>,
    ops: &[WriteOp],
) -> Result<Vec<ModelWrite>, StoryError> {
    let keys = |start: &[u8], end: &[u8]| {
        let range = KeyRange::new(start, Some(end));
        let found = database.walk(&range, MergeDirection::Forward, database.last());
        let found = found.map_err(to_story_error)?.map_err(StoryError::wrong)?;
        Ok(found.into_keys().collect())
    };
    outcome(ops, |key| database.get(key).map_err(to_story_error), keys)
}

fn commit<S: StructureSubject>(
    database: &mut StoryDatabase<S>,
    ops: &[WriteOp],
    durability: PromisedDurability,
    world: &StoryEnvironment,
) -> Result<(), StoryError> {
    database.seal_full(world).map_err(to_story_error)?;
    database
        .log_again(world.ledger.newest(), world)
        .map_err(to_story_error)?;
    let writes = expect(database, ops)?;
    let ledger = &world.ledger;
    let number = ledger.begin(&writes);
    let mut result = database.commit(ops, durability);
    if result.as_ref().is_err_and(Error::is_full) {
        // The log is full. A checkpoint of all earlier commits frees space in it.
        world.coverage.hit("log full");
        result = database
            .checkpoint(true, number - 1, world)
            .and_then(|()| database.commit(ops, durability));
    }
    if result.is_ok() {
        database.commits.push((database.last(), number));
    }
    ledger.answer(number, durability, result.map_err(to_story_error))
}

fn sync<S: StructureSubject>(
    database: &mut StoryDatabase<S>,
    world: &StoryEnvironment,
) -> Result<(), StoryError> {
    let newest = world.ledger.newest();
    database.log_again(newest, world).map_err(to_story_error)?;
    let store = database.store();
    store.health().map_err(to_story_error)?;
    let result = store.log().sync_all();
    let synced = store.poison_on_error(result).map_err(to_story_error)?;
    assert_eq!(synced, database.last(), "everything is complete");
    world.ledger.mark_durable(newest);
    Ok(())
}

impl<S: StructureSubject> Story for StructureStory<S> {
    type Action = StoryAction;
    type System = StoryDatabase<S>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<StoryAction>> {
        self.subject.steps(seed, count)
    }

    fn create(&self, world: &StoryEnvironment) -> Result<StoryDatabase<S>, StoryError> {
        StoryDatabase::create(self, self.directories(world), &self.store_options()).map_err(to_story_error)
    }

    fn open(&self, world: &StoryEnvironment) -> Result<StoryDatabase<S>, StoryError> {
        StoryDatabase::open(self, self.directories(world), &self.store_options()).map_err(to_story_error)
    }

    fn apply(
        &self,
        database: &mut StoryDatabase<S>,
        action: &StoryAction,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError> {
        let newest = world.ledger.newest();
        let result = match action {
            StoryAction::Commit { ops, durability } => commit(database, ops, *durability, world),
            StoryAction::Sync => sync(database, world),
            StoryAction::Checkpoint => database.checkpoint(true, newest, world).map_err(to_story_error),
            StoryAction::Background(choice) => database.background(*choice, world),
            StoryAction::Get(key) => {
                let value = database.get(key).map_err(to_story_error);
                value.and_then(|value| world.ledger.expect(key, value.as_deref()))
            }
        };
        database.count(world);
        result
    }

    fn contents(&self, database: &mut StoryDatabase<S>) -> Result<StoreContents, StoryError> {
        // Alternate the direction between calls. Scanning in all directions each time would be too
        // slow, because scans account for most of the cost of judging a crash image.
        let directions = self.subject.directions();
        let direction = directions[database.next as usize % directions.len()];
        let pairs = database.walk(&KeyRange::everything(), direction, database.last());
        let mut contents = StoreContents::new();
        for (key, value) in pairs.map_err(to_story_error)?.map_err(StoryError::wrong)? {
            contents.add(&key, &value).expect("a map has each key once");
        }
        Ok(contents)
    }

    fn check(&self, database: &mut StoryDatabase<S>) -> Result<Vec<String>, StoryError> {
        let store = database.store();
        let superblock = store.superblock();
        let depth = match (superblock.generation + database.next).is_multiple_of(EVERYTHING) {
            true => CheckLevel::Everything,
            false => CheckLevel::Trunk,
        };
        let durable = database.root.durable.as_deref();
        let examined = database
            .dictionary
            .check(depth, &database.under_way(), durable, &mut |_| Ok(()))
            .map_err(to_story_error)?;
        let root = database.root.apart.iter().flat_map(|blob| blob.extents());
        let root = root.map(|extent| (*extent, 1));
        let reachable = examined.reachable.into_iter().chain(root);
        let mut found = store.check(reachable).map_err(to_story_error)?;
        found.extend(examined.findings.into_sentences());
        found.extend(store.cache().check().iter().map(ToString::to_string));
        Ok(found)
    }

    fn close(&self, mut database: StoryDatabase<S>, world: &StoryEnvironment) -> Result<(), StoryError> {
        let newest = world.ledger.newest();
        database.log_again(newest, world).map_err(to_story_error)?;
        let StoryDatabase {
            steps,
            sealed,
            load,
            snapshot,
            dictionary,
            home,
            ..
        } = database;
        drop((steps, sealed, load, snapshot, dictionary));
        let store = Arc::into_inner(home.store).expect("nothing else has the store");
        store.close().map_err(to_story_error)?;
        world.ledger.mark_durable(world.ledger.newest());
        Ok(())
    }
}
