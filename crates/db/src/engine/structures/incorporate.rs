//! Flushes memtables into the dictionaries, and attaches ingests.

use super::DictionarySet;
use crate::error::Result;
use crate::options::kind::StructureKind;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{BulkIngest, MemtableIncorporation};
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;

/// The part of a memtable that is being flushed into one dictionary.
#[derive(Debug)]
pub(in crate::engine) struct DictionaryFlush {
    pub(in crate::engine) structure: StructureKind,
    pub(in crate::engine) share: Box<dyn MemtableIncorporation>,
    pub(in crate::engine) is_published: bool,
}

impl DictionarySet {
    /// Begins to flush a sealed memtable. Returns one part for each dictionary that does not
    /// contain the memtable yet.
    pub(in crate::engine) fn take(
        &self,
        memtable: &Arc<Memtable>,
        cut: SequenceNumber,
        class: AllocationClass,
    ) -> alluvium_storage::Result<Vec<DictionaryFlush>> {
        let begun = self.live().filter(|(_, dictionary)| dictionary.cut() < cut);
        let begun = begun.map(|(structure, dictionary)| {
            let keys = self.keys_of(structure);
            let share = MemtableSlice::new(Arc::clone(memtable), cut, keys);
            Ok(DictionaryFlush {
                structure,
                share: dictionary.incorporate(share, class)?,
                is_published: false,
            })
        });
        begun.collect()
    }

    /// Makes all dictionaries publish their flushed parts of a memtable. If one fails, sets
    /// `failed` to its structure. The dictionaries before it have then published their parts, as
    /// `is_published` records.
    pub(in crate::engine) fn publish(
        &self,
        memtable: &Memtable,
        taken: &mut [DictionaryFlush],
        cut: SequenceNumber,
        failed: &mut Option<StructureKind>,
    ) -> alluvium_storage::Result<()> {
        let _publishing = self.publishing.lock();
        for taking in taken.iter_mut().filter(|taking| !taking.is_published) {
            let published = taking.share.publish();
            published.inspect_err(|_| *failed = Some(taking.structure))?;
            taking.is_published = true;
        }
        self.second_catalog.take(memtable);
        // A dictionary may have been created since the flush began. The memtable has no writes to
        // its keys.
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
