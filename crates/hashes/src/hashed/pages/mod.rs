//! Lists of checksummed pages, and the descriptions that record where the pages are stored. Runs,
//! routing filters and routing trees all have this form.
//!
//! *Scope*: where the pages of a list are stored; how a description is written and read.
//!
//! *Must not depend on*: what the pages contain.
//!
//! Invariants:
//!
//! - **P1** Every page is verified when it is read, against the checksum computed when it was
//!   written.
//! - **P2** Every allocated extent is eventually either installed or freed.

mod format;
mod stored_description;
mod write;

pub(in crate::hashed) use format::{DescriptionError, decode, decode_extents, encode_extents};
pub use stored_description::StoredDescription;
pub use write::{ClaimedExtents, PageWriter};

use alluvium_storage::{NodeCodec, NodePointer, PageSize};

/// A contiguous sequence of pages on one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSegment {
    /// Number, within the list, of the segment's first page.
    pub first: u64,
    pub pages: u64,
    pub tier: u8,
    /// Offset of the first page in the tier's data file, in bytes.
    pub offset: u64,
    /// Generation that wrote the pages of the segment.
    pub birth: u64,
}

/// Locations and checksums of a list's pages. Pages are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageList {
    pub(in crate::hashed) page_size: PageSize,
    pub(in crate::hashed) segments: Box<[PageSegment]>,
    /// Lower 32 bits of the checksum of each page.
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

    /// Returns the location and checksum of a page, or `None` if there is no page with this number.
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

    /// Returns the size of the list in memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        (size_of_val(&*self.segments) + size_of_val(&*self.checksums)) as u64
    }
}
