//! Background work of the small database: flushes, maintenance, checkpoints and space reclamation.
//! All of it runs in slices and can be interrupted after any slice.

use crate::database::{KeyValuePairs, SealedMemtable, SlowReader, StoryDatabase};
use crate::flaw::CallerFlaw;
use crate::story::to_story_error;
use crate::subject::StructureSubject;
use alluvium_dictionary::contract::{Dictionary as _, StepProgress};
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::generate::value;
use alluvium_sim::{StoryEnvironment, StoryError};
use alluvium_storage::Result;
use alluvium_storage::extents::{AllocationClass, ReclaimLimit};
use std::sync::Arc;

/// Limits of the work in one slice of space reclamation.
const RECLAIM: ReclaimLimit = ReclaimLimit {
    extents: 64,
    operations: 2,
};
/// Maximum number of maintenance steps that [`StoryDatabase::rest`] executes.
const QUIET: usize = 40;
/// Number of records per slice when the caller waits for the work to complete.
const ALL: usize = 100_000;

impl<S: StructureSubject> StoryDatabase<S> {
    /// Tells the ledger which activity the store is executing. `None` means no activity, except
    /// perhaps maintenance between two slices.
    pub(crate) fn enter(&self, world: &StoryEnvironment, what: Option<&'static str>) {
        let is_maintaining = self.steps.iter().any(Option::is_some);
        let between = is_maintaining.then_some("crash between slices of maintenance");
        world.ledger.set_activity(what.or(between));
    }

    /// Seals the memtable if it has reached its size limit.
    pub(crate) fn seal_full(&mut self, world: &StoryEnvironment) -> Result<()> {
        if self.filled < self.subject.layout().memtable_bytes {
            return Ok(());
        }
        self.seal(world)
    }

    /// Seals the memtable. If the flush of the previously sealed memtable is incomplete, finishes
    /// it first.
    pub(crate) fn seal(&mut self, world: &StoryEnvironment) -> Result<()> {
        if self.flaw == CallerFlaw::DropsTheMemtable {
            self.sealed = None;
        }
        self.finish_incorporation(world)?;
        let cut = self.last();
        if cut > self.dictionary.cut() {
            let fresh = Arc::new(Memtable::new(self.memtable.limit()));
            self.sealed = Some(SealedMemtable {
                memtable: std::mem::replace(&mut self.memtable, fresh),
                base: std::mem::replace(&mut self.base, cut),
                cut,
                incorporation: None,
            });
            self.filled = 0;
        }
        self.publish_memtables();
        Ok(())
    }

    pub(crate) fn finish_incorporation(&mut self, world: &StoryEnvironment) -> Result<()> {
        while self.sealed.is_some() {
            self.poll_incorporation(ALL, world)?;
        }
        Ok(())
    }

    /// Allows maintenance to merge versions that neither the open snapshot nor a future reader can
    /// distinguish.
    fn raise_horizon(&self) {
        let snapshot = self.snapshot.as_ref().map(|snapshot| snapshot.at);
        self.home.horizon.raise_past(snapshot, self.last());
    }

    /// Runs one slice of the flush of the sealed memtable.
    fn poll_incorporation(&mut self, records: usize, world: &StoryEnvironment) -> Result<()> {
        self.raise_horizon();
        self.enter(world, Some("crash in an incorporation"));
        let Some(sealed) = &mut self.sealed else {
            return Ok(());
        };
        let incorporation = match &mut sealed.incorporation {
            Some(incorporation) => incorporation,
            none => {
                let cut = match self.flaw {
                    CallerFlaw::CutsTooHigh => sealed.cut + 1,
                    CallerFlaw::CutsTooLow => sealed.cut - 1,
                    _ => sealed.cut,
                };
                let share = MemtableSlice::whole(Arc::clone(&sealed.memtable), cut);
                none.insert(self.dictionary.incorporate(share, AllocationClass::Normal)?)
            }
        };
        let result = incorporation.poll(records).and_then(|progress| match progress {
            StepProgress::More => Ok(false),
            StepProgress::Done => incorporation.publish().map(|()| true),
        });
        match result {
            // The stack keeps the flushed memtable until the next one is sealed. Readers notice
            // that the structure already contains its records.
            Ok(true) => {
                self.sealed = None;
                world.coverage.hit("incorporation");
            }
            Ok(false) => {}
            Err(error) => {
                sealed.incorporation = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs one slice of one of the two concurrent maintenance steps.
    fn poll_step(&mut self, which: usize, records: usize, world: &StoryEnvironment) -> Result<()> {
        self.raise_horizon();
        self.enter(world, Some("crash in maintenance"));
        if self.steps[which].is_none() {
            self.steps[which] = self.dictionary.next_step()?;
        }
        let Some(step) = &mut self.steps[which] else {
            return Ok(());
        };
        match step.poll(records) {
            Ok(StepProgress::More) => {}
            Ok(StepProgress::Done) => {
                self.steps[which] = None;
                self.has_maintained = true;
                world.coverage.hit("maintenance");
            }
            Err(error) => {
                self.steps[which] = None;
                return Err(error);
            }
        }
        if self.flaw == CallerFlaw::ReusesEarly && self.steps[which].is_none() {
            let building = self.store().begin_checkpoint()?.generation();
            self.store().extents().made_durable(building);
            for _ in 0..3 {
                self.store().reclaim(ReclaimLimit::default())?;
            }
        }
        Ok(())
    }

    /// Makes a generation of the store durable. If `sealing` is true, the generation contains every
    /// commit, and `covered` is the number of the newest commit in the ledger.
    pub(crate) fn checkpoint(
        &mut self,
        sealing: bool,
        covered: usize,
        world: &StoryEnvironment,
    ) -> Result<()> {
        if sealing {
            self.seal(world)?;
            self.finish_incorporation(world)?;
        }
        let at = self.dictionary.cut();
        if self.flaw == CallerFlaw::ReleasesTheLogFirst {
            self.store().log().release(at)?;
        }
        let what = match self.is_unlogged {
            true => "crash behind an ingest",
            false => "crash in a checkpoint",
        };
        self.enter(world, Some(what));
        let store = Arc::clone(&self.home.store);
        self.dictionary.prepare()?;
        let cut = self.dictionary.checkpoint_root()?;
        let (root, at) = (cut.root.clone(), cut.at);
        let payload = self.root.keep(&store, &root)?;
        let begun = store.begin_checkpoint()?;
        drop(cut);
        begun.finish(&payload, at)?;
        self.root.durable = Some(root);
        self.is_unlogged = false;
        world.coverage.hit("checkpoint");
        if sealing {
            world.ledger.mark_durable(covered);
        } else if let Some((_, number)) = self.commits.iter().rfind(|(last, _)| *last <= at) {
            world.ledger.mark_durable(*number);
            world.coverage.hit("checkpoint below the memtables");
        }
        Ok(())
    }

    pub(crate) fn background(
        &mut self,
        choice: u32,
        world: &StoryEnvironment,
    ) -> std::result::Result<(), StoryError> {
        let records = 1 + (choice >> 8) as usize % 160;
        self.read_on(records / 8)?;
        match choice % 28 {
            0..11 => self.poll_step((choice >> 6) as usize % 2, records, world),
            11..15 => self.poll_incorporation(records, world),
            15..18 => self.reclaim(world),
            18 => {
                let result = self.store().log().prepare();
                self.store().poison_on_error(result).map(drop)
            }
            19 => {
                self.steps[(choice >> 6) as usize % 2] = None;
                Ok(())
            }
            20 => self.request_maintenance(world).map(drop),
            21 => {
                let byte = value(u64::from(choice), b"key", 1)[0];
                self.dictionary
                    .compact_part(format!("wide/{byte:02x}").as_bytes())
            }
            22 => self.checkpoint(false, world.ledger.newest(), world),
            23 => self.rest(world),
            24 | 25 => return self.load_more(choice, world),
            _ => return self.toggle_snapshot(world),
        }
        .map_err(to_story_error)
    }

    fn request_maintenance(&self, world: &StoryEnvironment) -> Result<bool> {
        let is_asked = self.subject.request_maintenance(&self.dictionary)?;
        world.coverage.add("maintenance asked for", u64::from(is_asked));
        Ok(is_asked)
    }

    /// Runs all maintenance that is due, and then a limited number of steps that the structure
    /// considers worthwhile.
    fn rest(&mut self, world: &StoryEnvironment) -> Result<()> {
        for turn in 0..QUIET {
            self.poll_step(turn % 2, ALL, world)?;
            if self.steps.iter().all(Option::is_none) && !self.request_maintenance(world)? {
                // No maintenance is due, apart from work that a step may discover only when it
                // begins.
                self.poll_step(0, ALL, world)?;
            }
        }
        Ok(())
    }

    fn reclaim(&mut self, world: &StoryEnvironment) -> Result<()> {
        let reclaimed = self.store().reclaim(RECLAIM)?;
        self.space.taken = self.space.taken.saturating_sub(reclaimed.freed_bytes);
        let coverage = &world.coverage;
        coverage.add("extents freed", u64::from(reclaimed.freed_bytes > 0));
        coverage.add("punched", u64::from(reclaimed.punched_bytes > 0));
        coverage.add("truncated", u64::from(reclaimed.truncated_bytes > 0));
        Ok(())
    }

    /// Opens a snapshot of the current state, or closes the open one. Before closing, checks with
    /// both the open scan and a new one that the snapshot is unchanged.
    fn toggle_snapshot(&mut self, world: &StoryEnvironment) -> std::result::Result<(), StoryError> {
        let everything = KeyRange::everything();
        if self.snapshot.is_none() {
            let at = self.last();
            let pairs = self.walk_each_way(&everything).map_err(to_story_error)?;
            self.snapshot = Some(SlowReader {
                at,
                pairs: pairs.map_err(StoryError::wrong)?,
                scan: self.scan(&everything, MergeDirection::Forward, at),
                read: KeyValuePairs::new(),
            });
            return Ok(());
        }
        self.read_on(usize::MAX)?;
        let snapshot = self.snapshot.take().expect("there is one");
        let directions = self.subject.directions();
        let direction = directions[directions.len() - 1];
        let again = self
            .walk(&everything, direction, snapshot.at)
            .map_err(to_story_error)?;
        let again = again.map_err(StoryError::wrong)?;
        if snapshot.read == snapshot.pairs && again == snapshot.pairs {
            world.coverage.hit("snapshot read to its end");
            return Ok(());
        }
        Err(StoryError::wrong(
            "a snapshot reads otherwise than when it was taken",
        ))
    }

    /// Reads up to `records` more records from the snapshot's open scan.
    fn read_on(&mut self, records: usize) -> std::result::Result<(), StoryError> {
        let Some(snapshot) = &mut self.snapshot else {
            return Ok(());
        };
        for _ in 0..records {
            let Some((key, value)) = snapshot.scan.next().map_err(to_story_error)? else {
                break;
            };
            snapshot.read.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    /// Adds the work that the structure did during an action to the coverage counters, and tells
    /// the ledger which activity is still in progress.
    pub(crate) fn count(&mut self, world: &StoryEnvironment) {
        self.enter(world, None);
        let figures = self.subject.figures(&self.dictionary);
        for ((name, now), (_, before)) in figures.iter().zip(&self.figures) {
            world.coverage.add(name, now - before);
        }
        self.figures = figures;
        if std::mem::take(&mut self.has_maintained) {
            for situation in self.subject.situations(&self.dictionary) {
                world.coverage.hit(situation);
            }
            let usage = self.store().extents().usage();
            let is_used = usage.tiers.get(1).is_some_and(|tier| tier.live_bytes > 0);
            world
                .coverage
                .add("written to the second tier", u64::from(is_used));
        }
        self.count_space(world);
    }

    /// Adds up the allocated space. If the total exceeds the largest size that the files ever had,
    /// some space must have been reused.
    fn count_space(&mut self, world: &StoryEnvironment) {
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
