//! Work in the background: incorporation, compaction, maintenance, checkpoints, space. Each by
//! slices, each interrupted at will.

use super::db::{Db, Pairs, Sealed, Snapshot};
use super::flaw::Flaw;
use super::trouble;
use crate::alone::Alone;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::generate::value;
use alluvium_sim::{Trouble, World};
use alluvium_storage::Result;
use alluvium_storage::extents::{Class, ReclaimLimit};
use alluvium_trees::tiered::{Edge, Job, Maintenance, Progress, Step};
use std::sync::Arc;

/// A slice of a reclaim.
const RECLAIM: ReclaimLimit = ReclaimLimit {
    extents: 64,
    operations: 2,
};

/// Steps of a quiet hour.
const QUIET: usize = 40;

/// Records of a slice when the caller waits for the end.
const ALL: usize = 100_000;

impl Db {
    /// What the store is in the middle of, between two actions or within one.
    pub(super) fn amid(&self, world: &World, what: Option<&'static str>) {
        let between = self
            .steps
            .iter()
            .flatten()
            .next()
            .map(|_| "crash between slices of a compaction");
        world.ledger.amid(what.or(between));
    }

    /// Before a commit: a memtable that is full is sealed.
    pub(super) fn make_room(&mut self, world: &World) -> Result<()> {
        if self.filled < self.tree.options().shape.memtable {
            return Ok(());
        }
        self.seal(world)
    }

    /// The memtable takes no more; the one that was sealed before is written out first.
    pub(super) fn seal(&mut self, world: &World) -> Result<()> {
        if self.flaw == Flaw::DropsTheMemtable {
            self.sealed = None;
        }
        self.finish_incorporation(world)?;
        let cut = self.last();
        if cut > self.tree.cut() {
            let fresh = Arc::new(Memtable::new(self.memtable.limit()));
            self.sealed = Some(Sealed {
                memtable: std::mem::replace(&mut self.memtable, fresh),
                base: std::mem::replace(&mut self.base, cut),
                cut,
                writing: None,
            });
            self.filled = 0;
        }
        self.restack();
        Ok(())
    }

    pub(super) fn finish_incorporation(&mut self, world: &World) -> Result<()> {
        while self.sealed.is_some() {
            self.poll_incorporation(ALL, world)?;
        }
        Ok(())
    }

    /// Versions that neither the snapshot nor a later reader can tell apart are folded.
    fn raise_horizon(&self) {
        let snapshot = self.snapshot.as_ref().map(|snapshot| snapshot.at);
        self.tree.horizon().raise_past(snapshot, self.last());
    }

    /// A slice of writing out the sealed memtable.
    pub(super) fn poll_incorporation(&mut self, records: usize, world: &World) -> Result<()> {
        self.raise_horizon();
        self.amid(world, Some("crash in an incorporation"));
        let cut_of = |cut| match self.flaw {
            Flaw::CutsTooHigh => cut + 1,
            Flaw::CutsTooLow => cut - 1,
            _ => cut,
        };
        let Some(sealed) = &mut self.sealed else {
            return Ok(());
        };
        let writing = match &mut sealed.writing {
            Some(writing) => writing,
            none => {
                let memtable = Arc::clone(&sealed.memtable);
                none.insert(
                    self.tree
                        .incorporate(memtable, cut_of(sealed.cut), Class::Normal)?,
                )
            }
        };
        match writing.poll(records) {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => {
                // The list goes on naming it until the next one is sealed: readers know that it is
                // in the tree.
                self.sealed = None;
            }
            Err(error) => {
                sealed.writing = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// A slice of one of two steps.
    fn poll_step(&mut self, which: usize, records: usize, world: &World) -> Result<()> {
        self.raise_horizon();
        self.amid(world, Some("crash in a compaction"));
        if self.steps[which].is_none() {
            self.steps[which] = self.tree.next_step()?;
        }
        let Some(step) = &mut self.steps[which] else {
            return Ok(());
        };
        match step.poll(records) {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => self.steps[which] = None,
            Err(error) => {
                self.steps[which] = None;
                return Err(error);
            }
        }
        if self.flaw == Flaw::ReusesEarly && self.steps[which].is_none() {
            let building = self.store().begin_checkpoint()?.generation();
            self.store().extents().made_durable(building);
            for _ in 0..3 {
                self.store().reclaim(ReclaimLimit::default())?;
            }
        }
        Ok(())
    }

    /// Makes a generation durable. When `sealing`, it holds every commit, and `covered` says the
    /// number of the newest.
    pub(super) fn checkpoint(&mut self, sealing: bool, covered: usize, world: &World) -> Result<()> {
        if sealing {
            self.seal(world)?;
            self.finish_incorporation(world)?;
        }
        let cut = self.tree.cut();
        if self.flaw == Flaw::ReleasesTheLogFirst {
            self.store().log().release(cut)?;
        }
        let after_an_ingest = self.is_unlogged;
        self.amid(
            world,
            Some(if after_an_ingest {
                "crash behind an ingest"
            } else {
                "crash in a checkpoint"
            }),
        );
        self.tree.checkpoint()?;
        self.is_unlogged = false;
        world.coverage.hit("checkpoint");
        if sealing {
            world.ledger.cover(covered);
        } else if let Some((_, number)) = self.commits.iter().rfind(|(last, _)| *last <= cut) {
            world.ledger.cover(*number);
            world.coverage.hit("checkpoint below the memtables");
        }
        Ok(())
    }

    pub(super) fn background(&mut self, choice: u32, world: &World) -> std::result::Result<(), Trouble> {
        let records = 1 + (choice >> 8) as usize % 160;
        self.read_on(records / 8)?;
        match choice % 26 {
            0..11 => self.poll_step((choice >> 6) as usize % 2, records, world),
            11..15 => self.poll_incorporation(records, world),
            15..18 => self.reclaim(world),
            18 => {
                let result = self.store().log().prepare();
                self.store().judge(result).map(|_| ())
            }
            19 => {
                let mut maintenance = Maintenance {
                    budget_bytes: 1 << 20,
                    fits_cache: false,
                };
                self.tree.maintain(&mut maintenance).map(|asked| {
                    world.coverage.add("maintenance asked for", u64::from(asked));
                })
            }
            20 => {
                let key = value(u64::from(choice), b"key", 2);
                let key = format!("wide/{:02x}", key.first().copied().unwrap_or(0));
                self.tree.compact_fully(key.as_bytes())
            }
            21 => {
                let covered = world.ledger.newest();
                self.checkpoint(false, covered, world)
            }
            22 => self.rest(world),
            23 | 24 => return self.ingest(choice, world),
            _ => return self.toggle_snapshot(world),
        }
        .map_err(trouble)
    }

    /// A quiet hour: what is due is done, and what maintenance thinks worth it, up to a number of
    /// steps.
    fn rest(&mut self, world: &World) -> Result<()> {
        let mut maintenance = Maintenance {
            budget_bytes: 1 << 20,
            fits_cache: false,
        };
        for turn in 0..QUIET {
            self.poll_step(turn % 2, ALL, world)?;
            if self.steps.iter().all(Option::is_none)
                && !self.tree.is_busy()
                && !self.tree.maintain(&mut maintenance)?
            {
                // Nothing is due but, perhaps, a merge of neighbours.
                self.poll_step(0, ALL, world)?;
            }
        }
        Ok(())
    }

    fn reclaim(&mut self, world: &World) -> Result<()> {
        let reclaimed = self.store().reclaim(RECLAIM)?;
        self.space.taken = self.space.taken.saturating_sub(reclaimed.freed_bytes);
        let coverage = &world.coverage;
        coverage.add("extents freed", u64::from(reclaimed.freed_bytes > 0));
        coverage.add("punched", u64::from(reclaimed.punched_bytes > 0));
        coverage.add("truncated", u64::from(reclaimed.truncated_bytes > 0));
        Ok(())
    }

    /// Begins or ends a read of the present state: it must find the state unchanged.
    fn toggle_snapshot(&mut self, world: &World) -> std::result::Result<(), Trouble> {
        let everything = KeyRange::everything();
        if self.snapshot.is_none() {
            let at = self.last();
            let pairs = self.scan(&everything).map_err(trouble)?;
            self.snapshot = Some(Snapshot {
                at,
                pairs: pairs.map_err(Trouble::wrong)?,
                iter: self.iter(&everything, Direction::Forward, at),
                read: Pairs::new(),
            });
            return Ok(());
        }
        self.read_on(usize::MAX)?;
        let snapshot = self.snapshot.take().expect("there is one");
        if snapshot.read == snapshot.pairs {
            world.coverage.hit("snapshot read to its end");
            return Ok(());
        }
        Err(Trouble::wrong(
            "a snapshot reads otherwise than when it was taken",
        ))
    }

    /// Reads some records more of a snapshot.
    fn read_on(&mut self, records: usize) -> std::result::Result<(), Trouble> {
        let Some(snapshot) = &mut self.snapshot else {
            return Ok(());
        };
        for _ in 0..records {
            let Some((key, value)) = snapshot.iter.next().map_err(trouble)? else {
                break;
            };
            snapshot.read.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    /// The compactions under way.
    pub(super) fn jobs(&self) -> Vec<&Job> {
        let jobs = self.steps.iter().flatten().filter_map(|step| match step {
            Step::Compact(job) => Some(&**job),
            Step::Reshaped => None,
        });
        jobs.collect()
    }

    /// After an action: counts what the tree did, and says what is still under way.
    pub(super) fn count(&mut self, world: &World) {
        self.amid(world, None);
        let (now, coverage) = (self.tree.stats(), &world.coverage);
        let (old, new) = (&self.seen.shape, &now.shape);
        coverage.add("flush", new.flushes - old.flushes);
        coverage.add("leaf split", new.leaf_splits - old.leaf_splits);
        coverage.add("index split", new.index_splits - old.index_splits);
        coverage.add("merge of nodes", new.merges - old.merges);
        coverage.add("bundle adopted unread", new.adoptions - old.adoptions);
        coverage.add("leaf taken over", now.adopted.0 - self.seen.adopted.0);
        coverage.add("new root", new.growths - old.growths);
        coverage.add("root gone", new.collapses - old.collapses);
        coverage.add("incorporation", now.incorporations - self.seen.incorporations);
        for (edge, name) in [
            (Edge::Installed, "compaction installed"),
            (Edge::RunningFlushed, "running compaction overtaken by a flush"),
            (
                Edge::RunningReshaped,
                "running compaction overtaken by a reshaping",
            ),
        ] {
            let count = |stats: &alluvium_trees::tiered::Stats| stats.edges.get(&edge).copied().unwrap_or(0);
            coverage.add(name, count(&now) - count(&self.seen));
        }
        self.seen = now;
        self.count_space(world);
    }

    /// Counts space that is taken. Once it exceeds what the files ever held, some was used again.
    fn count_space(&mut self, world: &World) {
        let usage = self.store().usage().0.total();
        let taken = usage.live_extent_bytes + usage.provisional_bytes + usage.dead_bytes;
        let space = &mut self.space;
        let more = taken.saturating_sub(space.taken);
        let again = |ever: u64, file: u64| ever.saturating_sub(file);
        let before = again(space.ever, space.file.max(usage.file_bytes));
        space.file = space.file.max(usage.file_bytes);
        space.ever += more;
        space.taken = taken;
        world
            .coverage
            .add("extent reuse", u64::from(again(space.ever, space.file) > before));
    }
}
