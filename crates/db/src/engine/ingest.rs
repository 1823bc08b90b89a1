//! Bulk ingest: runs are built outside the write path, and then attached to the store as one
//! commit.
//!
//! ```text
//!   built       by loads and by transactions, in extents that a crash frees
//!   turn        no other ingest is attached meanwhile
//!   flushed     a checkpoint contains all earlier writes, so that the following steps are short
//!   validated   the condition, for all commits so far, while others commit
//!   flushed     the commits of the meantime, which are validated from their memtables
//!   alone       no conditional write, and with a condition no other write
//!   validated   the few commits that are left
//!   numbered    numbers N to M, in a memtable of its own; the log has a record for them
//!   sunk        every memtable before it is in the tree
//!   forgotten   cached records of its keys (Y1)
//!   attached    the tree's cut is M; no reader is there yet
//!   durable     a checkpoint contains M
//!   visible     and with it the commits above M, which waited since it was numbered
//! ```
//!
//! The records of an ingest are not in the log, so commits after an ingest are acknowledged only
//! once a checkpoint contains the ingest (up to sequence number M). Otherwise a crash would leave a
//! gap in the sequence of commits.

use super::commit::{ConditionVerdict, LOG_TURNS, is_log_full};
use super::counters::EngineCounter;
use super::guard::CommitGuard;
use super::queue::SequenceAssignment;
use super::{Engine, SliceOutcome};
use crate::error::{Error, Result};
use crate::options::kind::DictionaryPlace;
use crate::schema::catalog::CommitKeyspaces;
use crate::schema::format::{self, TreeKey};
use alluvium_base::{Message, SequenceNumber};
use alluvium_dictionary::contract::{BulkIngest, StepProgress};
use alluvium_storage::extents::{AllocationClass, Extent};
use alluvium_storage::log::{self, AppendPriority};
use alluvium_storage::store::Store;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Maximum number of times that a checkpoint is retried if the disk is full. The store waits for
/// one poll interval before each retry.
const TRIES: u32 = 500;

/// Number of space units that a checkpoint needs if it makes few layers durable, not counting the
/// units that it needs for each structure.
const CHECKPOINT_UNITS: u64 = 4;

/// Number of space units that a checkpoint needs for each structure, which hold its root and the
/// nodes that the root refers to.
const STRUCTURE_UNITS: u64 = 2;

/// Approximate number of layers for which a checkpoint needs one more space unit, because nodes of
/// the trunk refer to each layer.
const LAYERS_PER_UNIT: u64 = 64;

/// Reserved space. Dropping the reservation releases it.
struct SpaceReservation<'e> {
    store: &'e Store,
    extents: Vec<Extent>,
}

impl Drop for SpaceReservation<'_> {
    fn drop(&mut self) {
        for extent in self.extents.drain(..) {
            self.store.extents().abandon(extent);
        }
    }
}

/// The running ingests of a store, which have been neither attached nor ended.
#[derive(Debug, Default)]
pub(crate) struct IngestRegistry {
    under_way: Mutex<Vec<Weak<RunningIngest>>>,
    /// Held for the entire attachment of ingests, so that only one runs at a time.
    turn: Mutex<()>,
    /// Held exclusively while ingests become part of the store, and in shared mode by conditional
    /// writes. It is acquired after `turn`.
    pub(crate) attaching: RwLock<()>,
}

/// An ingest that has not been attached. Its runs are dropped when its owner or the store ends the
/// ingest.
#[derive(Debug)]
pub(crate) struct RunningIngest {
    runs: RwLock<Option<Box<dyn BulkIngest>>>,
    memory: AtomicU64,
    /// Estimated memory of the running layer merges, in bytes.
    merging: AtomicU64,
    /// Number of layers. It can be read without waiting for a spill in progress.
    layers: AtomicU64,
    /// The transaction that spills to the ingest, if there is one.
    owner: OnceLock<Weak<dyn IngestOwner>>,
    /// Whether the layers are frozen because the ingest is being attached.
    is_frozen: AtomicBool,
}

/// The owner of an ingest that may end before the ingest is attached.
pub(crate) trait IngestOwner: std::fmt::Debug + Send + Sync {
    /// Returns the error for a call after the owner has ended, or `None` if it has not ended.
    fn why_ended(&self) -> Option<Error>;
}

/// Number of layers above which an ingest's writer helps to merge them. With fewer layers, the
/// background threads merge them alone.
const MOST_LAYERS: u64 = 48;

/// Number of records in one slice of a layer merge.
const MERGE_SLICE: usize = 4096;

/// An attachment that has been assigned its place in the commit order. Conditional commits wait
/// until it is dropped.
struct PlacedAttachment<'e> {
    place: SequenceAssignment,
    held: SpaceReservation<'e>,
    alone: RwLockWriteGuard<'e, ()>,
}

/// The result of assigning an attachment its place in the commit order.
enum AttachmentPlacement<'e> {
    Placed(PlacedAttachment<'e>),
    /// A locking transaction has begun, so the caller must lock the written ranges first.
    NeedsLocks,
    ConditionFailed,
}

/// The result of an attempt to attach ingests.
enum AttachAttempt {
    Attached { last: SequenceNumber },
    NeedsLocks,
    ConditionFailed,
}

/// Number of times that validation of a condition starts over because commits left memory before
/// they were validated. After that, other commits wait for the validation.
const MOST_GAPS: u32 = 3;

/// A set of ingests that are attached to the store in a single commit.
pub(crate) struct IngestAttachment<'a> {
    /// The ingests, one for each structure written to.
    pub(crate) ingests: &'a [&'a RunningIngest],
    /// The first and last key written in each keyspace, as dictionary keys.
    pub(crate) stretches: &'a [(TreeKey, TreeKey)],
    pub(crate) owners: CommitKeyspaces<'a>,
    /// Whether a transaction already holds the locks of the written keys.
    pub(crate) is_locked: bool,
    /// The condition for attaching the ingests, or `None` if they are attached unconditionally.
    pub(crate) terms: Option<&'a dyn AttachPreconditions>,
}

/// The condition for attaching ingests. Most commits are validated while other commits continue.
pub(crate) trait AttachPreconditions {
    /// Validates all commits so far, unless they are all in memory.
    fn prepare(&self) -> Result<()>;

    /// Captures the commits that have not been validated, so that they stay in memory even when
    /// they are flushed. Returns false if some of them are no longer in memory.
    fn capture(&self) -> bool;

    /// Validates the captured commits, all of which have been flushed.
    fn validate_captured(&self) -> Result<()>;

    /// Validates the commits made after the captured ones. No other commit is in progress during
    /// this call. If some of the commits are no longer in memory, returns `None` unless
    /// `may_take_long` is set.
    fn holds(&self, may_take_long: bool) -> Result<Option<ConditionVerdict>>;
}

impl IngestRegistry {
    /// Returns the memory of all running ingests, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let under_way = self.under_way.lock();
        let alive = under_way.iter().filter_map(Weak::upgrade);
        let bytes = |one: Arc<RunningIngest>| {
            one.memory.load(Ordering::Relaxed) + one.merging.load(Ordering::Relaxed)
        };
        alive.map(bytes).sum()
    }

    /// Runs one slice of layer merging in one of the running ingests.
    pub(super) fn merge_slice(&self) -> Result<SliceOutcome> {
        let mut running: Vec<Arc<RunningIngest>> = Vec::new();
        running.extend(self.under_way.lock().iter().filter_map(Weak::upgrade));
        for ingest in running {
            match ingest.merge_slice() {
                Ok(SliceOutcome::Nothing) => {}
                Ok(SliceOutcome::Something) => return Ok(SliceOutcome::Something),
                // Without the merge, lookups become slower, but nothing is lost. The next spill
                // starts it again.
                Err(error) if error.is_full() || error.failing_tier().is_some() => {}
                // The transaction's own reads report the damage.
                Err(alluvium_storage::Error::Corrupt { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(SliceOutcome::Nothing)
    }

    /// Ends all running ingests and drops their runs.
    pub(crate) fn end(&self) {
        let _alone = self.turn.lock();
        for one in self.under_way.lock().drain(..).filter_map(|one| one.upgrade()) {
            *one.runs.write() = None;
        }
    }
}

impl RunningIngest {
    /// Adds a record to the ingest. Returns `None` if the ingest has ended.
    pub(crate) fn push(&self, key: &[u8], message: Message<'_>) -> Option<alluvium_storage::Result<()>> {
        let mut runs = self.runs.write();
        let pushed = runs.as_mut()?.push(key, message);
        match &pushed {
            Ok(()) => self.count_memory(runs.as_deref()),
            // An ingest that has failed can only be dropped.
            Err(_) => *runs = None,
        }
        Some(pushed)
    }

    /// Calls `write`, which adds layers to the ingest. If `write` fails, the layers that it added
    /// are removed.
    pub(crate) fn add_layers(
        &self,
        write: impl FnOnce(&mut dyn BulkIngest) -> alluvium_storage::Result<()>,
    ) -> Result<()> {
        let mut runs = self.runs.write();
        let ingest = runs.as_mut().ok_or_else(|| self.ended())?;
        let before = ingest.mark();
        let written = write(&mut **ingest);
        if written.is_err() {
            ingest.keep(before);
        }
        self.count_memory(runs.as_deref());
        Ok(written?)
    }

    /// Removes all layers added after `mark` was taken.
    pub(crate) fn keep(&self, mark: u64) {
        let mut runs = self.runs.write();
        if let Some(ingest) = runs.as_mut() {
            ingest.keep(mark);
        }
        self.count_memory(runs.as_deref());
    }

    /// Sets the marks, besides the current one, that the ingest may be rolled back to.
    pub(crate) fn protect(&self, marks: &[u64]) {
        if let Some(ingest) = self.runs.write().as_mut() {
            ingest.protect(marks);
        }
    }

    /// Runs one slice of layer merging. Returns whether a merge was running.
    pub(crate) fn merge_slice(&self) -> alluvium_storage::Result<SliceOutcome> {
        let is_due = self.runs.read().as_ref().is_some_and(|runs| runs.is_merge_due());
        if is_due {
            self.arrange_merges()?;
        }
        // The slice runs without the lock, so that the ingest's owner can read and write.
        let merge = self.runs.read().as_ref().and_then(|runs| runs.running_merge());
        let Some(merge) = merge.filter(|_| !self.is_frozen.load(Ordering::Relaxed)) else {
            return Ok(SliceOutcome::Nothing);
        };
        if merge.step(MERGE_SLICE)? == StepProgress::Done {
            self.arrange_merges()?;
        }
        Ok(SliceOutcome::Something)
    }

    fn arrange_merges(&self) -> alluvium_storage::Result<()> {
        let mut runs = self.runs.write();
        let arranged = match runs.as_mut().filter(|_| !self.is_frozen.load(Ordering::Relaxed)) {
            Some(ingest) => ingest.arrange_merges(),
            None => Ok(()),
        };
        self.count_memory(runs.as_deref());
        arranged
    }

    /// Merges layers on the calling thread while there are too many of them. Does nothing if the
    /// disk is full.
    pub(crate) fn merge_if_behind(&self) -> Result<()> {
        while self.layers() > MOST_LAYERS {
            match self.merge_slice() {
                Ok(SliceOutcome::Something) => {}
                Ok(SliceOutcome::Nothing) => break,
                Err(error) if error.is_full() => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Ends the layer merges, so that the number of layers stays fixed from now on.
    fn freeze(&self) {
        let mut runs = self.runs.write();
        if let Some(ingest) = runs.as_mut() {
            ingest.end_merges();
        }
        self.is_frozen.store(true, Ordering::Relaxed);
    }

    /// Calls `read` with the runs of the ingest. Fails if the ingest has ended.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&dyn BulkIngest) -> Result<T>) -> Result<T> {
        let runs = self.runs.read();
        read(&**runs.as_ref().ok_or_else(|| self.ended())?)
    }

    /// Sets the transaction that spills to the ingest.
    pub(crate) fn set_owner(&self, owner: Weak<dyn IngestOwner>) {
        // An ingest never changes its owner, so if an owner is already set, it is this one.
        let _ = self.owner.set(owner);
    }

    /// Returns the error for a call after the ingest has ended. If a transaction spilled to it, the
    /// transaction has ended, or the store is being closed.
    fn ended(&self) -> Error {
        match self.owner.get().map(Weak::upgrade) {
            None => Error::IngestEnded,
            Some(owner) => match owner.map(|owner| owner.why_ended()) {
                Some(Some(error)) => error,
                Some(None) | None => Error::Closed,
            },
        }
    }

    /// Returns the number of layers, or 0 if the ingest has ended.
    pub(crate) fn layers(&self) -> u64 {
        self.layers.load(Ordering::Relaxed)
    }

    /// Ends the ingest and drops its runs. Does nothing if it has already ended.
    pub(crate) fn end(&self) {
        drop(self.take());
    }

    /// Returns the memory of the records and runs that the ingest holds, in bytes. Running merges
    /// are not included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    fn count_memory(&self, runs: Option<&(dyn BulkIngest + 'static)>) {
        let bytes = runs.map_or(0, BulkIngest::memory_bytes);
        self.memory.store(bytes, Ordering::Relaxed);
        let merging = runs.map_or(0, BulkIngest::merging_bytes);
        self.merging.store(merging, Ordering::Relaxed);
        let layers = runs.map_or(0, BulkIngest::layers);
        self.layers.store(layers, Ordering::Relaxed);
    }

    fn take(&self) -> Option<Box<dyn BulkIngest>> {
        let mut runs = self.runs.write();
        self.count_memory(None);
        runs.take()
    }
}

impl Engine {
    /// Begins an ingest into a dictionary.
    pub(crate) fn begin_ingest(&self, place: DictionaryPlace) -> Result<Arc<RunningIngest>> {
        self.health()?;
        let under_way = Arc::new(RunningIngest {
            runs: RwLock::new(Some(self.dictionaries.ingest(place, AllocationClass::Normal)?)),
            memory: AtomicU64::new(0),
            merging: AtomicU64::new(0),
            layers: AtomicU64::new(0),
            owner: OnceLock::new(),
            is_frozen: AtomicBool::new(false),
        });
        let mut all = self.ingests.under_way.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&under_way));
        drop(all);
        // Check again. A thread that closes the store first marks it as closed, and then ends all
        // ingests in the list. It may have missed this ingest, which was added only now.
        self.health()?;
        Ok(under_way)
    }

    /// Attaches ingests to the store as one commit, and returns the commit's last sequence number.
    /// The commit becomes durable before it becomes visible. If the condition is false, returns
    /// `None` and changes nothing.
    pub(crate) fn attach(&self, attachment: &IngestAttachment<'_>) -> Result<Option<SequenceNumber>> {
        let mut locks = None;
        loop {
            // Acquire locks before the turn, because their owners may be waiting for it.
            if self.locks.are_required() && locks.is_none() && !attachment.is_locked {
                locks = Some(self.lock_stretches(attachment.stretches)?);
            }
            let _turn = self.ingests.turn.lock();
            match self.attach_in_turn(attachment, locks.is_some())? {
                AttachAttempt::NeedsLocks => {}
                AttachAttempt::ConditionFailed => return Ok(None),
                AttachAttempt::Attached { last } => return Ok(Some(last)),
            }
        }
    }

    fn attach_in_turn(&self, attachment: &IngestAttachment<'_>, has_locks: bool) -> Result<AttachAttempt> {
        self.health()?;
        // Each layer needs a sequence number, and so does each write in the log record.
        let mut count = attachment.stretches.len() as u64;
        for ingest in attachment.ingests {
            ingest.freeze();
            count = count.max(ingest.read(|runs| Ok(runs.layers() + 1))?);
        }
        let PlacedAttachment {
            place,
            held,
            alone: _alone,
        } = match self.place_attachment(attachment, count, has_locks)? {
            AttachmentPlacement::Placed(placed) => placed,
            AttachmentPlacement::NeedsLocks => return Ok(AttachAttempt::NeedsLocks),
            AttachmentPlacement::ConditionFailed => return Ok(AttachAttempt::ConditionFailed),
        };
        // This cannot fail, because no ingest can be ended while ingests are attached.
        let taken = attachment.ingests.iter().filter_map(|ingest| ingest.take());
        let runs: Vec<Box<dyn BulkIngest>> = taken.collect();
        assert_eq!(runs.len(), attachment.ingests.len(), "ingests end alone");
        let records = runs.iter().map(|runs| runs.records()).sum();
        let bytes = runs.iter().map(|runs| runs.bytes()).sum();
        let last = place.first + count - 1;
        let committing = CommitGuard::new(self);
        let attached = self.try_attach(runs, &place, last, attachment.stretches);
        committing.end();
        if let Err(error) = attached {
            // These sequence numbers belong to an empty memtable, so there is nothing to undo.
            self.visible.complete(place.first, last);
            if let Some(error) = error.storage() {
                self.throttle.note(error);
            }
            return Err(error);
        }
        self.queue.remove(&place.slot);
        drop(held);
        self.make_attached_durable()?;
        self.visible.complete(place.first, last);
        self.throttle.wake_writers();
        self.counters.add([
            (EngineCounter::Commits, 1),
            (EngineCounter::Puts, records),
            (EngineCounter::WrittenBytes, bytes),
        ]);
        self.visible.wait_for(last);
        Ok(AttachAttempt::Attached { last })
    }

    /// Assigns `count` sequence numbers that belong to a separate, empty memtable, and logs them.
    /// Returns `None` if the condition is false. Makes a checkpoint first, so that all earlier
    /// writes are in it, and makes another one if other writers have filled the log since.
    ///
    /// Other commits continue until few commits remain to be validated and flushed.
    fn place_attachment(
        &self,
        attachment: &IngestAttachment<'_>,
        count: u64,
        has_locks: bool,
    ) -> Result<AttachmentPlacement<'_>> {
        if attachment.terms.is_some() {
            self.stripes.require_locks(&self.writers);
        }
        let (mut turns, mut gaps) = (0, 0);
        loop {
            self.flush_before_attachment(attachment.terms)?;
            let held = self.hold_space(count, attachment.ingests.len())?;
            for ingest in attachment.ingests {
                ingest.read(|runs| Ok(runs.rehearse_attach()?))?;
            }
            let alone = self.ingests.attaching.write();
            if self.locks.are_required() && !has_locks && !attachment.is_locked {
                return Ok(AttachmentPlacement::NeedsLocks);
            }
            let place = {
                // If the keyspace is dropped from now on, the drop waits for this guard and then
                // deletes the attached data.
                let _writing = self.writers.pin();
                self.catalog.alive(attachment.owners)?;
                let _no_commits = attachment.terms.map(|_| self.stripes.lock_everything());
                let may_take_long = gaps >= MOST_GAPS;
                let holds = attachment.terms.map(|terms| terms.holds(may_take_long));
                match holds.transpose()? {
                    Some(None) => {
                        gaps += 1;
                        continue;
                    }
                    Some(Some(ConditionVerdict::Stop)) => return Ok(AttachmentPlacement::ConditionFailed),
                    Some(Some(ConditionVerdict::Go)) | None => {}
                }
                self.queue.assign_empty(count)
            };
            let Err(error) = self.log_attachment(place.first, count, attachment.stretches) else {
                return Ok(AttachmentPlacement::Placed(PlacedAttachment {
                    place,
                    held,
                    alone,
                }));
            };
            // These sequence numbers belong to an empty memtable, so there is nothing to undo.
            self.visible.complete(place.first, place.first + count - 1);
            turns += 1;
            if !is_log_full(&error) || turns > LOG_TURNS {
                self.note_full(&error);
                return Err(error);
            }
        }
    }

    /// Makes checkpoints that contain all writes so far, and validates the condition against these
    /// writes, while other commits continue.
    fn flush_before_attachment(&self, terms: Option<&dyn AttachPreconditions>) -> Result<()> {
        self.checkpoint_everything()?;
        let Some(terms) = terms else {
            return Ok(());
        };
        loop {
            terms.prepare()?;
            // The first validation may have taken long. Flush what was written meanwhile, so that
            // little is left to do while other commits wait.
            if terms.capture() {
                self.checkpoint_everything()?;
                return terms.validate_captured();
            }
        }
    }

    /// Reserves space for the checkpoint that will make an attachment of `count` layers durable.
    /// The space must be reserved in advance, because an attachment cannot be undone when the disk
    /// turns out to be full. If space is short, first frees dead space, and then waits until data
    /// is moved to another tier.
    fn hold_space(&self, count: u64, structures: usize) -> Result<SpaceReservation<'_>> {
        let mut turns = 0;
        loop {
            match self.try_hold_space(count, structures) {
                Err(error) if error.is_full() && self.frees_space(turns)? => turns += 1,
                Err(error) => {
                    self.note_full(&error);
                    return Err(error);
                }
                held => return held,
            }
        }
    }

    fn try_hold_space(&self, count: u64, structures: usize) -> Result<SpaceReservation<'_>> {
        let mut held = SpaceReservation {
            store: &self.store,
            extents: Vec::new(),
        };
        let of_structures = structures as u64 * STRUCTURE_UNITS;
        for _ in 0..CHECKPOINT_UNITS + of_structures + count / LAYERS_PER_UNIT {
            let unit = self.store.extents().allocate(0, 1, AllocationClass::Normal);
            held.extents.push(self.store.poison_on_error(unit)?);
        }
        Ok(held)
    }

    fn try_attach(
        &self,
        runs: Vec<Box<dyn BulkIngest>>,
        place: &SequenceAssignment,
        last: SequenceNumber,
        stretches: &[(TreeKey, TreeKey)],
    ) -> Result<()> {
        // Comparing the sequence number up to which the tree contains all commits is not enough,
        // because the previous memtable may be empty but not yet removed from the queue.
        while !self.queue.is_oldest(&place.slot) {
            self.store.health()?;
            if self.incorporate_slice(usize::MAX)? == SliceOutcome::Nothing {
                // Another thread is flushing, or a commit is still being applied to its memtable.
                std::thread::yield_now();
            }
        }
        for (first, behind) in stretches {
            self.records.forget_range(first, behind, last);
        }
        self.queue.empty_ranges().forget(last);
        self.committed_keys.note_attachment(last);
        let _slice = self.work.slice();
        self.dictionaries.attach(runs, place.first, last)
    }

    fn log_attachment(
        &self,
        first: SequenceNumber,
        count: u64,
        stretches: &[(TreeKey, TreeKey)],
    ) -> Result<()> {
        let mut record = Vec::new();
        for (first, last) in stretches {
            format::encode_ingest(&mut record, first, last);
        }
        let (log, durability) = (self.store.log(), log::LogDurability::Process);
        let (named, all) = (stretches.len() as u32, count as u32);
        match log.append_as(first, named, &record, durability, AppendPriority::Normal) {
            Err(error) if error.is_full() => {
                self.void_sequences(first, all)?;
                return Err(error.into());
            }
            other => self.store.poison_on_error(other)?,
        }
        // Void the sequence numbers of layers without a write in the log record.
        if all > named {
            self.void_sequences(first + u64::from(named), all - named)?;
        }
        Ok(())
    }

    /// Makes a checkpoint that contains the attached ingests. An attachment cannot be undone, so
    /// this must succeed unless the device fails.
    fn make_attached_durable(&self) -> Result<()> {
        let mut tries = 0;
        loop {
            match self.checkpoint_now() {
                Ok(()) => return Ok(()),
                Err(error) if error.is_full() && tries < TRIES => {
                    tries += 1;
                    self.reclaim_slice()?;
                    self.throttle.wait_for_progress();
                }
                Err(error) => {
                    // The store rejects all changes from now on, so commits that wait for
                    // visibility fail. Only reopening the store shows whether it contains the
                    // ingest.
                    let cause = error.to_string();
                    let poisoned = alluvium_storage::Error::Poisoned { cause };
                    let refused = self.store.poison_on_error::<()>(Err(poisoned));
                    self.visible.stop();
                    // Even a full disk does not prove that the ingest was lost, because a
                    // superblock containing it may already have been written.
                    return Ok(refused?);
                }
            }
        }
    }
}
