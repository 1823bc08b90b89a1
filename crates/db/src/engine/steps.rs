//! Steps of background work. Each call runs one slice of a step, on any thread that has time for
//! it.

use super::Engine;
use super::compaction_backoff::CompactionBackoff;
use super::compaction_turns::CompactionTurns;
use super::policy::{self, BackgroundTask, SchedulingInput, WorkerDuty};
use super::queue::MemtableSlot;
use super::record_cache::CacheInvalidation;
use super::structures::DictionaryFlush;
use crate::engine::check::CheckReport;
use crate::engine::lost_commits::LostCommits;
use crate::engine::progress::{self, ProgressStage};
use crate::error::Result;
use crate::options::kind::DictionaryPlace;
use crate::schema::manifest::{self, Manifest};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::check_report::{CheckFindings, CheckLevel, CheckProgress};
use alluvium_dictionary::contract::{MaintenanceStep, StepProgress};
use alluvium_dictionary::read::{DataFiles, NodeTotals};
use alluvium_storage::extents::{Extent, ReclaimLimit};
use alluvium_storage::log;
use alluvium_storage::superblock::format::{SLOT_BYTES, SLOTS};
use alluvium_trees::tiered::{MaintenanceLimits, RootFilterBuilder};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of records in a slice, which amounts to about a mebibyte of small records and takes one
/// to two milliseconds.
pub(crate) const SLICE: usize = 8 << 10;

/// The data counts as fitting into the page cache if the cache has space for all live pages plus
/// 1/`FIT_SLACK` more. The excess is for obsolete pages, which occupy memory for a while.
const FIT_SLACK: u64 = 8;

/// Maximum amount of dead space reclaimed in one slice.
const RECLAIM: ReclaimLimit = ReclaimLimit {
    extents: 64,
    operations: 4,
};

/// Result of one slice of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceOutcome {
    /// The slice did some work, and there may be more to do.
    Something,
    Nothing,
}

/// Whether the thread that flushes a memtable is also making a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushCaller {
    Free,
    Checkpoint,
}

/// The structures whose compactions may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompactionScope {
    All,
    /// Only structures that are not being skipped because of damage.
    Sound,
}

/// State of a store's background work.
#[derive(Debug, Default)]
pub(crate) struct BackgroundWork {
    /// The memtable being flushed. The flushing thread holds this lock.
    incorporation: Mutex<Option<ActiveFlush>>,
    /// Held by the thread that is making a checkpoint.
    pub(super) checkpoint: Mutex<()>,
    /// The sequence number up to which the newest checkpoint contains all commits.
    pub(super) covered: AtomicU64,
    /// Whether a checkpoint was requested, which is then made even if the log is short.
    pub(super) checkpoint_is_wanted: AtomicBool,
    /// Compactions that have begun but that no worker is running at the moment.
    parked: Mutex<Vec<(DictionaryPlace, Box<dyn MaintenanceStep>)>>,
    /// The root filter being built, which saves lookups from searching the root's maplets. The
    /// building thread holds this lock.
    digesting: Mutex<Option<RootFilterBuilder>>,
    /// Dictionaries that are skipped for a while because their compactions hit damage.
    aside: CompactionBackoff,
    /// Whose turn it is to be compacted.
    turns: Mutex<CompactionTurns>,
    /// Number of bytes that maintenance may still write.
    maintenance: Mutex<MaintenanceLimits>,
    /// Held by every slice in shared mode, and held exclusively to keep the tree unchanged.
    rest: RwLock<()>,
}

/// A memtable being flushed into the dictionaries.
#[derive(Debug)]
struct ActiveFlush {
    slot: Arc<MemtableSlot>,
    /// Invalidates the memtable's keys in the record cache. This must be complete before any
    /// dictionary publishes its part of the memtable (Y1).
    forgetting: CacheInvalidation,
    /// The parts of the memtable being flushed, one for each dictionary. `None` until the flush
    /// starts or restarts.
    shares: Option<Vec<DictionaryFlush>>,
    /// The dictionary whose flush failed.
    failed: Option<DictionaryPlace>,
}

impl BackgroundWork {
    pub(crate) fn new(covered: u64) -> BackgroundWork {
        BackgroundWork {
            covered: AtomicU64::new(covered),
            ..BackgroundWork::default()
        }
    }

    /// Returns a guard that a thread must hold while it changes the tree.
    pub(crate) fn slice(&self) -> RwLockReadGuard<'_, ()> {
        self.rest.read()
    }

    /// Returns a guard that keeps the tree unchanged for as long as it is held.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(super) fn at_rest(&self) -> parking_lot::RwLockWriteGuard<'_, ()> {
        self.rest.write()
    }
}

impl Engine {
    /// Runs one slice of the most urgent background work.
    pub(crate) fn work(&self) -> Result<SliceOutcome> {
        self.guarded("work", || self.work_on())
    }

    fn work_on(&self) -> Result<SliceOutcome> {
        let prepared = self.prepare_log()?;
        let worked = match policy::next(&self.view()) {
            BackgroundTask::Checkpoint => self.try_checkpoint()?,
            BackgroundTask::Incorporate => self.incorporate_slice(SLICE)?,
            BackgroundTask::Compact => match self.merge_layers()? {
                SliceOutcome::Something => SliceOutcome::Something,
                SliceOutcome::Nothing => self.compact_within_reach()?,
            },
        };
        if worked == SliceOutcome::Something || prepared == SliceOutcome::Something {
            return Ok(SliceOutcome::Something);
        }
        self.store.cache().maintain();
        self.reclaim_slice()
    }

    /// Runs one slice of the kind of work that a background thread with this duty does.
    pub(crate) fn work_at(&self, duty: WorkerDuty) -> Result<SliceOutcome> {
        self.guarded("work", || self.work_on_duty(duty))
    }

    fn work_on_duty(&self, duty: WorkerDuty) -> Result<SliceOutcome> {
        match duty {
            WorkerDuty::Prepare => {
                let prepared = self.prepare_log()?;
                Ok(match self.queue.prefault_memory() {
                    true => SliceOutcome::Something,
                    false => prepared,
                })
            }
            WorkerDuty::Incorporate => {
                self.store.health()?;
                self.incorporate_slice(SLICE)
            }
            WorkerDuty::Checkpoint => {
                self.store.health()?;
                let worked = match policy::checkpoint_is_due(&self.view()) {
                    true => self.try_checkpoint()?,
                    false => SliceOutcome::Nothing,
                };
                // Reclaim space even if compactions are pending, because they will write to the
                // reclaimed space.
                Ok(match self.reclaim_slice()? {
                    SliceOutcome::Nothing => worked,
                    SliceOutcome::Something => SliceOutcome::Something,
                })
            }
            WorkerDuty::Compact => {
                self.store.health()?;
                let merged = self.merge_layers()?;
                let worked = self.compact_within_reach()?;
                if SliceOutcome::Something == worked || SliceOutcome::Something == merged {
                    return Ok(SliceOutcome::Something);
                }
                self.store.cache().maintain();
                Ok(SliceOutcome::Nothing)
            }
        }
    }

    /// Returns whether a thread is flushing a memtable at the moment.
    pub(crate) fn is_incorporating(&self) -> bool {
        self.work.incorporation.is_locked()
    }

    /// Prepares log space for the next writes.
    fn prepare_log(&self) -> Result<SliceOutcome> {
        self.store.health()?;
        let prepared = self.store.poison_on_error(self.store.log().prepare())?;
        match self.write_pending_voids() {
            // The disk is full. Other background work may free space.
            Err(error) if error.is_full() => {}
            other => other?,
        }
        Ok(match prepared {
            log::PrepareProgress::Worked => SliceOutcome::Something,
            log::PrepareProgress::Idle => SliceOutcome::Nothing,
        })
    }

    /// Runs one slice of reclaiming dead space.
    pub(super) fn reclaim_slice(&self) -> Result<SliceOutcome> {
        self.guarded("freeing space", || self.reclaim_some())
    }

    fn reclaim_some(&self) -> Result<SliceOutcome> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        if self.store.copy_slice()? {
            return Ok(SliceOutcome::Something);
        }
        let reclaimed = self.store.reclaim(RECLAIM)?;
        let some = reclaimed.freed_bytes > 0 || reclaimed.punched_bytes > 0 || reclaimed.truncated_bytes > 0;
        Ok(if some {
            SliceOutcome::Something
        } else {
            SliceOutcome::Nothing
        })
    }

    /// Checks the data on disk, and returns a report with one sentence for each finding. Background
    /// work pauses during the check, while reads and writes continue.
    pub(crate) fn check(
        &self,
        depth: CheckLevel,
        tell: &mut dyn FnMut(progress::Progress),
    ) -> Result<CheckReport> {
        let _at_rest = self.work.rest.write();
        let parked = self.work.parked.lock();
        let mut tell = |checked: CheckProgress| {
            tell(progress::Progress::new(
                ProgressStage::Checking,
                checked.done_bytes,
                checked.total_bytes,
            ));
            Ok(())
        };
        let findings = self.examine(depth, &parked, &mut tell)?;
        let map = self.store.superblock().map;
        let amount = |nodes, bytes| NodeTotals { nodes, bytes };
        let (slots, slot_bytes) = (SLOTS as u64, SLOT_BYTES as u64);
        let files = [
            ("superblock", amount(slots, slots * slot_bytes)),
            ("extent map", amount(map.records.into(), map.length)),
            ("log", findings.read.log),
        ];
        let unreadable = self.not_checked(&findings);
        let lost = self.store.log().lost_tail().map(LostCommits::new);
        let notes = lost.iter().map(ToString::to_string).collect();
        Ok(CheckReport::new(findings, unreadable, notes, files))
    }

    /// Returns one sentence for each tier that the check could not read.
    fn not_checked(&self, findings: &CheckFindings) -> Vec<String> {
        let Some(said) = &findings.unread else {
            return Vec::new();
        };
        let tiers = self.store.tiers();
        let unreadable = (0..tiers.count() as u8).filter(|tier| tiers.is_unreadable(*tier));
        let mut all: Vec<String> = unreadable
            .filter_map(|tier| tiers.failure(tier))
            .map(|failure| format!("{failure}; the data on it was not checked"))
            .collect();
        if all.is_empty() {
            // The tier failed during the check but works again now.
            all.push(said.clone());
        }
        all
    }

    /// Checks the dictionaries, the manifest and the store's files.
    fn examine(
        &self,
        depth: CheckLevel,
        parked: &[(DictionaryPlace, Box<dyn MaintenanceStep>)],
        tell: &mut dyn FnMut(CheckProgress) -> alluvium_storage::Result<()>,
    ) -> Result<CheckFindings> {
        let payload = self.store.superblock().payload;
        let mut found = Vec::new();
        let mut findings = CheckFindings::default();
        let durable = match manifest::read(DataFiles::of(&self.store), &payload, Purpose::Check) {
            Ok((durable, nodes)) => {
                nodes.iter().for_each(|node| findings.read.manifest.add(node));
                durable
            }
            Err(error) => {
                found.push(format!("manifest: {error}"));
                Manifest::default()
            }
        };
        let mut reachable: HashMap<Extent, u32> = HashMap::new();
        let aside = self.dictionaries.aside_finding();
        let cannot_be_read = aside.as_ref().is_some_and(|(_, is_new)| *is_new);
        found.extend(aside.map(|(finding, _)| finding));
        for (place, dictionary) in self.dictionaries.all() {
            if cannot_be_read && place == DictionaryPlace::PAGES {
                continue;
            }
            let root = durable.entry(place.id());
            let own = parked.iter().filter(|(of, _)| *of == place);
            let steps: Vec<&dyn MaintenanceStep> = own.map(|(_, step)| &**step).collect();
            let root = root.map(|entry| &entry.root[..]);
            let examined = dictionary.check(depth, &steps, root, tell)?;
            for (extent, references) in examined.reachable {
                *reachable.entry(extent).or_default() += references;
            }
            findings.add(examined.findings);
        }
        for extent in self.dictionaries.manifest.extents() {
            *reachable.entry(extent).or_default() += 1;
        }
        let (said, [segments, log_bytes]) = self.store.check_counted(reachable.into_iter());
        found.extend(said);
        findings.found.splice(..0, found);
        findings.bound();
        findings.read.log = NodeTotals {
            nodes: segments,
            bytes: log_bytes,
        };
        Ok(findings)
    }

    fn view(&self) -> SchedulingInput {
        let oldest = self.queue.oldest_sealed();
        let ready = oldest.is_some_and(|slot| slot.cut() <= Some(self.visible.at()));
        let usage = self.store.log().usage();
        let space = self.store.usage().0.total();
        SchedulingInput {
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

    /// Returns the newest checkpoint's sequence number if the tree contains later commits.
    pub(crate) fn outgrown_checkpoint(&self) -> Option<SequenceNumber> {
        let covered = self.work.covered.load(Ordering::Acquire);
        (self.dictionaries.cut() > covered).then_some(covered)
    }

    /// Requests a checkpoint even if the log is too short for one to be due.
    pub(crate) fn want_checkpoint(&self) {
        self.work.checkpoint_is_wanted.store(true, Ordering::Relaxed);
        self.call_all();
    }

    /// Returns the number of due or running compactions.
    pub(crate) fn compactions(&self) -> usize {
        self.dictionaries.steps() as usize
    }

    /// Raises the horizon, so that compactions can merge versions that no snapshot and no future
    /// reader can distinguish. Also advances the time up to which expired entries are dropped.
    pub(super) fn raise_horizon(&self) {
        self.close_left_snapshots();
        let horizon = self.dictionaries.horizon();
        self.snapshots
            .raise(|| self.visible.at(), |open, now| horizon.raise_past(open, now));
        self.tick();
    }

    /// Flushes a slice of the oldest sealed memtable. Does nothing if another thread is already
    /// flushing it.
    pub(crate) fn incorporate_slice(&self, records: usize) -> Result<SliceOutcome> {
        self.incorporate_in(records, FlushCaller::Free)
    }

    /// Like [`Engine::incorporate_slice`], where `turn` tells whether the calling thread is also
    /// making a checkpoint.
    pub(super) fn incorporate_in(&self, records: usize, turn: FlushCaller) -> Result<SliceOutcome> {
        self.guarded("writing out a memtable", || self.incorporate_some(records, turn))
    }

    /// Quarantines the in-place pages after a flush has found damage in them. Returns whether the
    /// flush can continue. While another thread is making a checkpoint, the pages are not
    /// quarantined, and the flush must be retried.
    fn quarantine_damaged_pages(&self, damage: &alluvium_storage::Error, turn: FlushCaller) -> Result<bool> {
        let _alone = match turn {
            FlushCaller::Checkpoint => None,
            FlushCaller::Free => match self.work.checkpoint.try_lock() {
                None => return Ok(true),
                alone => alone,
            },
        };
        Ok(self.dictionaries.has_quarantined_pages() || self.dictionaries.quarantine_pages(damage)?)
    }

    fn incorporate_some(&self, records: usize, turn: FlushCaller) -> Result<SliceOutcome> {
        self.store.health()?;
        let slice = self.work.rest.read();
        let Some(mut under_way) = self.work.incorporation.try_lock() else {
            return Ok(SliceOutcome::Nothing);
        };
        if under_way.is_none() {
            let Some(slot) = self.queue.oldest_sealed() else {
                return Ok(SliceOutcome::Nothing);
            };
            let cut = slot.cut().expect("it is sealed");
            if cut > self.visible.at() {
                return Ok(SliceOutcome::Nothing);
            }
            self.raise_horizon();
            let schema = self.dictionaries.schema();
            let forgetting = self.records.begin(&slot.memtable, cut, schema);
            *under_way = Some(ActiveFlush {
                slot,
                forgetting,
                shares: None,
                failed: None,
            });
        }
        let _span = tracing::trace_span!("incorporate", records).entered();
        let step = under_way.as_mut().expect("it was just begun");
        let written = self.write_out(step, records);
        match written {
            Ok(StepProgress::More) => {}
            Ok(StepProgress::Done) => {
                self.throttle.stepped();
                let done = under_way.take().expect("it is under way");
                self.queue.remove(&done.slot);
                drop(under_way);
                drop(done);
                self.fit_reserve();
                self.throttle.wake_writers();
                // The flush has replaced data, so a checkpoint may be due. Compactions that paused
                // during the flush may continue.
                self.throttle.call_all();
            }
            Err(error) => {
                // The flush starts over. If it failed because the disk is full, and it is the first
                // to find out, it is retried and may use the reserve.
                step.slot.note_written_out(0);
                let failed = step.failed;
                *under_way = None;
                drop(under_way);
                let is_damage = matches!(error, alluvium_storage::Error::Corrupt { .. });
                if is_damage && failed == Some(DictionaryPlace::PAGES) {
                    drop(slice);
                    return match self.quarantine_damaged_pages(&error, turn)? {
                        true => Ok(SliceOutcome::Something),
                        false => Err(error.into()),
                    };
                }
                if self.can_retry_on_other_tier(&error) {
                    return Ok(SliceOutcome::Something);
                }
                let was_full = self.throttle.is_full();
                self.throttle.note(&error);
                if was_full || !error.is_full() {
                    return Err(error.into());
                }
            }
        }
        Ok(SliceOutcome::Something)
    }

    /// Flushes one slice of a memtable. Once all parts are written, the dictionaries publish them.
    fn write_out(&self, step: &mut ActiveFlush, records: usize) -> alluvium_storage::Result<StepProgress> {
        let (memtable, cut) = (&step.slot.memtable, step.slot.cut().expect("it is sealed"));
        let shares = step
            .shares
            .get_or_insert_with(|| self.dictionaries.take(memtable, cut));
        if step.forgetting.poll(&self.records, records) == StepProgress::More {
            return Ok(StepProgress::More);
        }
        for part in 0..shares.len() {
            let taking = &mut shares[part];
            let flushed = self.dictionaries.flush(taking, records, self.throttle.class());
            if flushed.inspect_err(|_| step.failed = Some(taking.place))? == StepProgress::More {
                let taken = shares.iter().map(DictionaryFlush::taken);
                step.slot.note_written_out(taken.sum());
                return Ok(StepProgress::More);
            }
        }
        self.note_flushed_keys(memtable, cut);
        let mut failed = None;
        let published = self.dictionaries.publish(memtable, shares, cut, &mut failed);
        published.inspect_err(|_| step.failed = failed)?;
        Ok(StepProgress::Done)
    }

    /// Builds one slice of a root filter, if lookups have searched enough maplets in vain to
    /// justify building one.
    fn digest_slice(&self, entries: usize) -> Result<SliceOutcome> {
        let Some(mut under_way) = self.work.digesting.try_lock() else {
            return Ok(SliceOutcome::Nothing);
        };
        if under_way.is_none() {
            *under_way = self.dictionaries.tree.digest_due();
        }
        let Some(digesting) = under_way.as_mut() else {
            return Ok(SliceOutcome::Nothing);
        };
        let step = digesting.poll(entries);
        if !matches!(step, Ok(StepProgress::More)) {
            *under_way = None;
        }
        step?;
        Ok(SliceOutcome::Something)
    }

    /// Runs one slice of a maintenance step, usually a compaction, or of building a root filter.
    /// Root filters come first, because they save lookups more work than they cost to build.
    pub(crate) fn compact_slice(&self, records: usize) -> Result<SliceOutcome> {
        self.guarded("a compaction", || {
            self.compact_some(records, CompactionScope::All)
        })
    }

    /// Runs one slice of merging spilled layers in open transactions.
    pub(crate) fn merge_layers(&self) -> Result<SliceOutcome> {
        self.guarded("a merge of spilled writes", || {
            self.store.health()?;
            let _slice = self.work.rest.read();
            self.ingests.merge_slice()
        })
    }

    /// Like [`Engine::compact_slice`], but for background threads. Compactions that need a failing
    /// tier wait until it works again, and damaged structures are skipped for a while. Neither is
    /// reported as an error, because the user learns of it from failing reads and from the state of
    /// the tiers.
    fn compact_within_reach(&self) -> Result<SliceOutcome> {
        let compacted = self.guarded("a compaction", || {
            self.compact_some(SLICE, CompactionScope::Sound)
        });
        match compacted {
            Err(error) if error.failing_tier().is_some() || error.is_damage() => Ok(SliceOutcome::Nothing),
            other => other,
        }
    }

    fn compact_some(&self, records: usize, scope: CompactionScope) -> Result<SliceOutcome> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        match self.digest_slice(records) {
            Ok(SliceOutcome::Something) => return Ok(SliceOutcome::Something),
            Ok(SliceOutcome::Nothing) => {}
            // Not fatal: lookups also work without a root filter.
            Err(error) if error.failing_tier().is_some() || error.is_damage() => {}
            Err(error) => return Err(error),
        }
        self.dictionaries.set_space_class(self.throttle.class());
        let parked = self.work.parked.lock().pop();
        let step = match parked {
            Some(step) => Some(step),
            None => {
                self.raise_horizon();
                let step = self
                    .next_step(scope)
                    .inspect_err(|error| self.throttle.note_compaction(error))?;
                // The compaction needs memory, so shrink the caches first.
                self.fit_memory()?;
                step
            }
        };
        let Some((place, mut step)) = step else {
            return Ok(SliceOutcome::Nothing);
        };
        let _span = tracing::trace_span!("compact", records).entered();
        match step.poll(records) {
            Ok(StepProgress::More) => self.work.parked.lock().push((place, step)),
            Ok(StepProgress::Done) => self.throttle.stepped(),
            Err(error) if self.can_retry_on_other_tier(&error) => {}
            Err(error) => {
                self.note_damage(place, &error);
                self.throttle.note_compaction(&error);
                return Err(error.into());
            }
        }
        Ok(SliceOutcome::Something)
    }

    /// Returns the next due compaction step of any dictionary, if there is one.
    fn next_step(
        &self,
        scope: CompactionScope,
    ) -> alluvium_storage::Result<Option<(DictionaryPlace, Box<dyn MaintenanceStep>)>> {
        let all = self.dictionaries.live();
        let crowding = all.map(|(place, dictionary)| (place, dictionary.read_amplification_percent()));
        let order = self.work.turns.lock().order(crowding);
        for place in order {
            if scope == CompactionScope::Sound && self.work.aside.skips(place) {
                continue;
            }
            let step = self.dictionaries.of(place).next_step();
            if let Some(step) = step.inspect_err(|error| self.note_damage(place, error))? {
                self.work.turns.lock().note(place);
                return Ok(Some((place, step)));
            }
        }
        Ok(None)
    }

    /// If the error reports damage, makes compactions skip the dictionary for a while.
    fn note_damage(&self, place: DictionaryPlace, error: &alluvium_storage::Error) {
        if matches!(error, alluvium_storage::Error::Corrupt { .. }) {
            self.work.aside.note(place, error);
        }
    }

    /// Reclaims all dead space that no reader needs any more.
    pub(crate) fn reclaim(&self) -> Result<()> {
        while self.reclaim_slice()? == SliceOutcome::Something {}
        Ok(())
    }

    /// Tells maintenance whether there have been no writes for a while.
    pub(crate) fn note_idle(&self, is_idle: bool) {
        self.work.maintenance.lock().is_idle = is_idle;
    }

    /// Allows maintenance to write `bytes` more bytes, and requests the most valuable compaction
    /// that the allowance covers. Returns whether it requested one.
    pub(crate) fn maintain(&self, bytes: u64) -> Result<bool> {
        self.guarded("maintenance", || self.maintain_some(bytes))
    }

    fn maintain_some(&self, bytes: u64) -> Result<bool> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        let mut maintenance = self.work.maintenance.lock();
        maintenance.budget_bytes = maintenance.budget_bytes.saturating_add(bytes).min(1 << 40);
        self.raise_horizon();
        Ok(self.dictionaries.tree.maintain(&mut maintenance)?)
    }

    /// Determines whether all live data fits into the page cache. If it does, the cache keeps newly
    /// written pages, and maintenance may rewrite more data. Returns whether it does.
    pub(crate) fn note_fit(&self) -> bool {
        let live = self.store.usage().0.total().live_extent_bytes;
        let cache = self.store.cache();
        let fits = live + live / FIT_SLACK <= cache.stats().budget_bytes;
        cache.set_admit_written(fits);
        self.work.maintenance.lock().fits_cache = fits;
        fits
    }

    /// Drops all steps in progress. They start over the next time the store is opened.
    pub(crate) fn drop_steps(&self) {
        *self.work.incorporation.lock() = None;
        *self.work.digesting.lock() = None;
        self.work.parked.lock().clear();
    }

    /// Makes a checkpoint to free log space, so that another commit of ordinary size fits into the
    /// log.
    pub(crate) fn make_log_room(&self) -> Result<()> {
        self.checkpoint_everything()
    }
}
