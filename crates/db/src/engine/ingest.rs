//! Ingest: runs that are built beside everything else, and become part of the store as one commit.
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
//! No log has the records. So whatever is above N is acknowledged only once a checkpoint holds M,
//! or a crash would leave a hole.

use super::Engine;
use super::commit::{LOG_TURNS, Verdict, is_log_full};
use super::guard::Committing;
use super::queue::Place;
use super::tallies::Tally;
use crate::catalog::Owners;
use crate::format::{self, TreeKey};
use crate::structure::Structure;
use crate::{Error, Result};
use alluvium_base::{Message, Sequence};
use alluvium_dictionary::contract::Ingest;
use alluvium_storage::extents::{Class, Extent};
use alluvium_storage::log::{self, Importance};
use alluvium_storage::store::Store;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// How often a checkpoint that finds the disk full is tried again, with a nap before, until the
/// store gives up.
const TRIES: u32 = 500;

/// How many units of space a checkpoint takes that makes few layers durable, beside those of
/// structures.
const CHECKPOINT_UNITS: u64 = 4;

/// How many units each structure takes for that: for its root, and for what the root names.
const STRUCTURE_UNITS: u64 = 2;

/// How many layers make it take one more, about: each is named in some nodes of the trunk.
const LAYERS_PER_UNIT: u64 = 64;

/// Space that is kept from others until this is dropped.
struct HeldSpace<'e> {
    store: &'e Store,
    extents: Vec<Extent>,
}

impl Drop for HeldSpace<'_> {
    fn drop(&mut self) {
        for extent in self.extents.drain(..) {
            self.store.extents().abandon(extent);
        }
    }
}

/// The ingests of a store.
#[derive(Debug, Default)]
pub(crate) struct Ingests {
    under_way: Mutex<Vec<Weak<UnderWay>>>,
    /// Held by who attaches; shared by writes that depend on what they read.
    pub(crate) attaching: RwLock<()>,
}

/// One ingest. Its runs are gone once it has ended, by its owner or by the store.
#[derive(Debug)]
pub(crate) struct UnderWay {
    runs: RwLock<Option<Box<dyn Ingest>>>,
    memory: AtomicU64,
}

/// What becomes part of the store as one commit.
pub(crate) struct Attachment<'a> {
    /// One for each structure.
    pub(crate) ingests: &'a [&'a UnderWay],
    /// The first and last keys of each keyspace that is written to, as dictionaries have them.
    pub(crate) stretches: &'a [(TreeKey, TreeKey)],
    /// The keyspaces that are written to.
    pub(crate) owners: Owners<'a>,
    /// Whether a transaction has locked what is written.
    pub(crate) is_locked: bool,
    /// What it depends on.
    pub(crate) terms: Option<&'a dyn AttachTerms>,
}

/// What an attachment depends on.
pub(crate) trait AttachTerms {
    /// Looks at all that was committed so far; other commits go on meanwhile.
    fn prepare(&self) -> Result<()>;

    /// Looks at what was committed since, with no other commit on its way.
    fn holds(&self) -> Result<Verdict>;
}

impl Ingests {
    /// Bytes of memory that they take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let under_way = self.under_way.lock();
        let alive = under_way.iter().filter_map(Weak::upgrade);
        alive.map(|one| one.memory.load(Ordering::Relaxed)).sum()
    }

    /// Ends all of them: nothing of them is left.
    pub(crate) fn end(&self) {
        let _alone = self.attaching.write();
        for one in self.under_way.lock().drain(..).filter_map(|one| one.upgrade()) {
            *one.runs.write() = None;
        }
    }
}

impl UnderWay {
    /// Takes a record; how it went. None once it has ended.
    pub(crate) fn push(&self, key: &[u8], message: Message<'_>) -> Option<alluvium_storage::Result<()>> {
        let mut runs = self.runs.write();
        let pushed = runs.as_mut()?.push(key, message);
        match &pushed {
            Ok(()) => self.count_memory(runs.as_deref()),
            // It can only be dropped.
            Err(_) => *runs = None,
        }
        Some(pushed)
    }

    /// Adds layers, which `write` writes. Where that fails it is as it was.
    pub(crate) fn add_layers(
        &self,
        write: impl FnOnce(&mut dyn Ingest) -> alluvium_storage::Result<()>,
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

    /// Drops all but its oldest layers.
    pub(crate) fn keep(&self, layers: u64) {
        let mut runs = self.runs.write();
        if let Some(ingest) = runs.as_mut() {
            ingest.keep(layers);
        }
        self.count_memory(runs.as_deref());
    }

    /// Reads what it has.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&dyn Ingest) -> Result<T>) -> Result<T> {
        let runs = self.runs.read();
        read(&**runs.as_ref().ok_or(Error::IngestEnded)?)
    }

    /// Ends it: nothing of it is left.
    pub(crate) fn end(&self) {
        drop(self.take());
    }

    /// Returns how many bytes of memory it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    fn count_memory(&self, runs: Option<&(dyn Ingest + 'static)>) {
        let bytes = runs.map_or(0, Ingest::memory_bytes);
        self.memory.store(bytes, Ordering::Relaxed);
    }

    fn take(&self) -> Option<Box<dyn Ingest>> {
        self.memory.store(0, Ordering::Relaxed);
        self.runs.write().take()
    }
}

impl Engine {
    /// Begins an ingest into a structure.
    pub(crate) fn begin_ingest(&self, structure: Structure) -> Result<Arc<UnderWay>> {
        self.health()?;
        let under_way = Arc::new(UnderWay {
            runs: RwLock::new(Some(self.dictionaries.ingest(structure, Class::Normal)?)),
            memory: AtomicU64::new(0),
        });
        let mut all = self.ingests.under_way.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&under_way));
        drop(all);
        // A thread that closes the store says so first, and ends what is in the list then.
        self.health()?;
        Ok(under_way)
    }

    /// Makes ingests part of the store as one commit: durable, and then visible. None if what they
    /// depend on does not hold: nothing has changed then.
    pub(crate) fn attach(&self, attachment: &Attachment<'_>) -> Result<Option<Sequence>> {
        let mut locks = None;
        let _alone = loop {
            if self.locks.are_wanted() && locks.is_none() && !attachment.is_locked {
                locks = Some(self.lock_stretches(attachment.stretches)?);
            }
            let alone = self.ingests.attaching.write();
            if locks.is_some() || attachment.is_locked || !self.locks.are_wanted() {
                break alone;
            }
        };
        self.health()?;
        // Each layer has a number, and so has each write of the log's record.
        let mut count = attachment.stretches.len() as u64;
        for ingest in attachment.ingests {
            count = count.max(ingest.read(|runs| Ok(runs.layers() + 1))?);
        }
        let Some((place, held)) = self.place_attachment(attachment, count)? else {
            return Ok(None);
        };
        // Nothing ends them while an attachment goes on.
        let taken = attachment.ingests.iter().filter_map(|ingest| ingest.take());
        let runs: Vec<Box<dyn Ingest>> = taken.collect();
        assert_eq!(runs.len(), attachment.ingests.len(), "ingests end alone");
        let records = runs.iter().map(|runs| runs.records()).sum();
        let bytes = runs.iter().map(|runs| runs.bytes()).sum();
        let last = place.first + count - 1;
        let committing = Committing::new(self);
        let attached = self.try_attach(runs, &place, last, attachment.stretches);
        committing.end();
        if let Err(error) = attached {
            // The numbers' memtable is one that holds nothing.
            self.visible.complete(place.first, last);
            if let Some(error) = error.storage() {
                self.pressure.note(error);
            }
            return Err(error);
        }
        self.queue.remove(&place.slot);
        drop(held);
        self.make_attached_durable()?;
        self.visible.complete(place.first, last);
        self.pressure.relieved();
        self.tallies.add([
            (Tally::Commits, 1),
            (Tally::Puts, records),
            (Tally::WrittenBytes, bytes),
        ]);
        self.visible.wait_for(last);
        Ok(Some(last))
    }

    /// Takes `count` numbers that the log knows of, in a memtable of their own; none if what the
    /// attachment depends on does not hold. What was written before is in a checkpoint, and where
    /// others have filled the log since, in another one.
    fn place_attachment(
        &self,
        attachment: &Attachment<'_>,
        count: u64,
    ) -> Result<Option<(Place, HeldSpace<'_>)>> {
        if attachment.terms.is_some() {
            self.stripes.want(&self.writers);
        }
        let mut turns = 0;
        loop {
            self.checkpoint_everything()?;
            let held = self.hold_space(count, attachment.ingests.len())?;
            if let Some(terms) = attachment.terms {
                terms.prepare()?;
            }
            let place = {
                // A drop of a keyspace waits for it, and deletes what it attaches.
                let _writing = self.writers.pin();
                self.catalog.alive(attachment.owners)?;
                let _no_commits = attachment.terms.map(|_| self.stripes.lock_everything());
                if let Some(terms) = attachment.terms
                    && let Verdict::Stop = terms.holds()?
                {
                    return Ok(None);
                }
                self.queue.assign_empty(count)
            };
            let Err(error) = self.log_attachment(place.first, count, attachment.stretches) else {
                return Ok(Some((place, held)));
            };
            // The numbers' memtable is one that holds nothing.
            self.visible.complete(place.first, place.first + count - 1);
            turns += 1;
            if !is_log_full(&error) || turns > LOG_TURNS {
                self.note_full(&error);
                return Err(error);
            }
        }
    }

    /// Holds space for the checkpoint that makes an attachment of `count` layers to some structures
    /// durable: what is attached cannot be taken back where the disk is full.
    /// Where there is none, what died is freed first; then it waits for what goes to another tier.
    fn hold_space(&self, count: u64, structures: usize) -> Result<HeldSpace<'_>> {
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

    fn try_hold_space(&self, count: u64, structures: usize) -> Result<HeldSpace<'_>> {
        let mut held = HeldSpace {
            store: &self.store,
            extents: Vec::new(),
        };
        let of_structures = structures as u64 * STRUCTURE_UNITS;
        for _ in 0..CHECKPOINT_UNITS + of_structures + count / LAYERS_PER_UNIT {
            let unit = self.store.extents().allocate(0, 1, Class::Normal);
            held.extents.push(self.store.judge(unit)?);
        }
        Ok(held)
    }

    fn try_attach(
        &self,
        runs: Vec<Box<dyn Ingest>>,
        place: &Place,
        last: Sequence,
        stretches: &[(TreeKey, TreeKey)],
    ) -> Result<()> {
        // The one before it may hold nothing and still be on its way: the tree's cut alone does not
        // tell.
        while !self.queue.is_oldest(&place.slot) {
            self.store.health()?;
            if self.incorporate_slice(usize::MAX)? == super::Worked::Nothing {
                // Another thread is at it, or a commit is on its way into its memtable.
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

    fn log_attachment(&self, first: Sequence, count: u64, stretches: &[(TreeKey, TreeKey)]) -> Result<()> {
        let mut record = Vec::new();
        for (first, last) in stretches {
            format::encode_ingest(&mut record, first, last);
        }
        let (log, durability) = (self.store.log(), log::Durability::Process);
        let (named, all) = (stretches.len() as u32, count as u32);
        match log.append_as(first, named, &record, durability, Importance::Normal) {
            Err(error) if error.is_full() => {
                self.give_up(first, all)?;
                return Err(error.into());
            }
            other => self.store.judge(other)?,
        }
        // Layers beyond the writes of the record.
        if all > named {
            self.give_up(first + u64::from(named), all - named)?;
        }
        Ok(())
    }

    /// A checkpoint, which must not fail any more but with the device: what is attached cannot be
    /// taken back.
    fn make_attached_durable(&self) -> Result<()> {
        let mut tries = 0;
        loop {
            match self.checkpoint_now() {
                Ok(()) => return Ok(()),
                Err(error) if error.is_full() && tries < TRIES => {
                    tries += 1;
                    self.reclaim_slice()?;
                    self.pressure.nap();
                }
                Err(error) => {
                    // Commits that wait behind it are told of a store that takes no changes; only
                    // opening it again shows whether it has the ingest.
                    let cause = error.to_string();
                    let poisoned = alluvium_storage::Error::Poisoned { cause };
                    let refused = self.store.judge::<()>(Err(poisoned));
                    self.visible.stop();
                    // Nor does a full disk say that there is nothing of it: a superblock may be
                    // written.
                    return Ok(refused?);
                }
            }
        }
    }
}
