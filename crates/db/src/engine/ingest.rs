//! Ingest: runs are built outside the write path, and become part of the store as one commit.
//!
//! ```text
//!   built       by loads and by transactions, in extents that a crash frees           trees
//!   alone       no other ingest, no conditional write
//!   emptied     what was written so far is in a checkpoint, so that what follows is short
//!   asked       whether what it depends on still holds, with no other commit on its way
//!   numbered    numbers N to M, in a memtable of its own; the log has a record for them
//!   sunk        every memtable before it is in the tree
//!   forgotten   records that are kept of its keys (Y1)
//!   attached    the tree's cut is M; no reader is there yet
//!   durable     a checkpoint holds M
//!   visible     and with it the commits above M, which waited since it was numbered
//! ```
//!
//! The records of an ingest are not in the log. Commits above N are therefore acknowledged only
//! once a checkpoint contains M; otherwise a crash would leave a gap.

use super::Engine;
use super::commit::{ConditionVerdict, LOG_TURNS, is_log_full};
use super::counters::EngineCounter;
use super::guard::CommitGuard;
use super::queue::SequenceAssignment;
use crate::error::{Error, Result};
use crate::options::kind::StructureKind;
use crate::schema::catalog::CommitKeyspaces;
use crate::schema::format::{self, TreeKey};
use alluvium_base::{Message, SequenceNumber};
use alluvium_dictionary::contract::BulkIngest;
use alluvium_storage::extents::{AllocationClass, Extent};
use alluvium_storage::log::{self, AppendPriority};
use alluvium_storage::store::Store;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Maximum number of retries, each after a poll interval, of a checkpoint that finds the disk full
/// before the store gives up.
const TRIES: u32 = 500;

/// Units of space needed by a checkpoint that makes few layers durable, without the units per
/// structure.
const CHECKPOINT_UNITS: u64 = 4;

/// Units needed per structure: for its root and for the nodes that the root names.
const STRUCTURE_UNITS: u64 = 2;

/// Approximate number of layers that need one more unit: each layer is named in some nodes of the
/// trunk.
const LAYERS_PER_UNIT: u64 = 64;

/// Space reserved until this is dropped.
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

/// The running ingests of a store.
#[derive(Debug, Default)]
pub(crate) struct IngestRegistry {
    under_way: Mutex<Vec<Weak<RunningIngest>>>,
    /// Held exclusively during an attachment, and shared by conditional writes.
    pub(crate) attaching: RwLock<()>,
}

/// A running ingest. Its runs are dropped when its owner or the store ends it.
#[derive(Debug)]
pub(crate) struct RunningIngest {
    runs: RwLock<Option<Box<dyn BulkIngest>>>,
    memory: AtomicU64,
}

/// Ingests that become part of the store as one commit.
pub(crate) struct IngestAttachment<'a> {
    /// One ingest for each structure that is written to.
    pub(crate) ingests: &'a [&'a RunningIngest],
    /// The first and last key written in each keyspace, as dictionary keys.
    pub(crate) stretches: &'a [(TreeKey, TreeKey)],
    pub(crate) owners: CommitKeyspaces<'a>,
    /// Whether a transaction already holds locks on the written keys.
    pub(crate) is_locked: bool,
    /// The condition of the attachment, if there is one.
    pub(crate) terms: Option<&'a dyn AttachPreconditions>,
}

/// The condition of an attachment.
pub(crate) trait AttachPreconditions {
    /// Checks all commits so far, while other commits continue.
    fn prepare(&self) -> Result<()>;

    /// Checks the commits since [`AttachPreconditions::prepare`], while no other commit is in
    /// progress.
    fn holds(&self) -> Result<ConditionVerdict>;
}

impl IngestRegistry {
    /// Returns the memory of all running ingests in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let under_way = self.under_way.lock();
        let alive = under_way.iter().filter_map(Weak::upgrade);
        alive.map(|one| one.memory.load(Ordering::Relaxed)).sum()
    }

    /// Ends all ingests and drops their runs.
    pub(crate) fn end(&self) {
        let _alone = self.attaching.write();
        for one in self.under_way.lock().drain(..).filter_map(|one| one.upgrade()) {
            *one.runs.write() = None;
        }
    }
}

impl RunningIngest {
    /// Adds a record. Returns `None` if the ingest has ended.
    pub(crate) fn push(&self, key: &[u8], message: Message<'_>) -> Option<alluvium_storage::Result<()>> {
        let mut runs = self.runs.write();
        let pushed = runs.as_mut()?.push(key, message);
        match &pushed {
            Ok(()) => self.count_memory(runs.as_deref()),
            // After an error the ingest can only be dropped.
            Err(_) => *runs = None,
        }
        Some(pushed)
    }

    /// Adds the layers that `write` writes. If that fails, the ingest is unchanged.
    pub(crate) fn add_layers(
        &self,
        write: impl FnOnce(&mut dyn BulkIngest) -> alluvium_storage::Result<()>,
    ) -> Result<()> {
        let mut runs = self.runs.write();
        let ingest = runs.as_mut().ok_or(Error::IngestEnded)?;
        let layers = ingest.layers();
        let written = write(&mut **ingest);
        if written.is_err() {
            ingest.keep(layers);
        }
        self.count_memory(runs.as_deref());
        Ok(written?)
    }

    /// Drops all but the `layers` oldest layers.
    pub(crate) fn keep(&self, layers: u64) {
        let mut runs = self.runs.write();
        if let Some(ingest) = runs.as_mut() {
            ingest.keep(layers);
        }
        self.count_memory(runs.as_deref());
    }

    /// Calls `read` with the runs.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&dyn BulkIngest) -> Result<T>) -> Result<T> {
        let runs = self.runs.read();
        read(&**runs.as_ref().ok_or(Error::IngestEnded)?)
    }

    /// Ends the ingest and drops its runs.
    pub(crate) fn end(&self) {
        drop(self.take());
    }

    /// Returns its memory in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    fn count_memory(&self, runs: Option<&(dyn BulkIngest + 'static)>) {
        let bytes = runs.map_or(0, BulkIngest::memory_bytes);
        self.memory.store(bytes, Ordering::Relaxed);
    }

    fn take(&self) -> Option<Box<dyn BulkIngest>> {
        self.memory.store(0, Ordering::Relaxed);
        self.runs.write().take()
    }
}

impl Engine {
    /// Begins an ingest into a structure.
    pub(crate) fn begin_ingest(&self, structure: StructureKind) -> Result<Arc<RunningIngest>> {
        self.health()?;
        let under_way = Arc::new(RunningIngest {
            runs: RwLock::new(Some(
                self.dictionaries.ingest(structure, AllocationClass::Normal)?,
            )),
            memory: AtomicU64::new(0),
        });
        let mut all = self.ingests.under_way.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&under_way));
        drop(all);
        // A thread that closes the store first marks it closed, then ends the ingests in the list.
        self.health()?;
        Ok(under_way)
    }

    /// Attaches ingests to the store as one commit, which becomes durable and then visible. Returns
    /// `None` without any change if the condition does not hold.
    pub(crate) fn attach(&self, attachment: &IngestAttachment<'_>) -> Result<Option<SequenceNumber>> {
        let mut locks = None;
        let _alone = loop {
            if self.locks.are_required() && locks.is_none() && !attachment.is_locked {
                locks = Some(self.lock_stretches(attachment.stretches)?);
            }
            let alone = self.ingests.attaching.write();
            if locks.is_some() || attachment.is_locked || !self.locks.are_required() {
                break alone;
            }
        };
        self.health()?;
        // Each layer needs a sequence number, and so does each write of the log record.
        let mut count = attachment.stretches.len() as u64;
        for ingest in attachment.ingests {
            count = count.max(ingest.read(|runs| Ok(runs.layers() + 1))?);
        }
        let Some((place, held)) = self.place_attachment(attachment, count)? else {
            return Ok(None);
        };
        // Ingests are not ended during an attachment.
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
            // The memtable of these numbers is empty.
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
        Ok(Some(last))
    }

    /// Assigns `count` sequence numbers in a separate memtable and logs them. Returns `None` if the
    /// condition does not hold. All earlier writes are in a checkpoint; if other writers have
    /// filled the log since, another checkpoint is made.
    fn place_attachment(
        &self,
        attachment: &IngestAttachment<'_>,
        count: u64,
    ) -> Result<Option<(SequenceAssignment, SpaceReservation<'_>)>> {
        if attachment.terms.is_some() {
            self.stripes.require_locks(&self.writers);
        }
        let mut turns = 0;
        loop {
            self.checkpoint_everything()?;
            let held = self.hold_space(count, attachment.ingests.len())?;
            if let Some(terms) = attachment.terms {
                terms.prepare()?;
            }
            let place = {
                // A drop of the keyspace waits for this guard and then deletes the attached data.
                let _writing = self.writers.pin();
                self.catalog.alive(attachment.owners)?;
                let _no_commits = attachment.terms.map(|_| self.stripes.lock_everything());
                if let Some(terms) = attachment.terms
                    && let ConditionVerdict::Stop = terms.holds()?
                {
                    return Ok(None);
                }
                self.queue.assign_empty(count)
            };
            let Err(error) = self.log_attachment(place.first, count, attachment.stretches) else {
                return Ok(Some((place, held)));
            };
            // The memtable of these numbers is empty.
            self.visible.complete(place.first, place.first + count - 1);
            turns += 1;
            if !is_log_full(&error) || turns > LOG_TURNS {
                self.note_full(&error);
                return Err(error);
            }
        }
    }

    /// Reserves space for the checkpoint that makes an attachment of `count` layers durable: an
    /// attachment cannot be undone if the disk is full. If there is no space, dead space is freed
    /// first; then this waits for data to move to another tier.
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
        // Comparing the tree's cut is not enough: the previous memtable may be empty and still be
        // in the process of removal.
        while !self.queue.is_oldest(&place.slot) {
            self.store.health()?;
            if self.incorporate_slice(usize::MAX)? == super::SliceOutcome::Nothing {
                // Another thread is flushing, or a commit is being applied to its memtable.
                std::thread::yield_now();
            }
        }
        for (first, behind) in stretches {
            self.records.forget_range(first, behind, last);
        }
        self.queue.empty_ranges().forget(last);
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
        // Void the numbers of the layers beyond the writes of the record.
        if all > named {
            self.void_sequences(first + u64::from(named), all - named)?;
        }
        Ok(())
    }

    /// Makes a checkpoint. It may fail only if the device fails, because an attachment cannot be
    /// undone.
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
                    // Waiting commits fail because the store refuses changes; only reopening shows
                    // whether it contains the ingest.
                    let cause = error.to_string();
                    let poisoned = alluvium_storage::Error::Poisoned { cause };
                    let refused = self.store.poison_on_error::<()>(Err(poisoned));
                    self.visible.stop();
                    // A full disk does not prove that the ingest is missing: a superblock may have
                    // been written.
                    return Ok(refused?);
                }
            }
        }
    }
}
