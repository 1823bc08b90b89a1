//! The steps: each call does a slice of one, and any thread with time may call.

use super::Engine;
use super::policy::{self, Duty, Task, View};
use super::queue::Slot;
use super::records::Forgetting;
use crate::Result;
use crate::check::CheckReport;
use crate::progress::{Progress, Stage};
use alluvium_base::Sequence;
use alluvium_dictionary::read::Amount;
use alluvium_storage::extents::ReclaimLimit;
use alluvium_storage::log;
use alluvium_storage::superblock::format::{SLOT_BYTES, SLOTS};
use alluvium_trees::tiered::{self, Depth, Digesting, Incorporation, Job, Maintenance, Step};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Records of a slice: about a mebibyte of small ones, one to two milliseconds.
pub(crate) const SLICE: usize = 8 << 10;

/// Slices after which the compaction of a leaf is not waited for any longer.
const MOST_SLICES: usize = 100_000;

/// All live pages fit into the cache when they and this fraction of them do: pages that are not
/// needed any more take memory for a while.
const FIT_SLACK: u64 = 8;

/// A slice of a reclaim.
const RECLAIM: ReclaimLimit = ReclaimLimit {
    extents: 64,
    operations: 4,
};

/// Whether a call of [`Engine::work`] found anything to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worked {
    /// It did, and there may be more.
    Something,
    /// There is nothing to do now.
    Nothing,
}

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The memtable that is written out. Locked by who works on it.
    incorporation: Mutex<Option<WritingOut>>,
    /// Locked by who makes a checkpoint.
    checkpoint: Mutex<()>,
    /// What the newest checkpoint holds.
    covered: AtomicU64,
    /// Whether a checkpoint was asked for, though nothing else calls for it.
    checkpoint_is_wanted: AtomicBool,
    /// Compactions that no worker works on right now.
    parked: Mutex<Vec<Step>>,
    /// A digest that is being made. Locked by who works on it.
    digesting: Mutex<Option<Digesting>>,
    /// What maintenance may still write.
    maintenance: Mutex<Maintenance>,
    /// Every slice shares it; who must see the tree at rest has it alone.
    rest: RwLock<()>,
}

/// One memtable on its way into the tree.
#[derive(Debug)]
struct WritingOut {
    slot: Arc<Slot>,
    /// Done before the tree is told to publish (Y1).
    forgetting: Forgetting,
    incorporation: Incorporation,
}

impl Work {
    pub(crate) fn new(covered: u64) -> Work {
        Work {
            covered: AtomicU64::new(covered),
            ..Work::default()
        }
    }

    /// Taken by a thread for as long as it changes the tree.
    pub(crate) fn slice(&self) -> RwLockReadGuard<'_, ()> {
        self.rest.read()
    }

    /// Keeps the tree as it is, for that long.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(super) fn at_rest(&self) -> parking_lot::RwLockWriteGuard<'_, ()> {
        self.rest.write()
    }
}

impl Engine {
    /// A slice of the most urgent work.
    pub(crate) fn work(&self) -> Result<Worked> {
        self.guarded("work", || self.work_on())
    }

    fn work_on(&self) -> Result<Worked> {
        let prepared = self.prepare_log()?;
        let worked = match policy::next(&self.view()) {
            Task::Checkpoint => self.try_checkpoint()?,
            Task::Incorporate => self.incorporate_slice(SLICE)?,
            Task::Compact => self.compact_slice(SLICE)?,
        };
        if worked == Worked::Something || prepared == Worked::Something {
            return Ok(Worked::Something);
        }
        self.store.cache().tend();
        self.reclaim_slice()
    }

    /// A slice of what belongs to a duty.
    pub(crate) fn work_at(&self, duty: Duty) -> Result<Worked> {
        self.guarded("work", || self.work_on_duty(duty))
    }

    fn work_on_duty(&self, duty: Duty) -> Result<Worked> {
        match duty {
            Duty::Prepare => {
                let prepared = self.prepare_log()?;
                Ok(match self.queue.provide() {
                    true => Worked::Something,
                    false => prepared,
                })
            }
            Duty::Incorporate => {
                self.store.health()?;
                self.incorporate_slice(SLICE)
            }
            Duty::Checkpoint => {
                self.store.health()?;
                let worked = match policy::checkpoint_is_due(&self.view()) {
                    true => self.try_checkpoint()?,
                    false => Worked::Nothing,
                };
                // However much there is to compact: space that came free is what compactions write to next.
                Ok(match self.reclaim_slice()? {
                    Worked::Nothing => worked,
                    Worked::Something => Worked::Something,
                })
            }
            Duty::Compact => {
                self.store.health()?;
                let worked = self.compact_slice(SLICE)?;
                if worked == Worked::Something {
                    return Ok(worked);
                }
                self.store.cache().tend();
                Ok(Worked::Nothing)
            }
        }
    }

    /// Returns whether a memtable is being written out right now.
    pub(crate) fn is_incorporating(&self) -> bool {
        self.work.incorporation.is_locked()
    }

    /// Log for what is written next.
    fn prepare_log(&self) -> Result<Worked> {
        self.store.health()?;
        let prepared = self.store.judge(self.store.log().prepare())?;
        match self.fill_gaps() {
            // Other work may free what it needs.
            Err(error) if error.is_full() => {}
            other => other?,
        }
        Ok(match prepared {
            log::Progress::Worked => Worked::Something,
            log::Progress::Idle => Worked::Nothing,
        })
    }

    /// A slice of making space that died usable again.
    pub(super) fn reclaim_slice(&self) -> Result<Worked> {
        self.guarded("making space usable", || self.reclaim_some())
    }

    fn reclaim_some(&self) -> Result<Worked> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        let reclaimed = self.store.reclaim(RECLAIM)?;
        let some = reclaimed.freed_bytes > 0 || reclaimed.punched_bytes > 0 || reclaimed.truncated_bytes > 0;
        Ok(if some { Worked::Something } else { Worked::Nothing })
    }

    /// Everything that is wrong with what is on the disk, a sentence each. The background rests meanwhile; reads and writes go on.
    pub(crate) fn check(&self, depth: Depth, tell: &mut dyn FnMut(Progress)) -> Result<CheckReport> {
        let _at_rest = self.work.rest.write();
        let parked = self.work.parked.lock();
        let jobs: Vec<&Job> = parked
            .iter()
            .filter_map(|step| match step {
                Step::Compact(job) => Some(&**job),
                Step::Reshaped => None,
            })
            .collect();
        let findings = self.tree.check_with(depth, &jobs, &mut |checked| {
            tell(Progress::new(
                Stage::Checking,
                checked.done_bytes,
                checked.total_bytes,
            ));
            Ok(())
        })?;
        let map = self.store.superblock().map;
        let amount = |nodes, bytes| Amount { nodes, bytes };
        let (slots, slot_bytes) = (SLOTS as u64, SLOT_BYTES as u64);
        let files = [
            ("superblock", amount(slots, slots * slot_bytes)),
            ("extent map", amount(map.records.into(), map.length)),
            ("log", findings.read.log),
        ];
        Ok(CheckReport::new(findings, files))
    }

    fn view(&self) -> View {
        let oldest = self.queue.oldest_sealed();
        let ready = oldest.is_some_and(|slot| slot.cut() <= Some(self.visible.at()));
        let usage = self.store.log().usage();
        let space = self.store.usage().0.total();
        View {
            sealed: if ready { self.queue.sealed() } else { 0 },
            incorporating: self.work.incorporation.is_locked(),
            log_bytes: usage.live_bytes,
            log_limit: usage.limit_bytes,
            uncovered: self.outgrown_checkpoint().is_some(),
            wanted: self.work.checkpoint_is_wanted.load(Ordering::Relaxed),
            checkpointing: self.work.checkpoint.is_locked(),
            live_bytes: space.live_extent_bytes,
            dying_bytes: space.dying_bytes,
        }
    }

    /// Up to where the newest checkpoint holds everything, if the tree holds more.
    pub(crate) fn outgrown_checkpoint(&self) -> Option<Sequence> {
        let covered = self.work.covered.load(Ordering::Acquire);
        (self.tree.cut() > covered).then_some(covered)
    }

    /// Asks for a checkpoint, though the log may grow yet.
    pub(crate) fn want_checkpoint(&self) {
        self.work.checkpoint_is_wanted.store(true, Ordering::Relaxed);
        self.call_all();
    }

    /// Compactions that are due or under way.
    pub(crate) fn compactions(&self) -> usize {
        let debt = self.tree.debt();
        (debt.pending_jobs + debt.running_jobs) as usize
    }

    /// Versions that no snapshot and no later reader can tell apart may be folded from now on.
    pub(super) fn raise_horizon(&self) {
        self.close_left_snapshots();
        let horizon = self.tree.horizon();
        self.snapshots
            .raise(|| self.visible.at(), |open, now| horizon.raise_past(open, now));
        self.tree.horizon().tick(self.now_ms());
    }

    /// Writes a slice of the oldest sealed memtable out, unless another thread is at it.
    pub(crate) fn incorporate_slice(&self, records: usize) -> Result<Worked> {
        self.guarded("writing a memtable out", || self.incorporate_some(records))
    }

    fn incorporate_some(&self, records: usize) -> Result<Worked> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        let Some(mut under_way) = self.work.incorporation.try_lock() else {
            return Ok(Worked::Nothing);
        };
        if under_way.is_none() {
            let Some(slot) = self.queue.oldest_sealed() else {
                return Ok(Worked::Nothing);
            };
            let cut = slot.cut().expect("it is sealed");
            if cut > self.visible.at() {
                return Ok(Worked::Nothing);
            }
            self.raise_horizon();
            let class = self.pressure.class();
            let begun = self.tree.incorporate(Arc::clone(&slot.memtable), cut, class);
            let incorporation = begun?;
            let schema = &self.tree.options().schema;
            let forgetting = self.records.begin(&slot.memtable, cut, schema);
            *under_way = Some(WritingOut {
                slot,
                forgetting,
                incorporation,
            });
        }
        let _span = tracing::trace_span!("incorporate", records).entered();
        let step = under_way.as_mut().expect("it was just begun");
        if step.forgetting.poll(&self.records, records) == tiered::Progress::More {
            return Ok(Worked::Something);
        }
        match step.incorporation.poll(records) {
            Ok(tiered::Progress::More) => step.slot.note_written_out(step.incorporation.taken()),
            Ok(tiered::Progress::Done) => {
                let done = under_way.take().expect("it is under way");
                self.queue.remove(&done.slot);
                drop(under_way);
                drop(done);
                self.pressure.relieved();
                // A checkpoint may be due now, and who compacts may go on.
                self.pressure.call_all();
            }
            Err(error) => {
                // It starts again, and where it was the first to find that the disk is full, it has
                // the reserve.
                step.slot.note_written_out(0);
                *under_way = None;
                let was_full = self.pressure.is_full();
                self.pressure.note(&error);
                if was_full || !error.is_full() {
                    return Err(error.into());
                }
            }
        }
        Ok(Worked::Something)
    }

    /// Makes a checkpoint, unless another thread makes one.
    pub(crate) fn try_checkpoint(&self) -> Result<Worked> {
        let Some(_alone) = self.work.checkpoint.try_lock() else {
            return Ok(Worked::Nothing);
        };
        self.checkpoint_alone()?;
        Ok(Worked::Something)
    }

    fn checkpoint_alone(&self) -> Result<()> {
        self.guarded("a checkpoint", || self.make_checkpoint())
    }

    fn make_checkpoint(&self) -> Result<()> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        self.work.checkpoint_is_wanted.store(false, Ordering::Relaxed);
        let cut = self.tree.cut();
        let _span = tracing::debug_span!("checkpoint", cut).entered();
        self.tree.checkpoint()?;
        self.work.covered.fetch_max(cut, Ordering::AcqRel);
        self.tallies.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.pressure.relieved();
        Ok(())
    }

    /// What was acknowledged goes into the tree, and the tree to the disk.
    pub(crate) fn checkpoint_everything(&self) -> Result<()> {
        let cut = self.queue.seal();
        self.visible.wait_for(cut);
        while self.tree.cut() < cut {
            self.store.health()?;
            if self.incorporate_slice(usize::MAX)? == Worked::Nothing {
                // Another thread is at it.
                std::thread::yield_now();
            }
        }
        if self.work.covered.load(Ordering::Acquire) < cut {
            self.checkpoint_now()?;
        }
        Ok(())
    }

    /// A checkpoint, after the one that may be under way.
    pub(crate) fn checkpoint_now(&self) -> Result<()> {
        let _alone = self.work.checkpoint.lock();
        self.checkpoint_alone()
    }

    /// A slice of a digest, if lookups have paid for one.
    fn digest_slice(&self, entries: usize) -> Result<Worked> {
        let Some(mut under_way) = self.work.digesting.try_lock() else {
            return Ok(Worked::Nothing);
        };
        if under_way.is_none() {
            *under_way = self.tree.digest_due();
        }
        let Some(digesting) = under_way.as_mut() else {
            return Ok(Worked::Nothing);
        };
        let step = digesting.poll(entries);
        if !matches!(step, Ok(tiered::Progress::More)) {
            *under_way = None;
        }
        step?;
        Ok(Worked::Something)
    }

    /// A slice of a compaction, or of what makes one necessary; of what spares lookups more than it costs before.
    pub(crate) fn compact_slice(&self, records: usize) -> Result<Worked> {
        self.guarded("a compaction", || self.compact_some(records))
    }

    fn compact_some(&self, records: usize) -> Result<Worked> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        if self.digest_slice(records)? == Worked::Something {
            return Ok(Worked::Something);
        }
        self.tree.compact_from(self.pressure.class());
        let parked = self.work.parked.lock().pop();
        let step = match parked {
            Some(step) => Some(step),
            None => {
                self.raise_horizon();
                let step = self
                    .tree
                    .next_step()
                    .inspect_err(|error| self.pressure.note_compaction(error))?;
                // The caches make room before it begins.
                self.fit_memory()?;
                step
            }
        };
        let Some(mut step) = step else {
            return Ok(Worked::Nothing);
        };
        let _span = tracing::trace_span!("compact", records).entered();
        match step.poll(records) {
            Ok(tiered::Progress::More) => self.work.parked.lock().push(step),
            Ok(tiered::Progress::Done) => {}
            Err(error) => {
                self.pressure.note_compaction(&error);
                return Err(error.into());
            }
        }
        Ok(Worked::Something)
    }

    /// Makes one run of every leaf: old versions and what was deleted go, and filters are asked of everything.
    pub(crate) fn compact(&self) -> Result<()> {
        self.checkpoint_everything()?;
        let mut key = Vec::new();
        loop {
            self.raise_horizon();
            self.guarded("a compaction", || Ok(self.tree.compact_fully(&key)?))?;
            self.settle()?;
            match self.tree.leaf_range(&key).high {
                Some(high) => key = high.into_vec(),
                None => break,
            }
        }
        // What was replaced comes free.
        self.checkpoint_now()?;
        self.reclaim()
    }

    /// Makes all space that died usable again, as far as no reader needs it.
    pub(crate) fn reclaim(&self) -> Result<()> {
        while self.reclaim_slice()? == Worked::Something {}
        Ok(())
    }

    /// Does what compactions are due, or waits for who does; while writing goes on there may always be some, and it ends all the same.
    fn settle(&self) -> Result<()> {
        for _ in 0..MOST_SLICES {
            if self.compactions() == 0 {
                break;
            }
            if self.compact_slice(SLICE)? == Worked::Nothing {
                self.pressure.nap();
            }
        }
        Ok(())
    }

    /// Asks for the compaction that is worth most, as long as the budget lasts; whether one was asked for.
    pub(crate) fn maintain(&self, bytes: u64) -> Result<bool> {
        self.guarded("maintenance", || self.maintain_some(bytes))
    }

    fn maintain_some(&self, bytes: u64) -> Result<bool> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        let mut maintenance = self.work.maintenance.lock();
        maintenance.budget_bytes = maintenance.budget_bytes.saturating_add(bytes).min(1 << 40);
        self.raise_horizon();
        Ok(self.tree.maintain(&mut maintenance)?)
    }

    /// Whether all that is alive fits into the cache of pages: then what is written stays there, and more may be rewritten.
    pub(crate) fn note_fit(&self) -> bool {
        let live = self.store.usage().0.total().live_extent_bytes;
        let cache = self.store.cache();
        let fits = live + live / FIT_SLACK <= cache.stats().budget_bytes;
        cache.keep_written(fits);
        self.work.maintenance.lock().fits_cache = fits;
        fits
    }

    /// Gives up what is under way: it starts again at the next opening.
    pub(crate) fn drop_steps(&self) {
        *self.work.incorporation.lock() = None;
        *self.work.digesting.lock() = None;
        self.work.parked.lock().clear();
    }

    /// Frees space for one more commit of ordinary size in the log, by a checkpoint.
    pub(crate) fn make_log_room(&self) -> Result<()> {
        self.checkpoint_everything()
    }
}
