//! Copies and removes the store's files that are not part of its extents.

use super::DictionarySet;
use crate::error::Result;
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::schema::manifest;
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::contract::Dictionary;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::store::Store;
use alluvium_storage::superblock::PAGES;
use alluvium_trees::paged::{self, PagedDictionary, PagedOutline, PagedStats};

/// A hold on the in-place pages. While it exists, no page is freed that the current durable
/// generation or a later one needs.
#[derive(Debug)]
pub(in crate::engine) struct PageHold(Option<paged::CheckpointHold>);

impl DictionarySet {
    /// Holds the files outside the extents for a generation, which must be chosen after this call.
    pub(in crate::engine) fn hold(&self) -> PageHold {
        PageHold(self.paged.get().map(PagedDictionary::hold))
    }
}

/// State of in-place pages that no keyspace uses any more. Their files are removed once no durable
/// generation needs them.
#[derive(Debug, Default)]
pub(super) enum UnusedPages {
    #[default]
    Nothing,
    /// The durable generation lists the pages, with this root.
    Listed(Vec<u8>),
    Unlisted,
}

impl DictionarySet {
    /// Returns the statistics of the in-place pages and their buffer.
    pub(crate) fn paged_stats(&self) -> PagedStats {
        self.paged.get().map(PagedDictionary::figures).unwrap_or_default()
    }

    /// Requests a rewrite that removes deleted entries from the in-place pages, if there are enough
    /// of them to free pages. Returns whether it requested one.
    pub(crate) fn want_page_deletes_applied(&self) -> bool {
        self.paged
            .get()
            .is_some_and(PagedDictionary::want_deletes_applied)
    }

    /// Returns approximately how many bytes of free pages checkpoints would return to the file
    /// system.
    pub(crate) fn returnable_page_bytes(&self) -> u64 {
        self.paged
            .get()
            .map(PagedDictionary::returnable_bytes)
            .unwrap_or_default()
    }

    /// Reads every node of the in-place pages, and returns a summary of how the pages are used.
    /// Returns `None` if there are no such pages.
    pub(crate) fn outline_pages(&self) -> Result<Option<PagedOutline>> {
        Ok(self.paged.get().map(PagedDictionary::outline).transpose()?)
    }

    /// Closes the in-place pages if no keyspace uses them. The next checkpoint no longer lists
    /// them.
    pub(super) fn leave_pages(&mut self) -> Result<()> {
        let is_used = self
            .placed
            .get_mut()
            .values()
            .any(|place| *place == DictionaryPlace::PAGES);
        if is_used {
            return Ok(());
        }
        self.forget_aside();
        if let Some(paged) = self.paged.take() {
            let root = Dictionary::checkpoint_root(&paged)?.root;
            *self.left.get_mut() = UnusedPages::Listed(root);
        }
        Ok(())
    }

    /// Reopens in-place pages that no keyspace uses. Returns `None` if the durable generation lists
    /// none.
    pub(super) fn pages_again(&self, cut: SequenceNumber) -> Result<Option<PagedDictionary>> {
        let mut left = self.left.lock();
        let UnusedPages::Listed(root) = &*left else {
            *left = UnusedPages::Nothing;
            return Ok(None);
        };
        let paged = PagedDictionary::open(self.home.clone(), &self.pages(), root, cut)?;
        *left = UnusedPages::Nothing;
        Ok(Some(paged))
    }

    /// Records that the store's directory contains page files that its durable generation does not
    /// list.
    pub(super) fn note_unlisted_pages(&mut self) -> Result<()> {
        let names = self
            .home
            .store
            .directory()
            .list()
            .map_err(alluvium_storage::Error::from)?;
        if names.iter().any(|name| name.starts_with(PAGES)) {
            *self.left.get_mut() = UnusedPages::Unlisted;
        }
        Ok(())
    }

    /// Removes the files of unused in-place pages. Must be called only after a generation without
    /// these pages is durable. If this fails, it is retried after the next checkpoint.
    pub(in crate::engine) fn remove_left_pages(&self) {
        let _publishing = self.publishing.lock();
        let mut left = self.left.lock();
        if self.paged.get().is_some() || matches!(*left, UnusedPages::Nothing) {
            return;
        }
        *left = UnusedPages::Unlisted;
        let directory = self.home.store.directory();
        let Ok(names) = directory.list() else {
            return;
        };
        let mut own = names.iter().filter(|name| name.starts_with(PAGES));
        if own.all(|name| directory.remove(name).is_ok()) && directory.sync().is_ok() {
            *left = UnusedPages::Nothing;
        }
    }
}

impl PageHold {
    /// Returns the in-place pages that a generation needs, where `payload` is the payload of the
    /// generation's superblock. Returns `None` if the generation needs pages created after the
    /// hold.
    pub(in crate::engine) fn at(
        self,
        store: &Store,
        payload: &[u8],
    ) -> Result<Option<Vec<paged::KeptPages>>> {
        let (durable, _) = manifest::read(DataFiles::of(store), payload, Purpose::Check)?;
        let entry = durable.entry(StructureKind::Paged.dictionary());
        let root = entry.filter(|entry| entry.kind == StructureKind::Paged.kind());
        Ok(match (self.0, root) {
            (Some(held), Some(entry)) => Some(vec![held.at(&entry.root)]),
            (_, None) => Some(Vec::new()),
            (None, Some(_)) => None,
        })
    }
}
