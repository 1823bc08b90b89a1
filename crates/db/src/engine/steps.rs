//! Steps of background work. Each call runs one slice; any thread with time may call.

use super::Engine;
use super::aside::Aside;
use super::policy::{self, Duty, Task, View};
use super::queue::Slot;
use super::record_cache::Forgetting;
use super::structures::Taking;
use crate::engine::check::CheckReport;
use crate::engine::lost_commits::LostCommits;
use crate::engine::progress::{self, Stage};
use crate::error::Result;
use crate::options::kind::Structure;
use crate::schema::manifest::{self, Manifest};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract::{Progress, Step};
use alluvium_dictionary::findings::{Checked, Depth, Findings};
use alluvium_dictionary::read::{Amount, Files};
use alluvium_storage::extents::{Extent, ReclaimLimit};
use alluvium_storage::log;
use alluvium_storage::superblock::format::{SLOT_BYTES, SLOTS};
use alluvium_trees::tiered::{Digesting, Maintenance};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Records per slice: about a mebibyte of small records, one to two milliseconds.
pub(crate) const SLICE: usize = 8 << 10;

/// All live pages count as fitting into the cache if it holds them and 1/`FIT_SLACK` more: obsolete
/// pages occupy memory for a while.
const FIT_SLACK: u64 = 8;

/// Limits of one slice of reclaiming.
const RECLAIM: ReclaimLimit = ReclaimLimit {
    extents: 64,
    operations: 4,
};

/// Result of a slice of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worked {
    /// The slice did work, and there may be more.
    Something,
    Nothing,
}

/// Whether the calling thread is making a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Free,
    Checkpoint,
}

/// The structures to choose compactions from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    /// Structures whose last compaction met no damage.
    Sound,
}

/// State of the background work.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The memtable being flushed. Locked by the thread that flushes it.
    incorporation: Mutex<Option<WritingOut>>,
    /// Held by the thread that makes a checkpoint.
    pub(super) checkpoint: Mutex<()>,
    /// The cut of the newest checkpoint.
    pub(super) covered: AtomicU64,
    /// Whether a checkpoint was requested, even if none is due.
    pub(super) checkpoint_is_wanted: AtomicBool,
    /// Compactions that no worker is running right now.
    parked: Mutex<Vec<(Structure, Box<dyn Step>)>>,
    /// The digest being built. Locked by the thread that builds it.
    digesting: Mutex<Option<Digesting>>,
    /// Structures whose compactions met damage.
    aside: Aside,
    /// The remaining write budget of maintenance.
    maintenance: Mutex<Maintenance>,
    /// Held shared by every slice, and exclusively to keep the tree unchanged.
    rest: RwLock<()>,
}

/// A memtable being flushed into the dictionaries.
#[derive(Debug)]
struct WritingOut {
    slot: Arc<Slot>,
    /// Completes before any dictionary publishes its share (Y1).
    forgetting: Forgetting,
    /// Empty until the flush starts, or starts over.
    shares: Vec<Taking>,
    /// The structure whose share failed.
    failed: Option<Structure>,
}

impl Work {
    pub(crate) fn new(covered: u64) -> Work {
        Work {
            covered: AtomicU64::new(covered),
            ..Work::default()
        }
    }

    /// Held by a thread while it changes the tree.
    pub(crate) fn slice(&self) -> RwLockReadGuard<'_, ()> {
        self.rest.read()
    }

    /// Keeps the tree unchanged while the guard is held.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(super) fn at_rest(&self) -> parking_lot::RwLockWriteGuard<'_, ()> {
        self.rest.write()
    }
}

impl Engine {
    /// Runs a slice of the most urgent work.
    pub(crate) fn work(&self) -> Result<Worked> {
        self.guarded("work", || self.work_on())
    }

    fn work_on(&self) -> Result<Worked> {
        let prepared = self.prepare_log()?;
        let worked = match policy::next(&self.view()) {
            Task::Checkpoint => self.try_checkpoint()?,
            Task::Incorporate => self.incorporate_slice(SLICE)?,
            Task::Compact => self.compact_within_reach()?,
        };
        if worked == Worked::Something || prepared == Worked::Something {
            return Ok(Worked::Something);
        }
        self.store.cache().tend();
        self.reclaim_slice()
    }

    /// Runs a slice of the work of a duty.
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
                // Reclaim even if compactions are pending: they write to the reclaimed space next.
                Ok(match self.reclaim_slice()? {
                    Worked::Nothing => worked,
                    Worked::Something => Worked::Something,
                })
            }
            Duty::Compact => {
                self.store.health()?;
                let worked = self.compact_within_reach()?;
                if worked == Worked::Something {
                    return Ok(worked);
                }
                self.store.cache().tend();
                Ok(Worked::Nothing)
            }
        }
    }

    /// Returns whether a memtable is being flushed right now.
    pub(crate) fn is_incorporating(&self) -> bool {
        self.work.incorporation.is_locked()
    }

    /// Prepares log space for the next writes.
    fn prepare_log(&self) -> Result<Worked> {
        self.store.health()?;
        let prepared = self.store.judge(self.store.log().prepare())?;
        match self.fill_gaps() {
            // Other work may free the space.
            Err(error) if error.is_full() => {}
            other => other?,
        }
        Ok(match prepared {
            log::Progress::Worked => Worked::Something,
            log::Progress::Idle => Worked::Nothing,
        })
    }

    /// Runs a slice of reclaiming dead space.
    pub(super) fn reclaim_slice(&self) -> Result<Worked> {
        self.guarded("making space usable", || self.reclaim_some())
    }

    fn reclaim_some(&self) -> Result<Worked> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        if self.store.copy_slice()? {
            return Ok(Worked::Something);
        }
        let reclaimed = self.store.reclaim(RECLAIM)?;
        let some = reclaimed.freed_bytes > 0 || reclaimed.punched_bytes > 0 || reclaimed.truncated_bytes > 0;
        Ok(if some { Worked::Something } else { Worked::Nothing })
    }

    /// Checks the data on disk. Each finding is one sentence. Background work pauses during the
    /// check; reads and writes continue.
    pub(crate) fn check(
        &self,
        depth: Depth,
        tell: &mut dyn FnMut(progress::Progress),
    ) -> Result<CheckReport> {
        let _at_rest = self.work.rest.write();
        let parked = self.work.parked.lock();
        let mut tell = |checked: Checked| {
            tell(progress::Progress::new(
                Stage::Checking,
                checked.done_bytes,
                checked.total_bytes,
            ));
            Ok(())
        };
        let findings = self.examine(depth, &parked, &mut tell)?;
        let map = self.store.superblock().map;
        let amount = |nodes, bytes| Amount { nodes, bytes };
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
    fn not_checked(&self, findings: &Findings) -> Vec<String> {
        let Some(said) = &findings.unread else {
            return Vec::new();
        };
        let tiers = self.store.tiers();
        let unreadable = (0..tiers.count() as u8).filter(|tier| tiers.is_unreadable(*tier));
        let mut all: Vec<String> = unreadable
            .filter_map(|tier| tiers.failure(tier))
            .map(|failure| format!("{failure}; what lies on it was not checked"))
            .collect();
        if all.is_empty() {
            // The tier works again by now.
            all.push(said.clone());
        }
        all
    }

    /// Checks the dictionaries, the manifest and the store.
    fn examine(
        &self,
        depth: Depth,
        parked: &[(Structure, Box<dyn Step>)],
        tell: &mut dyn FnMut(Checked) -> alluvium_storage::Result<()>,
    ) -> Result<Findings> {
        let payload = self.store.superblock().payload;
        let mut found = Vec::new();
        let mut findings = Findings::default();
        let durable = match manifest::read(Files::of(&self.store), &payload, Purpose::Check) {
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
        for (structure, dictionary) in self.dictionaries.all() {
            if cannot_be_read && structure == Structure::Paged {
                continue;
            }
            let root = durable.entry(structure.dictionary());
            let own = parked.iter().filter(|(of, _)| *of == structure);
            let steps: Vec<&dyn Step> = own.map(|(_, step)| &**step).collect();
            let root = root.map(|entry| &entry.root[..]);
            let examined = dictionary.examine(depth, &steps, root, tell)?;
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
        findings.read.log = Amount {
            nodes: segments,
            bytes: log_bytes,
        };
        Ok(findings)
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

    /// Returns the cut of the newest checkpoint, if the tree contains later commits.
    pub(crate) fn outgrown_checkpoint(&self) -> Option<Sequence> {
        let covered = self.work.covered.load(Ordering::Acquire);
        (self.dictionaries.cut() > covered).then_some(covered)
    }

    /// Requests a checkpoint even if the log has not reached its threshold.
    pub(crate) fn want_checkpoint(&self) {
        self.work.checkpoint_is_wanted.store(true, Ordering::Relaxed);
        self.call_all();
    }

    /// Returns the number of compactions due or running.
    pub(crate) fn compactions(&self) -> usize {
        self.dictionaries.steps() as usize
    }

    /// Lets compactions merge versions that no snapshot and no later reader can distinguish.
    pub(super) fn raise_horizon(&self) {
        self.close_left_snapshots();
        let horizon = self.dictionaries.horizon();
        self.snapshots
            .raise(|| self.visible.at(), |open, now| horizon.raise_past(open, now));
        self.tick();
    }

    /// Flushes a slice of the oldest sealed memtable, unless another thread is flushing it.
    pub(crate) fn incorporate_slice(&self, records: usize) -> Result<Worked> {
        self.incorporate_in(records, Turn::Free)
    }

    /// Like [`Engine::incorporate_slice`], for a thread that may be making a checkpoint.
    pub(super) fn incorporate_in(&self, records: usize, turn: Turn) -> Result<Worked> {
        self.guarded("writing a memtable out", || self.incorporate_some(records, turn))
    }

    /// Sets aside pages in which a flush met damage. If another thread is making a checkpoint, the
    /// flush is retried instead. Returns whether the flush can continue.
    fn do_without_pages(&self, damage: &alluvium_storage::Error, turn: Turn) -> Result<bool> {
        let _alone = match turn {
            Turn::Checkpoint => None,
            Turn::Free => match self.work.checkpoint.try_lock() {
                None => return Ok(true),
                alone => alone,
            },
        };
        Ok(self.dictionaries.has_aside() || self.dictionaries.set_aside(damage)?)
    }

    fn incorporate_some(&self, records: usize, turn: Turn) -> Result<Worked> {
        self.store.health()?;
        let slice = self.work.rest.read();
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
            let schema = self.dictionaries.schema();
            let forgetting = self.records.begin(&slot.memtable, cut, schema);
            *under_way = Some(WritingOut {
                slot,
                forgetting,
                shares: Vec::new(),
                failed: None,
            });
        }
        let _span = tracing::trace_span!("incorporate", records).entered();
        let step = under_way.as_mut().expect("it was just begun");
        let written = self.write_out(step, records);
        match written {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => {
                self.pressure.stepped();
                let done = under_way.take().expect("it is under way");
                self.queue.remove(&done.slot);
                drop(under_way);
                drop(done);
                self.fit_reserve();
                self.pressure.relieved();
                // A checkpoint may be due now, and compactions may resume.
                self.pressure.call_all();
            }
            Err(error) => {
                // The flush starts over. If it was the first to find the disk full, it may use the
                // reserve next.
                step.slot.note_written_out(0);
                let failed = step.failed;
                *under_way = None;
                drop(under_way);
                let is_damage = matches!(error, alluvium_storage::Error::Corrupt { .. });
                if is_damage && failed == Some(Structure::Paged) {
                    drop(slice);
                    return match self.do_without_pages(&error, turn)? {
                        true => Ok(Worked::Something),
                        false => Err(error.into()),
                    };
                }
                if self.goes_elsewhere(&error) {
                    return Ok(Worked::Something);
                }
                let was_full = self.pressure.is_full();
                self.pressure.note(&error);
                if was_full || !error.is_full() {
                    return Err(error.into());
                }
            }
        }
        Ok(Worked::Something)
    }

    /// Flushes a slice of a memtable.
    fn write_out(&self, step: &mut WritingOut, records: usize) -> alluvium_storage::Result<Progress> {
        if step.shares.is_empty() {
            let (memtable, cut) = (&step.slot.memtable, step.slot.cut().expect("it is sealed"));
            step.shares = self.dictionaries.take(memtable, cut, self.pressure.class())?;
        }
        if step.forgetting.poll(&self.records, records) == Progress::More {
            return Ok(Progress::More);
        }
        for taking in &mut step.shares {
            let polled = taking.share.poll(records);
            if polled.inspect_err(|_| step.failed = Some(taking.structure))? == Progress::More {
                step.slot.note_written_out(taking.share.taken());
                return Ok(Progress::More);
            }
        }
        let cut = step.slot.cut().expect("it is sealed");
        let memtable = &step.slot.memtable;
        let mut failed = None;
        let published = self
            .dictionaries
            .publish(memtable, &mut step.shares, cut, &mut failed);
        published.inspect_err(|_| step.failed = failed)?;
        Ok(Progress::Done)
    }

    /// Builds a slice of a digest, if lookups have paid for one.
    fn digest_slice(&self, entries: usize) -> Result<Worked> {
        let Some(mut under_way) = self.work.digesting.try_lock() else {
            return Ok(Worked::Nothing);
        };
        if under_way.is_none() {
            *under_way = self.dictionaries.tree.digest_due();
        }
        let Some(digesting) = under_way.as_mut() else {
            return Ok(Worked::Nothing);
        };
        let step = digesting.poll(entries);
        if !matches!(step, Ok(Progress::More)) {
            *under_way = None;
        }
        step?;
        Ok(Worked::Something)
    }

    /// Runs a slice of a maintenance step, usually a compaction, or of a digest: digests come first
    /// because they save lookups more than they cost.
    pub(crate) fn compact_slice(&self, records: usize) -> Result<Worked> {
        self.guarded("a compaction", || self.compact_some(records, Scope::All))
    }

    /// The same, for the background: compactions that need a failing tier wait until the tier works
    /// again, and structures with damage are skipped for a while. The user learns of both from
    /// reads that fail and from the state of the tiers.
    fn compact_within_reach(&self) -> Result<Worked> {
        let compacted = self.guarded("a compaction", || self.compact_some(SLICE, Scope::Sound));
        match compacted {
            Err(error) if error.failing_tier().is_some() || error.is_damage() => Ok(Worked::Nothing),
            other => other,
        }
    }

    fn compact_some(&self, records: usize, scope: Scope) -> Result<Worked> {
        self.store.health()?;
        let _slice = self.work.rest.read();
        match self.digest_slice(records) {
            Ok(Worked::Something) => return Ok(Worked::Something),
            Ok(Worked::Nothing) => {}
            // Lookups work without a digest.
            Err(error) if error.failing_tier().is_some() || error.is_damage() => {}
            Err(error) => return Err(error),
        }
        self.dictionaries.set_space_class(self.pressure.class());
        let parked = self.work.parked.lock().pop();
        let step = match parked {
            Some(step) => Some(step),
            None => {
                self.raise_horizon();
                let step = self
                    .next_step(scope)
                    .inspect_err(|error| self.pressure.note_compaction(error))?;
                // Shrink the caches before the compaction starts.
                self.fit_memory()?;
                step
            }
        };
        let Some((structure, mut step)) = step else {
            return Ok(Worked::Nothing);
        };
        let _span = tracing::trace_span!("compact", records).entered();
        match step.poll(records) {
            Ok(Progress::More) => self.work.parked.lock().push((structure, step)),
            Ok(Progress::Done) => self.pressure.stepped(),
            Err(error) if self.goes_elsewhere(&error) => {}
            Err(error) => {
                self.note_damage(structure, &error);
                self.pressure.note_compaction(&error);
                return Err(error.into());
            }
        }
        Ok(Worked::Something)
    }

    /// Returns the next compaction step of any dictionary.
    fn next_step(&self, scope: Scope) -> alluvium_storage::Result<Option<(Structure, Box<dyn Step>)>> {
        for (structure, dictionary) in self.dictionaries.live() {
            if scope == Scope::Sound && self.work.aside.skips(structure) {
                continue;
            }
            let step = dictionary.next_step();
            if let Some(step) = step.inspect_err(|error| self.note_damage(structure, error))? {
                return Ok(Some((structure, step)));
            }
        }
        Ok(None)
    }

    /// Skips a structure for a while if the error is damage.
    fn note_damage(&self, structure: Structure, error: &alluvium_storage::Error) {
        if matches!(error, alluvium_storage::Error::Corrupt { .. }) {
            self.work.aside.note(structure, error);
        }
    }

    /// Reclaims all dead space that no reader needs.
    pub(crate) fn reclaim(&self) -> Result<()> {
        while self.reclaim_slice()? == Worked::Something {}
        Ok(())
    }

    /// Adds `bytes` to the maintenance budget and requests the most valuable compaction that it
    /// covers. Returns whether one was requested.
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

    /// Updates and returns whether all live data fits into the page cache. If it does, the cache
    /// keeps written pages, and maintenance may rewrite more.
    pub(crate) fn note_fit(&self) -> bool {
        let live = self.store.usage().0.total().live_extent_bytes;
        let cache = self.store.cache();
        let fits = live + live / FIT_SLACK <= cache.stats().budget_bytes;
        cache.keep_written(fits);
        self.work.maintenance.lock().fits_cache = fits;
        fits
    }

    /// Drops all running steps. They start over at the next opening.
    pub(crate) fn drop_steps(&self) {
        *self.work.incorporation.lock() = None;
        *self.work.digesting.lock() = None;
        self.work.parked.lock().clear();
    }

    /// Frees log space by a checkpoint, for one more commit of ordinary size.
    pub(crate) fn make_log_room(&self) -> Result<()> {
        self.checkpoint_everything()
    }
}
