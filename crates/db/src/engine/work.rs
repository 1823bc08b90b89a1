//! The steps: each call does a slice of one, and any thread with time may call.

use super::Engine;
use super::aside::Aside;
use super::dictionaries::Taking;
use super::policy::{self, Duty, Task, View};
use super::queue::Slot;
use super::records::Forgetting;
use crate::Result;
use crate::check::CheckReport;
use crate::lost_commits::LostCommits;
use crate::manifest::{self, Manifest};
use crate::progress::{self, Stage};
use crate::structure::Structure;
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

/// Records of a slice: about a mebibyte of small ones, one to two milliseconds.
pub(crate) const SLICE: usize = 8 << 10;

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

/// Whether the calling thread is making a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Free,
    Checkpoint,
}

/// Which structures a compaction may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Any.
    All,
    /// Those whose last compaction has met no damage.
    Sound,
}

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The memtable that is written out. Locked by who works on it.
    incorporation: Mutex<Option<WritingOut>>,
    /// Locked by who makes a checkpoint.
    pub(super) checkpoint: Mutex<()>,
    /// What the newest checkpoint holds.
    pub(super) covered: AtomicU64,
    /// Whether a checkpoint was asked for, though nothing else calls for it.
    pub(super) checkpoint_is_wanted: AtomicBool,
    /// Compactions that no worker works on right now.
    parked: Mutex<Vec<(Structure, Box<dyn Step>)>>,
    /// A digest that is being made. Locked by who works on it.
    digesting: Mutex<Option<Digesting>>,
    /// Structures whose compactions meet damage.
    aside: Aside,
    /// What maintenance may still write.
    maintenance: Mutex<Maintenance>,
    /// Every slice shares it; who must see the tree at rest has it alone.
    rest: RwLock<()>,
}

/// One memtable on its way into the dictionaries.
#[derive(Debug)]
struct WritingOut {
    slot: Arc<Slot>,
    /// Done before any of the dictionaries is told to publish (Y1).
    forgetting: Forgetting,
    /// Nothing while it must begin again.
    shares: Vec<Taking>,
    /// The structure that has failed to take its share.
    failed: Option<Structure>,
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
            Task::Compact => self.compact_within_reach()?,
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
                // However much there is to compact: space that came free is what compactions write
                // to next.
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
        if self.store.copy_slice()? {
            return Ok(Worked::Something);
        }
        let reclaimed = self.store.reclaim(RECLAIM)?;
        let some = reclaimed.freed_bytes > 0 || reclaimed.punched_bytes > 0 || reclaimed.truncated_bytes > 0;
        Ok(if some { Worked::Something } else { Worked::Nothing })
    }

    /// Everything that is wrong with what is on the disk, a sentence each. The background rests
    /// meanwhile; reads and writes go on.
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

    /// Returns the tiers that a check could not read, a sentence each.
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
            // It is used again meanwhile.
            all.push(said.clone());
        }
        all
    }

    /// What is wrong with the dictionaries, the manifest and the store.
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

    /// Up to where the newest checkpoint holds everything, if the tree holds more.
    pub(crate) fn outgrown_checkpoint(&self) -> Option<Sequence> {
        let covered = self.work.covered.load(Ordering::Acquire);
        (self.dictionaries.cut() > covered).then_some(covered)
    }

    /// Asks for a checkpoint, though the log may grow yet.
    pub(crate) fn want_checkpoint(&self) {
        self.work.checkpoint_is_wanted.store(true, Ordering::Relaxed);
        self.call_all();
    }

    /// Compactions that are due or under way.
    pub(crate) fn compactions(&self) -> usize {
        self.dictionaries.steps() as usize
    }

    /// Versions that no snapshot and no later reader can tell apart may be folded from now on.
    pub(super) fn raise_horizon(&self) {
        self.close_left_snapshots();
        let horizon = self.dictionaries.horizon();
        self.snapshots
            .raise(|| self.visible.at(), |open, now| horizon.raise_past(open, now));
        self.tick();
    }

    /// Writes a slice of the oldest sealed memtable out, unless another thread is at it.
    pub(crate) fn incorporate_slice(&self, records: usize) -> Result<Worked> {
        self.incorporate_in(records, Turn::Free)
    }

    /// As [`Engine::incorporate_slice`], by a thread that may be making a checkpoint.
    pub(super) fn incorporate_in(&self, records: usize, turn: Turn) -> Result<Worked> {
        self.guarded("writing a memtable out", || self.incorporate_some(records, turn))
    }

    /// Sets the pages aside in which writing a memtable out has met damage, unless a checkpoint is
    /// being made: then it is tried again. Returns whether the memtable can be written out without
    /// them.
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
                // A checkpoint may be due now, and who compacts may go on.
                self.pressure.call_all();
            }
            Err(error) => {
                // It starts again, and where it was the first to find that the disk is full, it has
                // the reserve.
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

    /// A slice of what becomes of a memtable.
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

    /// A slice of a digest, if lookups have paid for one.
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

    /// A slice of a compaction, or of what makes one necessary; of what spares lookups more than it
    /// costs before.
    pub(crate) fn compact_slice(&self, records: usize) -> Result<Worked> {
        self.guarded("a compaction", || self.compact_some(records, Scope::All))
    }

    /// The same, by the background: what needs a tier that fails is left until it works again, and
    /// what meets damage for a while. The user learns of it from what reads the tier or the damage,
    /// and from what is known of tiers.
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
            // Lookups do without one.
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
                // The caches make room before it begins.
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

    /// The next step of any dictionary.
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

    /// Leaves a structure alone for a while if this error tells of damage.
    fn note_damage(&self, structure: Structure, error: &alluvium_storage::Error) {
        if matches!(error, alluvium_storage::Error::Corrupt { .. }) {
            self.work.aside.note(structure, error);
        }
    }

    /// Makes all space that died usable again, as far as no reader needs it.
    pub(crate) fn reclaim(&self) -> Result<()> {
        while self.reclaim_slice()? == Worked::Something {}
        Ok(())
    }

    /// Asks for the compaction that is worth most, as long as the budget lasts; whether one was
    /// asked for.
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

    /// Whether all that is alive fits into the cache of pages: then what is written stays there,
    /// and more may be rewritten.
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
