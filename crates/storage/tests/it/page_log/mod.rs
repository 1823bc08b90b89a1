//! The page-and-log story: a key-value store built only from this crate, under the simulator.

mod bytes;
mod checkpoint;
mod flaw;
mod mini;

pub(crate) use flaw::Flaw;
pub(crate) use mini::Mini;

use alluvium_device::Directory;
use alluvium_sim::generate::{Action, Mix};
use alluvium_sim::{Cause, Contents, Durability, Part, Step, Story, Trouble, World, Write};
use alluvium_storage::extents::{ExtentOptions, ReclaimLimit, UNIT};
use alluvium_storage::store::StoreOptions;
use alluvium_storage::{Directories, Error, log};
use std::sync::Arc;

/// The story and its variations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLog {
    pub(crate) access: log::Access,
    pub(crate) flaw: Flaw,
    /// Number of tiers: 1, or 2 with the leaves on the second.
    pub(crate) tiers: u8,
}

/// Converts an error to the form in which the simulator's caller sees it.
pub(crate) fn trouble(error: Error) -> Trouble {
    if error.failing_tier().is_some() {
        return Trouble::new(Cause::Part, error);
    }
    Trouble::of(error.kind(), error)
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

    /// Returns the directories of the tiers. With two tiers, each is a part of the directory that
    /// crashes.
    fn directories(&self, directory: &Arc<dyn Directory>) -> Directories {
        match self.tiers {
            1 => Arc::clone(directory).into(),
            _ => Directories::from(Arc::new(Part::of(directory, "one.")))
                .and(Arc::new(Part::of(directory, "two."))),
        }
    }

    pub(crate) fn create_on(&self, directory: &Arc<dyn Directory>) -> Result<Mini, Trouble> {
        let directories = self.directories(directory);
        Mini::create(directories, &self.options(), self.flaw).map_err(trouble)
    }

    pub(crate) fn open_on(&self, directory: &Arc<dyn Directory>) -> Result<Mini, Trouble> {
        let directories = self.directories(directory);
        Mini::open(directories, &self.options(), self.flaw).map_err(trouble)
    }

    fn checkpoint(mini: &mut Mini, world: &World) -> Result<(), Trouble> {
        mini.checkpoint(&world.coverage).map_err(trouble)?;
        world.ledger.cover(world.ledger.newest());
        Ok(())
    }

    fn commit(
        mini: &mut Mini,
        writes: &[Write],
        durability: Durability,
        world: &World,
    ) -> Result<(), Trouble> {
        mini.settle().map_err(trouble)?;
        let ledger = &world.ledger;
        let number = ledger.begin(writes);
        let segments = mini.store.log().usage().segments;
        let mut result = mini.commit(writes, durability);
        if result.as_ref().is_err_and(Error::is_full) {
            // A checkpoint releases log space. It contains everything but this commit.
            world.coverage.hit("log full");
            result = mini.checkpoint(&world.coverage).and_then(|()| {
                ledger.cover(number - 1);
                mini.commit(writes, durability)
            });
        }
        if result.is_ok() {
            mini.count_segments(segments, &world.coverage);
        }
        ledger.answer(number, durability, result.map_err(trouble))
    }

    /// Performs two concurrent commits: the halves of a batch.
    fn commit_two(
        mini: &mut Mini,
        writes: [&[Write]; 2],
        durability: Durability,
        world: &World,
    ) -> Result<(), Trouble> {
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

    fn background(mini: &mut Mini, choice: u32, world: &World) -> Result<(), Trouble> {
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
                mini.store.judge(result).map_err(trouble)?;
            }
            _ => world
                .coverage
                .add("snapshot read to its end", u64::from(mini.toggle_snapshot()?)),
        }
        Ok(())
    }
}

impl Story for PageLog {
    type Action = Action;
    type System = Mini;

    fn name(&self) -> &'static str {
        match (self.access, self.tiers) {
            (_, 2) => "page-log-on-two-tiers",
            (log::Access::Mapped, _) => "page-log-mapped",
            (log::Access::Written, _) => "page-log-written",
        }
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<Step<Action>> {
        let mix = Mix {
            checkpoint: 10,
            background: 20,
            circles: [6, 40, 2000],
            large_every: 60,
            value_len: 0..=400,
            ..Mix::default()
        };
        mix.steps(seed, count)
    }

    fn create(&self, world: &World) -> Result<Mini, Trouble> {
        self.create_on(&world.directory)
    }

    fn open(&self, world: &World) -> Result<Mini, Trouble> {
        self.open_on(&world.directory)
    }

    fn apply(&self, mini: &mut Mini, action: &Action, world: &World) -> Result<(), Trouble> {
        match action {
            // A commit that waits for the disk also waits for all earlier ones, so it cannot be
            // written first.
            Action::Commit { writes, durability } if writes.len() > 4 && *durability < Durability::Disk => {
                let (first, second) = writes.split_at(writes.len() / 2);
                Self::commit_two(mini, [first, second], *durability, world)
            }
            Action::Commit { writes, durability } => Self::commit(mini, writes, *durability, world),
            Action::Sync => {
                mini.settle().map_err(trouble)?;
                let result = mini.store.log().sync_all();
                let synced = mini.store.judge(result).map_err(trouble)?;
                assert_eq!(synced, mini.last(), "everything is complete");
                world.ledger.cover(world.ledger.newest());
                Ok(())
            }
            Action::Checkpoint => Self::checkpoint(mini, world),
            Action::Background(choice) => Self::background(mini, *choice, world),
            Action::Get(key) => {
                let value = mini.get(key).map_err(trouble)?;
                world.ledger.expect(key, value.as_deref())
            }
        }
    }

    fn contents(&self, mini: &mut Mini) -> Result<Contents, Trouble> {
        mini.contents()
    }

    fn check(&self, mini: &mut Mini) -> Result<Vec<String>, Trouble> {
        let mut found = mini.store.check(mini.reachable().into_iter()).map_err(trouble)?;
        found.extend(mini.store.cache().check().iter().map(ToString::to_string));
        Ok(found)
    }

    fn close(&self, mini: Mini, world: &World) -> Result<(), Trouble> {
        let Mini { store, snapshots, .. } = mini;
        drop(snapshots);
        store.close().map_err(trouble)?;
        world.ledger.cover(world.ledger.newest());
        Ok(())
    }
}
