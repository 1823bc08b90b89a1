//! Cuts all dictionaries at the same sequence number for a checkpoint.

use super::DictionarySet;
use crate::error::Result;
use crate::options::kind::DictionaryPlace;
use crate::schema::manifest::{DictionaryEntry, Manifest};
use alluvium_base::SequenceNumber;
use alluvium_storage::store::{Checkpoint, Store};
use std::collections::BTreeMap;

/// The roots of all dictionaries at the same sequence number, in a checkpoint that is not durable
/// yet.
#[derive(Debug)]
pub(in crate::engine) struct PendingCheckpoint<'d> {
    pub(in crate::engine) checkpoint: Checkpoint<'d>,
    /// The payload of the superblock that will make the checkpoint durable.
    pub(in crate::engine) payload: Vec<u8>,
    /// Sequence number up to which the checkpoint contains all commits.
    pub(in crate::engine) at: SequenceNumber,
}

impl DictionarySet {
    /// Writes the manifest of a new generation, with the roots of all dictionaries at the same
    /// sequence number (M1). Returns `None` if only some of the dictionaries have published the
    /// latest memtable.
    pub(in crate::engine) fn cut_generation<'s>(
        &self,
        store: &'s Store,
    ) -> Result<Option<PendingCheckpoint<'s>>> {
        for (place, dictionary) in self.live() {
            if let Err(error) = dictionary.prepare() {
                return self.without(place, error);
            }
        }
        let _publishing = self.publishing.lock();
        let mut cuts = Vec::new();
        for (place, dictionary) in self.live() {
            match dictionary.checkpoint_root() {
                Ok(cut) => cuts.push((place, cut)),
                Err(error) => {
                    drop(cuts);
                    return self.without(place, error);
                }
            }
        }
        let at = cuts[0].1.at;
        if cuts.iter().any(|(_, cut)| cut.at != at) {
            return Ok(None);
        }
        self.forget_dropped(at);
        let listed = cuts.iter().filter(|(place, _)| self.is_listed(*place));
        let mut dictionaries: Vec<DictionaryEntry> = listed
            .map(|(place, cut)| DictionaryEntry {
                id: place.id(),
                kind: place.structure.kind(),
                root: cut.root.clone(),
            })
            .collect();
        let mut behind = BTreeMap::new();
        if let Some((entry, own)) = self.aside_at(at)? {
            behind.insert(entry.id, own);
            dictionaries.push(entry);
        }
        dictionaries.sort_by_key(|entry| entry.id);
        let placed = self.placed.read();
        let manifest = Manifest {
            behind,
            dictionaries,
            keyspaces: placed.iter().map(|(&id, of)| (id, of.id())).collect(),
            catalog: self.second_catalog.get(),
            time_ms: store.log().time_ms(),
        };
        let payload = self.manifest.keep(store, manifest)?;
        Ok(Some(PendingCheckpoint {
            checkpoint: store.begin_checkpoint()?,
            payload,
            at,
        }))
    }

    /// Handles a structure whose checkpoint has failed. If damaged in-place pages are the reason,
    /// quarantines them and returns `None`, so that the next attempt leaves them out.
    fn without<'s>(
        &self,
        place: DictionaryPlace,
        error: alluvium_storage::Error,
    ) -> Result<Option<PendingCheckpoint<'s>>> {
        let is_damage = matches!(error, alluvium_storage::Error::Corrupt { .. });
        if is_damage && place == DictionaryPlace::PAGES && self.quarantine_pages(&error)? {
            return Ok(None);
        }
        Err(error.into())
    }
}
