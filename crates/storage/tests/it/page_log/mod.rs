//! The page-and-log story: a key-value store built only from this crate, under the simulator.

mod bytes;
mod checkpoint;
mod flaw;
mod mini;

pub(crate) use flaw::Flaw;
pub(crate) use mini::Mini;

use alluvium_device::Directory;
use alluvium_sim::generate::{ActionMix, WorkloadAction};
use alluvium_sim::{
    ModelWrite, PrefixDirectory, PromisedDurability, RunStep, StoreContents, Story, StoryEnvironment,
    StoryError, StoryErrorKind,
};
use alluvium_storage::extents::{ExtentOptions, ReclaimLimit, UNIT};
use alluvium_storage::store::StoreOptions;
use alluvium_storage::{Error, TierDirectories, log};
use std::sync::Arc;

/// The story and its variations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLog {
    pub(crate) access: log::SegmentAccess,
    pub(crate) flaw: Flaw,
    /// Number of tiers: 1, or 2 if the leaves are on the second.
    pub(crate) tiers: u8,
}

/// Converts an error to the simulator's error type.
pub(crate) fn trouble(error: Error) -> StoryError {
    if error.failing_tier().is_some() {
        return StoryError::new(StoryErrorKind::Part, error);
    }
    StoryError::of(error.kind(), error)
}

impl PageLog {
    pub(crate) fn options(&self) -> StoreOptions {
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
                starts_small: false,
                stored_bytes: 0,
                limit_bytes: 48 << 10,
                segment_bytes: 4 << 10,
                reserve_bytes: 8 << 10,
                lanes: mini::LANES,
                access: self.access,
                identity: 7,
            },
            ..StoreOptions::default()
        }
    }

    /// Returns the directories of the tiers. If there are two, each is a part of the directory that
    /// crashes.
    fn directories(&self, directory: &Arc<dyn Directory>) -> TierDirectories {
        match self.tiers {
            1 => Arc::clone(directory).into(),
            _ => TierDirectories::from(Arc::new(PrefixDirectory::of(directory, "one.")))
                .and(Arc::new(PrefixDirectory::of(directory, "two."))),
        }
    }

    pub(crate) fn create_on(&self, directory: &Arc<dyn Directory>) -> Result<Mini, StoryError> {
        let directories = self.directories(directory);
        Mini::create(directories, &self.options(), self.flaw).map_err(trouble)
    }

    pub(crate) fn open_on(&self, directory: &Arc<dyn Directory>) -> Result<Mini, StoryError> {
        let directories = self.directories(directory);
        Mini::open(directories, &self.options(), self.flaw).map_err(trouble)
    }

    fn checkpoint(mini: &mut Mini, world: &StoryEnvironment) -> Result<(), StoryError> {
        mini.checkpoint(&world.coverage).map_err(trouble)?;
        world.ledger.mark_durable(world.ledger.newest());
        Ok(())
    }

    fn commit(
        mini: &mut Mini,
        writes: &[ModelWrite],
        durability: PromisedDurability,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError> {
        mini.settle().map_err(trouble)?;
        let ledger = &world.ledger;
        let number = ledger.begin(writes);
        let segments = mini.store.log().usage().segments;
        let mut result = mini.commit(writes, durability);
        if result.as_ref().is_err_and(Error::is_full) {
            // A checkpoint, which contains everything but this commit, releases log space.
            world.coverage.hit("log full");
            result = mini.checkpoint(&world.coverage).and_then(|()| {
                ledger.mark_durable(number - 1);
                mini.commit(writes, durability)
            });
        }
        if result.is_ok() {
            mini.count_segments(segments, &world.coverage);
        }
        ledger.answer(number, durability, result.map_err(trouble))
    }

    /// Performs the halves of a batch as two concurrent commits.
    fn commit_two(
        mini: &mut Mini,
        writes: [&[ModelWrite]; 2],
        durability: PromisedDurability,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError> {
        mini.settle().map_err(trouble)?;
        let numbers = writes.map(|writes| world.ledger.begin(writes));
        let segments = mini.store.log().usage().segments;
        let result = mini.commit_two(writes, durability);
        mini.count_segments(segments, &world.coverage);
        for (at, number) in numbers.into_iter().enumerate() {
            if matches!(result, Ok(held) if held[at]) {
                world.ledger.acknowledge(number, durability);
            } else {
                world.ledger.doubt(number);
            }
        }
        world.coverage.hit("two commits at once");
        result.map(|_| ()).map_err(trouble)
    }

    fn background(mini: &mut Mini, choice: u32, world: &StoryEnvironment) -> Result<(), StoryError> {
        match choice % 8 {
            0..5 => {
                let limit = ReclaimLimit {
                    extents: 64,
                    operations: 2,
                };
                let reclaimed = mini.store.reclaim(limit).map_err(trouble)?;
                world
                    .coverage
                    .add("punched", u64::from(reclaimed.punched_bytes > 0));
                world
                    .coverage
                    .add("truncated", u64::from(reclaimed.truncated_bytes > 0));
            }
            5..7 => {
                let result = mini.store.log().prepare();
                mini.store.poison_on_error(result).map_err(trouble)?;
            }
            _ => world
                .coverage
                .add("snapshot read to its end", u64::from(mini.toggle_snapshot()?)),
        }
        Ok(())
    }
}

impl Story for PageLog {
    type Action = WorkloadAction;
    type System = Mini;

    fn name(&self) -> &'static str {
        match (self.access, self.tiers) {
            (_, 2) => "page-log-on-two-tiers",
            (log::SegmentAccess::Mapped, _) => "page-log-mapped",
            (log::SegmentAccess::Written, _) => "page-log-written",
        }
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<WorkloadAction>> {
        let mix = ActionMix {
            checkpoint: 10,
            background: 20,
            circles: [6, 40, 2000],
            large_every: 60,
            value_len: 0..=400,
            ..ActionMix::default()
        };
        mix.steps(seed, count)
    }

    fn create(&self, world: &StoryEnvironment) -> Result<Mini, StoryError> {
        self.create_on(&world.directory)
    }

    fn open(&self, world: &StoryEnvironment) -> Result<Mini, StoryError> {
        self.open_on(&world.directory)
    }

    fn apply(
        &self,
        mini: &mut Mini,
        action: &WorkloadAction,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError> {
        match action {
            // A commit that waits for the disk also waits for all earlier ones, so it cannot be
            // written first.
            WorkloadAction::Commit { writes, durability }
                if writes.len() > 4 && *durability < PromisedDurability::Disk =>
            {
                let (first, second) = writes.split_at(writes.len() / 2);
                Self::commit_two(mini, [first, second], *durability, world)
            }
            WorkloadAction::Commit { writes, durability } => Self::commit(mini, writes, *durability, world),
            WorkloadAction::Sync => {
                mini.settle().map_err(trouble)?;
                let result = mini.store.log().sync_all();
                let synced = mini.store.poison_on_error(result).map_err(trouble)?;
                assert_eq!(synced, mini.last(), "everything is complete");
                world.ledger.mark_durable(world.ledger.newest());
                Ok(())
            }
            WorkloadAction::Checkpoint => Self::checkpoint(mini, world),
            WorkloadAction::Background(choice) => Self::background(mini, *choice, world),
            WorkloadAction::Get(key) => {
                let value = mini.get(key).map_err(trouble)?;
                world.ledger.expect(key, value.as_deref())
            }
        }
    }

    fn contents(&self, mini: &mut Mini) -> Result<StoreContents, StoryError> {
        mini.contents()
    }

    fn check(&self, mini: &mut Mini) -> Result<Vec<String>, StoryError> {
        let mut found = mini.store.check(mini.reachable().into_iter()).map_err(trouble)?;
        found.extend(mini.store.cache().check().iter().map(ToString::to_string));
        Ok(found)
    }

    fn close(&self, mini: Mini, world: &StoryEnvironment) -> Result<(), StoryError> {
        let Mini { store, snapshots, .. } = mini;
        drop(snapshots);
        store.close().map_err(trouble)?;
        world.ledger.mark_durable(world.ledger.newest());
        Ok(())
    }
}
