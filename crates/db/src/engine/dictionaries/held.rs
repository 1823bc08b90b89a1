//! What the store has beside its extents: what copies take of it, and when it goes.

use super::Dictionaries;
use crate::Result;
use crate::manifest;
use crate::structure::Structure;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract::Dictionary;
use alluvium_dictionary::read::Files;
use alluvium_storage::store::Store;
use alluvium_storage::superblock::PAGES;
use alluvium_trees::levels::{Levels, LevelsStats};
use alluvium_trees::paged::{self, Paged, PagedOutline, PagedStats};
use alluvium_trees::whereabouts::RunPlace;

/// Pages that are written in place: none of what is durable now, or later, is forgotten.
#[derive(Debug)]
pub(in crate::engine) struct Held(Option<paged::Held>);

impl Dictionaries {
    /// Keeps what a generation has beside its extents, which is chosen after this.
    pub(in crate::engine) fn hold(&self) -> Held {
        Held(self.paged.get().map(Paged::hold))
    }
}

/// Pages that no keyspace is in any more. Their files go once no durable generation needs them.
#[derive(Debug, Default)]
pub(super) enum Left {
    /// There are none.
    #[default]
    Nothing,
    /// The durable generation lists them, with this root.
    Listed(Vec<u8>),
    /// No generation lists them.
    Unlisted,
}

impl Dictionaries {
    /// What the pages take, and what their buffer has counted.
    pub(crate) fn paged_stats(&self) -> PagedStats {
        self.paged.get().map(Paged::figures).unwrap_or_default()
    }

    /// Asks keyspaces in pages to take out what was deleted. Returns whether there is enough of it,
    /// and no rewrite was asked for before.
    pub(crate) fn want_page_deletes_applied(&self) -> bool {
        self.paged.get().is_some_and(Paged::want_deletes_applied)
    }

    /// Returns how many bytes of free pages checkpoints would give back to the file system, about.
    pub(crate) fn returnable_page_bytes(&self) -> u64 {
        self.paged.get().map(Paged::returnable_bytes).unwrap_or_default()
    }

    /// Returns what the levels have; none if there are none.
    pub(crate) fn levels_stats(&self) -> Option<LevelsStats> {
        self.levels.get().map(Levels::stats)
    }

    /// Returns where each run lies, of the tree and of levels. Nothing is read.
    pub(crate) fn places(&self) -> Vec<RunPlace> {
        let mut places = self.tree.places();
        places.extend(self.levels.get().into_iter().flat_map(Levels::places));
        places
    }

    /// Reads every node in pages, and tells how the pages are used; none without such keyspaces.
    pub(crate) fn outline_pages(&self) -> Result<Option<PagedOutline>> {
        Ok(self.paged.get().map(Paged::outline).transpose()?)
    }

    /// Closes the pages if no keyspace is in them: the next checkpoint does not list them.
    pub(super) fn leave_pages(&mut self) -> Result<()> {
        let is_used = self
            .placed
            .get_mut()
            .values()
            .any(|structure| *structure == Structure::Paged);
        if is_used {
            return Ok(());
        }
        self.forget_aside();
        if let Some(paged) = self.paged.take() {
            let root = Dictionary::stand(&paged)?.root;
            *self.left.get_mut() = Left::Listed(root);
        }
        Ok(())
    }

    /// Opens the pages again that no keyspace was in, if the durable generation needs them.
    pub(super) fn pages_again(&self, cut: Sequence) -> Result<Option<Paged>> {
        let mut left = self.left.lock();
        let Left::Listed(root) = &*left else {
            *left = Left::Nothing;
            return Ok(None);
        };
        let paged = Paged::open(self.home.clone(), &self.pages(), root, cut)?;
        *left = Left::Nothing;
        Ok(Some(paged))
    }

    /// Notes files of pages in the store's directory that its durable generation does not list.
    pub(super) fn note_unlisted_pages(&mut self) -> Result<()> {
        let names = self
            .home
            .store
            .directory()
            .list()
            .map_err(alluvium_storage::Error::from)?;
        if names.iter().any(|name| name.starts_with(PAGES)) {
            *self.left.get_mut() = Left::Unlisted;
        }
        Ok(())
    }

    /// Removes the files of pages that no keyspace is in: a generation without them is durable.
    /// What fails is tried again after the next checkpoint.
    pub(in crate::engine) fn remove_left_pages(&self) {
        let _publishing = self.publishing.lock();
        let mut left = self.left.lock();
        if self.paged.get().is_some() || matches!(*left, Left::Nothing) {
            return;
        }
        *left = Left::Unlisted;
        let directory = self.home.store.directory();
        let Ok(names) = directory.list() else {
            return;
        };
        let mut own = names.iter().filter(|name| name.starts_with(PAGES));
        if own.all(|name| directory.remove(name).is_ok()) && directory.sync().is_ok() {
            *left = Left::Nothing;
        }
    }
}

impl Held {
    /// What a generation has of it, by what its superblock says. None if some of that came after
    /// what was kept.
    pub(in crate::engine) fn at(
        self,
        store: &Store,
        payload: &[u8],
    ) -> Result<Option<Vec<paged::KeptPages>>> {
        let (durable, _) = manifest::read(Files::of(store), payload, Purpose::Check)?;
        let entry = durable.entry(Structure::Paged.dictionary());
        let root = entry.filter(|entry| entry.kind == Structure::Paged.kind());
        Ok(match (self.0, root) {
            (Some(held), Some(entry)) => Some(vec![held.at(&entry.root)]),
            (_, None) => Some(Vec::new()),
            (None, Some(_)) => None,
        })
    }
}
