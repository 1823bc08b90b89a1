//! Ingest: runs that are built beside everything else, and become part of the tree as one commit.
//!
//! ```text
//!   built       by whoever ingests, in extents that a crash frees                     trees
//!   alone       no other ingest, no conditional write
//!   emptied     what was written so far is in a checkpoint, so that what follows is short
//!   numbered    one number N, in a memtable of its own; the log has a record for it
//!   sunk        every memtable before it is in the tree
//!   forgotten   records that are kept of its keys (Y1)
//!   attached    the tree's cut is N; nobody reads there yet
//!   durable     a checkpoint holds N
//!   visible     and with it the commits above N, which waited since it was numbered
//! ```
//!
//! No log has the records. So whatever is above N is acknowledged only once a checkpoint holds N,
//! or a crash would leave a hole.

use super::Engine;
use super::commit::{LOG_TURNS, is_log_full};
use super::guard::Committing;
use super::queue::Place;
use super::tallies::Tally;
use crate::catalog::Definition;
use crate::format;
use crate::structure::Structure;
use crate::{Error, Result};
use alluvium_base::Sequence;
use alluvium_dictionary::contract::Ingest;
use alluvium_storage::extents::Class;
use alluvium_storage::log::{self, Importance};
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// How often a checkpoint that finds the disk full is tried again, with a nap before, until the
/// store gives up.
const TRIES: u32 = 500;

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
    runs: Mutex<Option<Box<dyn Ingest>>>,
    memory: AtomicU64,
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
            *one.runs.lock() = None;
        }
    }
}

impl UnderWay {
    /// Takes a record; how it went. None once it has ended.
    pub(crate) fn push(
        &self,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
    ) -> Option<alluvium_storage::Result<()>> {
        let mut runs = self.runs.lock();
        let pushed = runs.as_mut()?.push(key, value, expires_ms);
        match &pushed {
            Ok(()) => {
                let bytes = runs.as_ref().map_or(0, |runs| runs.memory_bytes());
                self.memory.store(bytes, Ordering::Relaxed);
            }
            // It can only be dropped.
            Err(_) => *runs = None,
        }
        Some(pushed)
    }

    fn take(&self) -> Option<Box<dyn Ingest>> {
        self.memory.store(0, Ordering::Relaxed);
        self.runs.lock().take()
    }
}

impl Engine {
    /// Begins an ingest into a structure.
    pub(crate) fn begin_ingest(&self, structure: Structure) -> Result<Arc<UnderWay>> {
        self.health()?;
        let under_way = Arc::new(UnderWay {
            runs: Mutex::new(Some(self.dictionaries.ingest(structure, Class::Normal)?)),
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

    /// Makes an ingest, whose keys are from `first` to `last`, part of the tree: durable, and then
    /// visible.
    pub(crate) fn attach(
        &self,
        definition: &Definition,
        ingest: &UnderWay,
        first: &[u8],
        last: &[u8],
    ) -> Result<Sequence> {
        let mut locks = None;
        let _alone = loop {
            if self.locks.are_wanted() && locks.is_none() {
                locks = Some(self.lock_ingest(first, last)?);
            }
            let alone = self.ingests.attaching.write();
            if locks.is_some() || !self.locks.are_wanted() {
                break alone;
            }
        };
        self.health()?;
        let runs = ingest.take().ok_or(Error::IngestEnded)?;
        let (records, bytes) = (runs.records(), runs.bytes());
        let place = self.place_ingest(definition, first, last)?;
        let number = place.first;
        let committing = Committing::new(self);
        let attached = self.try_attach(runs, &place, first, last);
        committing.end();
        if let Err(error) = attached {
            // The number's memtable is one that holds nothing.
            self.visible.complete(number, number);
            if let Some(error) = error.storage() {
                self.pressure.note(error);
            }
            return Err(error);
        }
        self.queue.remove(&place.slot);
        self.make_attached_durable()?;
        self.visible.complete(number, number);
        self.pressure.relieved();
        self.tallies.add([
            (Tally::Commits, 1),
            (Tally::Puts, records),
            (Tally::WrittenBytes, bytes),
        ]);
        self.visible.wait_for(number);
        Ok(number)
    }

    /// A number that the log knows of, in a memtable of its own. What was written before is in a
    /// checkpoint, and where others have filled the log
    /// since, in another one.
    fn place_ingest(&self, definition: &Definition, first: &[u8], last: &[u8]) -> Result<Place> {
        let mut turns = 0;
        loop {
            self.checkpoint_everything()?;
            let place = {
                // A drop of the keyspace waits for it, and deletes what it attaches.
                let _writing = self.writers.pin();
                definition.alive()?;
                self.queue.assign_empty()
            };
            let Err(error) = self.log_ingest(place.first, first, last) else {
                return Ok(place);
            };
            // The number's memtable is one that holds nothing.
            self.visible.complete(place.first, place.first);
            turns += 1;
            if !is_log_full(&error) || turns > LOG_TURNS {
                self.note_full(&error);
                return Err(error);
            }
        }
    }

    fn try_attach(&self, runs: Box<dyn Ingest>, place: &Place, first: &[u8], last: &[u8]) -> Result<()> {
        let number = place.first;
        // The one before it may hold nothing and still be on its way: the tree's cut alone does not
        // tell.
        while !self.queue.is_oldest(&place.slot) {
            self.store.health()?;
            if self.incorporate_slice(usize::MAX)? == super::Worked::Nothing {
                // Another thread is at it, or a commit is on its way into its memtable.
                std::thread::yield_now();
            }
        }
        self.records.forget_range(first, last, number);
        let _slice = self.work.slice();
        self.dictionaries.attach(runs, number)
    }

    fn log_ingest(&self, number: Sequence, first: &[u8], last: &[u8]) -> Result<()> {
        let mut record = Vec::new();
        format::encode_ingest(&mut record, first, last);
        let log = self.store.log();
        let durability = log::Durability::Process;
        match log.append_as(number, 1, &record, durability, Importance::Normal) {
            Err(error) if error.is_full() => {
                self.give_up(number, 1)?;
                Err(error.into())
            }
            other => Ok(self.store.judge(other)?),
        }
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
                    // Commits that wait behind it are told of a store that takes no changes; opened
                    // again, the store is without the ingest.
                    let cause = error.to_string();
                    let poisoned = alluvium_storage::Error::Poisoned { cause };
                    let _ = self.store.judge::<()>(Err(poisoned));
                    self.visible.stop();
                    return Err(error);
                }
            }
        }
    }
}
