//! Writes the pages of a list sequentially.

use super::{PageList, PageSegment};
use alluvium_storage::extents::Extent;
use alluvium_storage::node::{NodeWriter, WriterOptions};
use alluvium_storage::store::Store;
use alluvium_storage::{PageSize, Result};
use std::sync::Arc;

/// Writes pages and collects their locations and checksums. If it is dropped before it is finished,
/// its extents are freed.
#[derive(Debug)]
pub struct PageWriter {
    nodes: NodeWriter,
    page_size: PageSize,
    segments: Vec<PageSegment>,
    checksums: Vec<u32>,
}

impl PageWriter {
    /// Starts an empty page list.
    ///
    /// # Errors
    /// If the store accepts no changes because of an earlier I/O error.
    pub fn new(store: &Store, options: WriterOptions) -> Result<PageWriter> {
        Ok(PageWriter {
            nodes: store.node_writer(options)?,
            page_size: store.page_size(),
            segments: Vec::new(),
            checksums: Vec::new(),
        })
    }

    /// Appends a page, which must have the store's page size.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn add(&mut self, page: &[u8]) -> Result<()> {
        assert_eq!(page.len(), self.page_size.bytes(), "a page of the store");
        let pointer = self.nodes.add(page)?;
        match self.segments.last_mut() {
            Some(last)
                if last.tier == pointer.tier
                    && last.birth == pointer.birth
                    && last.offset + last.pages * page.len() as u64 == pointer.offset =>
            {
                last.pages += 1;
            }
            _ => self.segments.push(PageSegment {
                first: self.checksums.len() as u64,
                pages: 1,
                tier: pointer.tier,
                offset: pointer.offset,
                birth: pointer.birth,
            }),
        }
        self.checksums.push(pointer.checksum as u32);
        Ok(())
    }

    /// Writes the remaining data. Returns the page list, and the allocated extents with their live
    /// bytes, which the caller must install or free.
    ///
    /// # Errors
    /// I/O errors, in which case the extents are freed.
    pub fn finish(self) -> Result<(PageList, Vec<(Extent, u64)>)> {
        let written = self.nodes.finish()?;
        let pages = PageList {
            page_size: self.page_size,
            segments: self.segments.into(),
            checksums: self.checksums.into(),
        };
        Ok((pages, written.extents))
    }
}

/// Allocated extents that are not in use yet. They are freed on drop unless they have been
/// installed (P2).
#[derive(Debug)]
pub struct ClaimedExtents {
    pub(in crate::hashed) store: Arc<Store>,
    pub(in crate::hashed) extents: Vec<(Extent, u64)>,
}

impl ClaimedExtents {
    #[must_use]
    pub fn none(store: &Arc<Store>) -> ClaimedExtents {
        ClaimedExtents {
            store: Arc::clone(store),
            extents: Vec::new(),
        }
    }

    /// Marks the extents as used in the current generation.
    pub fn install(mut self) {
        let extents = std::mem::take(&mut self.extents);
        self.store.extents().install(&extents);
    }
}

impl Drop for ClaimedExtents {
    fn drop(&mut self) {
        for (extent, _) in self.extents.drain(..) {
            self.store.extents().abandon(extent);
        }
    }
}
