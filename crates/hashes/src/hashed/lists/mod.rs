//! Sketch lists, which are stored in pages, and the descriptions that locate these pages. Routing
//! filters and routing trees are stored as such lists.
//!
//! *Scope*: how sketches are encoded in pages, written and read; where a description and its pages
//! are stored; which pages contain a prefix.
//!
//! *Must not depend on*: what prefixes and payloads mean; what else a description contains.
//!
//! Invariants:
//!
//! - **L1** Prefixes ascend within a page and from each page to the next. The description contains
//!   the first prefix of each page.

mod draft;
pub mod format;
mod read;
mod write;

pub use draft::{PrefixSketch, SketchEncoding, SketchPageBuilder};
pub(in crate::hashed) use read::{PageCursor, PageSource, SketchCursor};
pub(in crate::hashed) use write::SketchWriter;
pub use write::WrittenList;

use super::pages::{PageList, StoredDescription};
use alluvium_base::Purpose;
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::extents::Extent;
use alluvium_storage::{DiskLocation, Error, NodePointer, PageSize, Result};
use format::SketchPage;
use std::sync::Arc;
use std::task::{Poll, ready};

/// Maximum length of a prefix, in bits.
pub(in crate::hashed) const MOST_PREFIX_BITS: u8 = 40;

/// The pages of a list and the extents that contain them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageListing {
    pub(in crate::hashed) pages: PageList,
    /// The first prefix of each page. Empty if the pages contain no sketches.
    pub(in crate::hashed) firsts: Box<[u64]>,
    /// All extents of the list and their live bytes, excluding the extents of the description.
    pub(in crate::hashed) extents: Box<[(Extent, u64)]>,
}

/// The description of a list stored on the device. It contains a [`PageListing`], which locates the
/// list's pages.
pub trait PagedDescription: Sized {
    /// The kind of object described, for error messages.
    const NAME: &'static str;

    #[must_use]
    fn encode(&self) -> Vec<u8>;

    /// Decodes a description that was read from `place`.
    ///
    /// # Errors
    /// [`Error::Corrupt`], with the location `place`, if the description is invalid;
    /// [`Error::NewerFormat`] if a newer version wrote it.
    fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<Self>;

    /// Returns the listing of the list's pages.
    fn listing(&self) -> &PageListing;

    /// Returns the lengths of a prefix and of a payload, in bits.
    fn entry_bits(&self) -> (u32, u32);

    /// Returns the number of entries in the list.
    fn entries(&self) -> u64;
}

/// A list stored on the device.
#[derive(Clone, Debug)]
pub struct StoredList<M> {
    pub(in crate::hashed) meta: Arc<M>,
    described: StoredDescription,
}

impl<M: PagedDescription> StoredList<M> {
    /// Opens a list by reading its description from the device, bypassing the cache.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the description is damaged; I/O errors.
    pub fn open(files: DataFiles<'_>, pointer: &ValuePointer, purpose: Purpose) -> Result<StoredList<M>> {
        let (bytes, described) = StoredDescription::read(files, pointer, purpose)?;
        let meta = M::decode(&bytes, &described.place(), files.page_size)?;
        Ok(StoredList {
            meta: Arc::new(meta),
            described,
        })
    }

    /// Replaces the description's extents with those at the same locations in the store's extent
    /// map.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the extent map has no extent at one of the locations.
    pub fn mapped(mut self, holding: impl Fn(u8, u64) -> Option<Extent>) -> Result<StoredList<M>> {
        self.described = self.described.mapped(holding)?;
        Ok(self)
    }

    /// Returns the number of entries in the list.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.meta.entries()
    }

    /// Returns the pointer to the description of the list.
    #[must_use]
    pub fn pointer(&self) -> &ValuePointer {
        &self.described.pointer
    }

    /// Returns the location of the description, for error messages.
    #[must_use]
    pub fn place(&self) -> DiskLocation {
        self.described.place()
    }

    /// Returns the extents of the list and of its description, each of them once, with their live
    /// bytes.
    pub fn extents(&self) -> impl Iterator<Item = (Extent, u64)> + '_ {
        let of_pages = self.meta.listing().extents.iter();
        of_pages.chain(&*self.described.extents).copied()
    }

    /// Returns the size of the list in memory, in bytes, excluding cached pages.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let listing = self.meta.listing();
        let own = size_of::<M>() + size_of::<StoredList<M>>();
        let lists = size_of_val(&*listing.firsts) + size_of_val(&*listing.extents);
        listing.pages.memory_bytes() + self.described.memory_bytes() + (own + lists) as u64
    }

    /// Returns the total number of live bytes in the list's extents.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.extents().map(|(_, live)| live).sum()
    }

    /// Returns the number of pages in the list, excluding those of the description.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.meta.listing().pages.len()
    }

    pub(in crate::hashed) fn page(&self, number: u64) -> Result<NodePointer> {
        self.meta.listing().pages.get(number).ok_or_else(|| {
            let expected = format!("{} of {} pages", M::NAME, self.pages());
            Error::corrupt(self.place(), expected, format!("page {number}"))
        })
    }

    /// Passes the payloads of all sketches with `prefix` to `visit`, in order. If a page must be
    /// read from the device first, the result is pending, and the next call starts from the
    /// beginning.
    ///
    /// # Errors
    /// I/O errors; damaged pages.
    pub fn each_payload<F: NodeFetch>(
        &self,
        prefix: u64,
        fetch: &F,
        visit: &mut dyn FnMut(u64),
    ) -> Poll<Result<()>> {
        let firsts = &self.meta.listing().firsts;
        // The page before the first one that starts with the prefix may end with sketches of the
        // prefix.
        let begin = firsts.partition_point(|&first| first < prefix).saturating_sub(1);
        let end = firsts.partition_point(|&first| first <= prefix);
        for number in begin..end {
            let pointer = self.page(number as u64)?;
            let page = ready!(fetch.node(&pointer))?;
            let place = pointer.place();
            self.sketches(&page, &place)?
                .each_from(prefix, &place, &mut |sketch| {
                    if sketch.prefix == prefix {
                        visit(sketch.payload);
                    }
                    sketch.prefix <= prefix
                })?;
        }
        Poll::Ready(Ok(()))
    }

    /// Decodes the header of a page, and checks that its prefixes and payloads have the lengths
    /// given in the description.
    fn sketches<'p>(&self, page: &'p [u8], place: &DiskLocation) -> Result<SketchPage<'p>> {
        let sketches = SketchPage::open(page, place)?;
        let coding = sketches.coding();
        let found = (u32::from(coding.prefix_bits), u32::from(coding.payload_bits));
        let expected = self.meta.entry_bits();
        match found == expected {
            true => Ok(sketches),
            false => {
                let expected = format!("entries of {} and {} bits", expected.0, expected.1);
                Err(Error::corrupt(place.clone(), expected, format!("{found:?}")))
            }
        }
    }
}
