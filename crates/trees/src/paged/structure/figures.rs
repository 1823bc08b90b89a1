//! Statistics of a store's pages and of their page buffer.

use super::PagedDictionary;

/// Statistics of the pages that are updated in place, and of their page buffer. All are zero if no
/// keyspace of the store uses such pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagedStats {
    /// Size of the page file in bytes.
    pub file_bytes: u64,
    /// Size in bytes of the journal of old page images.
    pub journal_bytes: u64,
    /// Number of pages, including free ones.
    pub pages: u64,
    pub free_pages: u64,
    /// Number of page requests that were served from memory.
    pub hits: u64,
    /// Number of pages read from the device.
    pub reads: u64,
    /// Number of pages written to the device.
    pub writes: u64,
    /// Number of old page images written to the journal.
    pub images: u64,
}

impl PagedDictionary {
    /// Returns the statistics of the pages and of their page buffer.
    #[must_use]
    pub fn figures(&self) -> PagedStats {
        let counted = self.statistics();
        PagedStats {
            file_bytes: self.file_bytes(),
            journal_bytes: self.journal_bytes(),
            pages: counted.pages,
            free_pages: counted.free,
            hits: counted.hits,
            reads: counted.reads,
            writes: counted.writes,
            images: counted.images,
        }
    }
}
