//! What the pages of a store take, and what their buffer has counted.

use super::Paged;

/// Pages that are written in place, and their buffer. All zeros without such a keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagedStats {
    /// Bytes of the file of pages.
    pub file_bytes: u64,
    /// Bytes of the journal of their old images.
    pub journal_bytes: u64,
    /// Pages that are in use or free.
    pub pages: u64,
    /// Pages that are free.
    pub free_pages: u64,
    /// Pages that were in memory when they were asked for.
    pub hits: u64,
    /// Pages that were read.
    pub reads: u64,
    /// Pages that were written.
    pub writes: u64,
    /// Old images that went to the journal.
    pub images: u64,
}

impl Paged {
    /// Returns what the pages take, and what their buffer has counted.
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
