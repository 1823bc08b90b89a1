//! Writes sketches to pages, followed by the description of the list.

use super::{PageListing, PagedDescription, PrefixSketch, SketchEncoding, SketchPageBuilder, StoredList};
use crate::hashed::pages::{ClaimedExtents, PageWriter, StoredDescription};
use alluvium_filters::golomb::RiceCode;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{PageSize, Result};
use std::sync::Arc;

/// Writer of a sketch list, whose space is freed if it is dropped before it is finished.
#[derive(Debug)]
pub(in crate::hashed) struct SketchWriter {
    pages: PageWriter,
    page_size: PageSize,
    draft: SketchPageBuilder,
    firsts: Vec<u64>,
    entries: u64,
}

impl SketchWriter {
    /// Starts a list of about `expected` sketches. This number determines the Rice parameter.
    ///
    /// # Errors
    /// If the store accepts no changes because of an earlier I/O error.
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

    /// Returns the number of sketches appended so far.
    pub(in crate::hashed) fn entries(&self) -> u64 {
        self.entries
    }

    /// Appends a sketch, whose prefix must not be less than the previous one (L1).
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

    /// Writes the remaining sketches and returns the page listing. Its extents stay allocated. The
    /// caller must put the listing into a description and pass that to [`WrittenList::describe`].
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

/// A list that has been written but is not part of a structure yet. If it is dropped, its extents
/// are freed.
#[derive(Debug)]
pub struct WrittenList<M> {
    claimed: ClaimedExtents,
    stored: StoredList<M>,
}

impl<M: PagedDescription> WrittenList<M> {
    /// Writes the description `meta` of a list whose pages have been written.
    ///
    /// # Errors
    /// A full disk; I/O errors. In either case, the list's pages are freed.
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

    /// Marks the list's extents as used in the current generation and returns the list.
    pub fn install(self) -> StoredList<M> {
        self.claimed.install();
        self.stored
    }
}
