//! How a checkpoint takes all dictionaries at once.

use super::Dictionaries;
use crate::Result;
use crate::manifest::{Entry, Manifest};
use crate::structure::Structure;
use alluvium_base::Sequence;
use alluvium_storage::store::{Checkpoint, Store};

/// A cut of all dictionaries that is not durable yet.
#[derive(Debug)]
pub(in crate::engine) struct Begun<'d> {
    pub(in crate::engine) checkpoint: Checkpoint<'d>,
    /// What the superblock is to say.
    pub(in crate::engine) payload: Vec<u8>,
    /// The last commit in it.
    pub(in crate::engine) at: Sequence,
}

impl Dictionaries {
    /// Cuts a generation of all of them (M1); none while a memtable is in some and not in others.
    pub(in crate::engine) fn cut_generation<'s>(&self, store: &'s Store) -> Result<Option<Begun<'s>>> {
        for (_, dictionary) in self.all() {
            dictionary.prepare()?;
        }
        let _publishing = self.publishing.lock();
        let mut cuts = Vec::new();
        for (structure, dictionary) in self.all() {
            cuts.push((structure, dictionary.stand()?));
        }
        let at = cuts[0].1.at;
        if cuts.iter().any(|(_, cut)| cut.at != at) {
            return Ok(None);
        }
        let entry = |(structure, cut): &(Structure, alluvium_dictionary::cut::Cut<'_>)| Entry {
            id: structure.dictionary(),
            kind: structure.kind(),
            root: cut.root.clone(),
        };
        let placed = self.placed.read();
        let manifest = Manifest {
            dictionaries: cuts.iter().map(entry).collect(),
            keyspaces: placed.iter().map(|(&id, of)| (id, of.dictionary())).collect(),
            catalog: self.second_catalog.get(),
            time_ms: store.log().time_ms(),
            behind: std::collections::BTreeMap::new(),
        };
        let payload = self.manifest.keep(store, manifest)?;
        Ok(Some(Begun {
            checkpoint: store.begin_checkpoint()?,
            payload,
            at,
        }))
    }
}
