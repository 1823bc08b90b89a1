//! Sequences of pages, each with its checksum, and their descriptions; shared by runs, routing
//! filters and routing trees.
//!
//! *Scope*: the location of a list's pages; how a description is written and read.
//!
//! *Must not depend on*: the contents of the pages.
//!
//! Invariants:
//!
//! - **P1** A page is verified with the checksum computed when it was written.
//! - **P2** Claimed extents are either installed or freed.

mod format;
mod stored_description;
mod write;

pub(in crate::hashed) use format::{DescriptionError, decode, decode_extents, encode_extents};
pub use stored_description::StoredDescription;
pub use write::{ClaimedExtents, PageWriter};

use alluvium_storage::{NodeCodec, NodePointer, PageSize};

/// Pages that are contiguous on one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSegment {
    /// Number of the first page.
    pub first: u64,
    pub pages: u64,
    pub tier: u8,
    /// Offset of the first page.
    pub offset: u64,
    /// Generation in which the pages were written.
    pub birth: u64,
}

/// Locations and checksums of numbered pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageList {
    pub(in crate::hashed) page_size: PageSize,
    pub(in crate::hashed) segments: Box<[PageSegment]>,
    /// Lower half of each page's checksum.
    pub(in crate::hashed) checksums: Box<[u32]>,
}

impl PageList {
    #[must_use]
    pub fn none(page_size: PageSize) -> PageList {
        PageList {
            page_size,
            segments: Box::default(),
            checksums: Box::default(),
        }
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.checksums.len() as u64
    }

    /// Returns whether there are no pages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checksums.is_empty()
    }

    /// Returns the location of a page; `None` if the number is out of range.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u64) -> Option<NodePointer> {
        let checksum = *self.checksums.get(usize::try_from(number).ok()?)?;
        let behind = self.segments.partition_point(|segment| segment.first <= number);
        let segment = self.segments.get(behind.checked_sub(1)?)?;
        let page = self.page_size.bytes() as u64;
        Some(NodePointer {
            offset: segment.offset + (number - segment.first) * page,
            birth: segment.birth,
            checksum: checksum.into(),
            encoded_len: page as u32,
            tier: segment.tier,
            pages: 1,
            codec: NodeCodec::None,
        })
    }

    /// Returns the memory used, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        (size_of_val(&*self.segments) + size_of_val(&*self.checksums)) as u64
    }
}
