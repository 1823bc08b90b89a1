//! Pages that are written one after the other, each with its checksum, and what says where they
//! are: what runs and routing filters have in common.
//!
//! *Knows*: where the pages of a list are; how a description of them is written and read.
//!
//! *Does not know*: what is in the pages.
//!
//! *Read in this order*: this file, `format.rs`, `write.rs`, `described.rs`.
//!
//! Invariants:
//!
//! - **P1** A page is read with the checksum that it was written with.
//! - **P2** Extents that were claimed are installed, or given up.

mod described;
mod format;
mod write;

pub use described::Described;
pub(in crate::hashed) use format::{Bad, decode, decode_extents, encode_extents};
pub use write::{Claimed, PageWriter};

use alluvium_storage::{Codec, NodePointer, PageSize};

/// Pages in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of the first.
    pub first: u64,
    /// How many there are.
    pub pages: u64,
    /// Their tier.
    pub tier: u8,
    /// Where the first begins.
    pub offset: u64,
    /// The generation that was being built when they were written.
    pub birth: u64,
}

/// Where pages are, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    pub(in crate::hashed) page_size: PageSize,
    pub(in crate::hashed) segments: Box<[Segment]>,
    /// Of each page, the lower half.
    pub(in crate::hashed) checksums: Box<[u32]>,
}

impl Pages {
    /// Returns no pages.
    #[must_use]
    pub fn none(page_size: PageSize) -> Pages {
        Pages {
            page_size,
            segments: Box::default(),
            checksums: Box::default(),
        }
    }

    /// Returns how many pages there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.checksums.len() as u64
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checksums.is_empty()
    }

    /// Returns where a page is; none if there is no such page.
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
            codec: Codec::None,
        })
    }

    /// Returns the bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        (size_of_val(&*self.segments) + size_of_val(&*self.checksums)) as u64
    }
}
