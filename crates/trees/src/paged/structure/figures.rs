//! Statistics of the pages of a store and of their buffer.

use super::PagedDictionary;

/// Statistics of pages that are updated in place, and of their buffer. All zeros without such a
/// keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagedStats {
    /// Size of the page file in bytes.
    pub file_bytes: u64,
    /// Size of the journal of old images in bytes.
    pub journal_bytes: u64,
    /// Pages that are in use or free.
    pub pages: u64,
    pub free_pages: u64,
    /// Page requests that were served from memory.
    pub hits: u64,
    /// Pages read from the device.
    pub reads: u64,
    /// Pages written to the device.
    pub writes: u64,
    /// Old images written to the journal.
    pub images: u64,
}

impl PagedDictionary {
    /// Returns the statistics of the pages and of their buffer.
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
