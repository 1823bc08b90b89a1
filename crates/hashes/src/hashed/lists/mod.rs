//! Sketches in pages, which a description lists: what routing filters and routing trees are made
//! of.
//!
//! *Knows*: how sketches are coded in pages, written and read; where a description and its pages
//! are; which pages have a prefix.
//!
//! *Does not know*: what a prefix and a payload mean, or what else a description says.
//!
//! *Read in this order*: this file, `draft.rs` (a page that is being filled), `format.rs`,
//! `write.rs`, `read.rs`.
//!
//! Invariants:
//!
//! - **L1** Prefixes ascend, in a page and from page to page. A description has the first of each.

mod draft;
pub mod format;
mod read;
mod write;

pub use draft::{Coding, Draft, Sketch};
pub(in crate::hashed) use read::{Cursor, Origin, PageCursor};
pub(in crate::hashed) use write::SketchWriter;
pub use write::Written;

use super::pages::{Described, Pages};
use alluvium_base::Purpose;
use alluvium_dictionary::fetch::Fetch;
use alluvium_dictionary::read::Files;
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, NodePointer, PageSize, Place, Result};
use format::Sketches;
use std::sync::Arc;
use std::task::{Poll, ready};

/// The most bits of a prefix.
pub(in crate::hashed) const MOST_PREFIX_BITS: u8 = 40;

/// The pages of something, and what holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub(in crate::hashed) pages: Pages,
    /// The first prefix of each page of sketches.
    pub(in crate::hashed) firsts: Box<[u64]>,
    /// All but those of the description, each with its live bytes.
    pub(in crate::hashed) extents: Box<[(Extent, u64)]>,
}

/// What a description says. A listing of pages is a part of it.
pub trait Description: Sized {
    /// What is described, for errors.
    const NAME: &'static str;

    /// Returns the bytes of the description.
    #[must_use]
    fn encode(&self) -> Vec<u8>;

    /// Reads a description.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place`, or [`Error::NewerFormat`].
    fn decode(bytes: &[u8], place: &Place, page_size: PageSize) -> Result<Self>;

    /// Returns its pages.
    fn listing(&self) -> &Listing;

    /// Returns the bits of a prefix and of a payload.
    fn entry_bits(&self) -> (u32, u32);

    /// Returns how many entries it has.
    fn entries(&self) -> u64;
}

/// Pages on the device, with their description.
#[derive(Clone, Debug)]
pub struct Stored<M> {
    pub(in crate::hashed) meta: Arc<M>,
    described: Described,
}

impl<M: Description> Stored<M> {
    /// Reads a description past the cache.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is damaged; as the device says.
    pub fn open(files: Files<'_>, pointer: &ValuePointer, purpose: Purpose) -> Result<Stored<M>> {
        let (bytes, described) = Described::read(files, pointer, purpose)?;
        let meta = M::decode(&bytes, &described.place(), files.page_size)?;
        Ok(Stored {
            meta: Arc::new(meta),
            described,
        })
    }

    /// Returns the same with the extents that a store's map has for the description.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when no extent is in use there.
    pub fn mapped(mut self, holding: impl Fn(u8, u64) -> Option<Extent>) -> Result<Stored<M>> {
        self.described = self.described.mapped(holding)?;
        Ok(self)
    }

    /// Returns how many entries it has.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.meta.entries()
    }

    /// Returns where its description is.
    #[must_use]
    pub fn pointer(&self) -> &ValuePointer {
        &self.described.pointer
    }

    /// Returns where it is, for errors.
    #[must_use]
    pub fn place(&self) -> Place {
        self.described.place()
    }

    /// Returns the extents that it uses, each once, with its live bytes.
    pub fn extents(&self) -> impl Iterator<Item = (Extent, u64)> + '_ {
        let of_pages = self.meta.listing().extents.iter();
        of_pages.chain(&*self.described.extents).copied()
    }

    /// Returns the bytes of memory that it takes beside pages in the cache.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let listing = self.meta.listing();
        let own = size_of::<M>() + size_of::<Stored<M>>();
        let lists = size_of_val(&*listing.firsts) + size_of_val(&*listing.extents);
        listing.pages.memory_bytes() + self.described.memory_bytes() + (own + lists) as u64
    }

    /// Returns the bytes that it takes of its extents.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.extents().map(|(_, live)| live).sum()
    }

    /// Returns how many pages it has beside its description.
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

    /// Hands the payloads of a prefix to `visit`, in their order. Pending where a page is missing:
    /// it begins again then.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn each_payload<F: Fetch>(
        &self,
        prefix: u64,
        fetch: &F,
        visit: &mut dyn FnMut(u64),
    ) -> Poll<Result<()>> {
        let firsts = &self.meta.listing().firsts;
        // The page before the first that begins with the prefix may end with it.
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

    /// Opens one of its pages, which are coded as it says.
    fn sketches<'p>(&self, page: &'p [u8], place: &Place) -> Result<Sketches<'p>> {
        let sketches = Sketches::open(page, place)?;
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
