//! Writes sketches to pages, and then the description of the list.

use super::{PageListing, PagedDescription, PrefixSketch, SketchEncoding, SketchPageBuilder, StoredList};
use crate::hashed::pages::{ClaimedExtents, PageWriter, StoredDescription};
use alluvium_filters::golomb::RiceCode;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{PageSize, Result};
use std::sync::Arc;

/// Writer of a list of sketches. If it is dropped before it is finished, its space is freed.
#[derive(Debug)]
pub(in crate::hashed) struct SketchWriter {
    pages: PageWriter,
    page_size: PageSize,
    draft: SketchPageBuilder,
    firsts: Vec<u64>,
    entries: u64,
}

impl SketchWriter {
    /// Starts a list that will have about `expected` sketches. The Rice parameter is chosen by this
    /// number.
    ///
    /// # Errors
    /// If the store accepts no changes because an earlier I/O error has poisoned it.
    pub(in crate::hashed) fn new(
        store: &Store,
        options: WriterOptions,
        (prefix_bits, payload_bits): (u32, u32),
        expected: u64,
    ) -> Result<SketchWriter> {
        let rice = RiceCode::new(expected, prefix_bits);
        Ok(SketchWriter {
            pages: PageWriter::new(store, options)?,
            page_size: store.page_size(),
            draft: SketchPageBuilder::new(SketchEncoding {
                prefix_bits: prefix_bits as u8,
                payload_bits: payload_bits as u8,
                parameter: rice.parameter() as u8,
            }),
            firsts: Vec::new(),
            entries: 0,
        })
    }

    /// Returns the number of sketches appended.
    pub(in crate::hashed) fn entries(&self) -> u64 {
        self.entries
    }

    /// Appends a sketch. Its prefix must not be less than the previous prefix (L1).
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub(in crate::hashed) fn push(&mut self, sketch: PrefixSketch) -> Result<()> {
        if !self.draft.push(sketch, self.page_size.bytes()) {
            self.write()?;
            let is_in = self.draft.push(sketch, self.page_size.bytes());
            assert!(is_in, "a page has space for a sketch");
        }
        self.entries += 1;
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if let Some(first) = self.draft.first() {
            self.firsts.push(first);
            self.pages.add(&self.draft.finish(self.page_size))?;
        }
        Ok(())
    }

    /// Writes the remaining sketches and returns the listing of the pages. The extents in the
    /// listing stay allocated; the caller must pass the listing to [`WrittenList::describe`], in a
    /// description.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub(in crate::hashed) fn finish(mut self) -> Result<PageListing> {
        self.write()?;
        let (pages, extents) = self.pages.finish()?;
        Ok(PageListing {
            pages,
            firsts: self.firsts.into(),
            extents: extents.into(),
        })
    }
}

/// A list that is written but not yet part of a structure. If it is dropped, its extents are freed.
#[derive(Debug)]
pub struct WrittenList<M> {
    claimed: ClaimedExtents,
    stored: StoredList<M>,
}

impl<M: PagedDescription> WrittenList<M> {
    /// Writes the description `meta` of a list whose pages are already written.
    ///
    /// # Errors
    /// A full disk; I/O errors. The pages of the list are freed in these cases.
    pub(in crate::hashed) fn describe(
        store: &Arc<Store>,
        options: WriterOptions,
        meta: M,
    ) -> Result<WrittenList<M>> {
        let mut claimed = ClaimedExtents::none(store);
        claimed.extents.extend(&meta.listing().extents);
        let described = StoredDescription::write(store, &meta.encode(), options)?;
        claimed.extents.extend(described.extents.iter());
        let stored = StoredList {
            meta: Arc::new(meta),
            described,
        };
        Ok(WrittenList { claimed, stored })
    }

    #[must_use]
    pub fn stored(&self) -> &StoredList<M> {
        &self.stored
    }

    /// Records the extents of the list as used in the current generation, and returns the list.
    pub fn install(self) -> StoredList<M> {
        self.claimed.install();
        self.stored
    }
}
