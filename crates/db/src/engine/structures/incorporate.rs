//! Flushes memtables into the dictionaries, and attaches ingests.

use super::DictionarySet;
use crate::error::Result;
use crate::options::kind::DictionaryPlace;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{BulkIngest, MemtableIncorporation, StepProgress};
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;

/// The part of a memtable that is being flushed into one dictionary.
#[derive(Debug)]
pub(in crate::engine) struct DictionaryFlush {
    pub(in crate::engine) place: DictionaryPlace,
    share: MemtableSlice,
    /// The flush, once it has begun. The parts are written one after the other, so that only one of
    /// them needs buffers at a time.
    begun: Option<Box<dyn MemtableIncorporation>>,
    is_published: bool,
}

impl DictionaryFlush {
    /// Returns the number of messages that have been flushed so far.
    pub(in crate::engine) fn taken(&self) -> usize {
        self.begun.as_ref().map_or(0, |begun| begun.taken())
    }
}

impl DictionarySet {
    /// Divides a sealed memtable among the dictionaries that do not contain it yet. Dictionaries
    /// without a message in it are left out, except for the tree, which counts the memtables.
    pub(in crate::engine) fn take(
        &self,
        memtable: &Arc<Memtable>,
        cut: SequenceNumber,
    ) -> Vec<DictionaryFlush> {
        let behind = self.live().filter(|(_, dictionary)| dictionary.cut() < cut);
        let shares = behind.map(|(place, _)| DictionaryFlush {
            place,
            share: MemtableSlice::new(Arc::clone(memtable), cut, self.keys_of(place)),
            begun: None,
            is_published: false,
        });
        let has_share =
            |taking: &DictionaryFlush| taking.place == DictionaryPlace::TREE || !taking.share.is_empty();
        shares.filter(has_share).collect()
    }

    /// Flushes about `records` more messages of a part, and begins to if it has not begun.
    pub(in crate::engine) fn flush(
        &self,
        taking: &mut DictionaryFlush,
        records: usize,
        class: AllocationClass,
    ) -> alluvium_storage::Result<StepProgress> {
        let begun = match &mut taking.begun {
            Some(begun) => begun,
            none => {
                let begun = self.of(taking.place).incorporate(taking.share.clone(), class)?;
                none.insert(begun)
            }
        };
        begun.poll(records)
    }

    /// Makes all dictionaries publish their flushed parts of a memtable. If one fails, sets
    /// `failed` to it. The dictionaries before it have then published their parts, as
    /// `is_published` records.
    pub(in crate::engine) fn publish(
        &self,
        memtable: &Memtable,
        taken: &mut [DictionaryFlush],
        cut: SequenceNumber,
        failed: &mut Option<DictionaryPlace>,
    ) -> alluvium_storage::Result<()> {
        let _publishing = self.publishing.lock();
        for taking in taken.iter_mut().filter(|taking| !taking.is_published) {
            let begun = taking.begun.as_mut().expect("it was written before");
            begun.publish().inspect_err(|_| *failed = Some(taking.place))?;
            taking.is_published = true;
        }
        self.second_catalog.take(memtable);
        // The memtable has no writes to the keys of the other dictionaries, some of which may have
        // been created since the flush began.
        self.advance(cut)
    }

    fn advance(&self, cut: SequenceNumber) -> alluvium_storage::Result<()> {
        let mut behind = self.live().filter(|(_, dictionary)| dictionary.cut() < cut);
        behind.try_for_each(|(_, dictionary)| dictionary.advance(cut))
    }

    /// Attaches ingests to their dictionaries as the commits from `first` to `last`.
    pub(in crate::engine) fn attach(
        &self,
        mut all: Vec<Box<dyn BulkIngest>>,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> Result<()> {
        let _publishing = self.publishing.lock();
        // Allocate all space first, so that a full disk is detected before any dictionary changes.
        all.iter_mut().try_for_each(|ingest| ingest.prepare(first))?;
        let mut attached = 0;
        for ingest in all {
            match ingest.attach(first) {
                Ok(()) => attached += 1,
                // Some dictionaries have attached their ingests and others have not. Only reopening
                // the store can undo this.
                Err(error) if attached > 0 => {
                    let cause = error.to_string();
                    let poisoned = alluvium_storage::Error::Poisoned { cause };
                    return Ok(self.home.store.poison_on_error(Err(poisoned))?);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.advance(last)?)
    }
}
