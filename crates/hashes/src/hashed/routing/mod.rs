//! Routing filters of the levels of a bundle of arrays, on the device: which runs of a level may
//! have a hash.
//!
//! *Knows*: prefixes and check characters of hashes; where a filter's pages are; how a filter is
//! written again with a further run.
//!
//! *Does not know*: which levels there are, when runs are merged, what is in a run beside hashes.
//!
//! *Read in this order*: `shape.rs`, this file, `format.rs`, `sketches.rs`, `old.rs`, `build.rs`,
//! `ask.rs`, `check.rs`.
//!
//! Conway, "Understanding Dictionaries at the Intersection of Theory and Practice" (2020), §2.3
//! and §2.4. A filter is read through the cache of pages: it takes memory only while it is used.
//! It is written once for each run that comes to its level, by the merge that writes the run.
//!
//! Invariants, of which U1 to U3 are the structure's (`hashed/mod.rs`):
//!
//! - **U4** A filter of latest runs names the newest run of its level that has a prefix. A record
//!   names the run before it with that prefix; the chain ends where a record names none.
//! - **U5** A filter of sketches has one for each run, prefix and check character that occur, and
//!   no other: in the order of prefixes, then of runs.
//! - **U6** All records of a run with a prefix are in the leaves in which its index has the first
//!   and the last hash with that prefix, or between them.

mod ask;
mod build;
mod check;
pub mod format;
mod old;
mod shape;
pub mod sketches;
#[cfg(test)]
mod tests;

pub use ask::Candidates;
pub use build::{Builder, Written};
pub(super) use old::Origin;
pub use shape::Shape;

use super::pages::{Described, Pages};
use alluvium_base::Purpose;
use alluvium_dictionary::read::Files;
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, NodePointer, Place, Result};
use std::sync::Arc;

/// What a filter consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it says, of which bits of a hash.
    pub shape: Shape,
    /// How many runs it may name: those of its level.
    pub runs: u16,
    /// Prefixes that have a run, or sketches.
    pub entries: u64,
    pub(super) pages: Pages,
    /// The first prefix of each page of sketches.
    pub(super) firsts: Box<[u64]>,
    /// All but those of the description, each with its live bytes.
    pub(super) extents: Box<[(Extent, u64)]>,
}

/// The filter of a level.
#[derive(Clone, Debug)]
pub struct Routing {
    meta: Arc<Meta>,
    described: Described,
}

impl Routing {
    /// Reads the description of a filter past the cache.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is damaged; as the device says.
    pub fn open(files: Files<'_>, pointer: &ValuePointer, purpose: Purpose) -> Result<Routing> {
        let (bytes, described) = Described::read(files, pointer, purpose)?;
        let meta = Meta::decode(&bytes, &described.place(), files.page_size)?;
        Ok(Routing {
            meta: Arc::new(meta),
            described,
        })
    }

    /// Returns the same filter with the extents that a store's map has for its description.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when no extent is in use there.
    pub fn mapped(mut self, holding: impl Fn(u8, u64) -> Option<Extent>) -> Result<Routing> {
        self.described = self.described.mapped(holding)?;
        Ok(self)
    }

    /// Fails unless it is one of a level of `runs` runs, of a part whose hashes begin with
    /// `skipped_bits` bits that are the same.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn required(self, runs: usize, skipped_bits: u8) -> Result<Routing> {
        let found = (usize::from(self.meta.runs), self.meta.shape.skipped_bits);
        match found == (runs, skipped_bits) {
            true => Ok(self),
            false => {
                let expected = format!("a filter of {runs} runs, of hashes behind bit {skipped_bits}");
                Err(Error::corrupt(self.place(), expected, format!("{found:?}")))
            }
        }
    }

    /// Returns what it says of which bits.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.meta.shape
    }

    /// Returns how many runs it may name.
    #[must_use]
    pub fn runs(&self) -> u16 {
        self.meta.runs
    }

    /// Returns how many prefixes have a run, or how many sketches there are.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.meta.entries
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
        self.meta.extents.iter().chain(&*self.described.extents).copied()
    }

    /// Returns the bytes of memory that it takes beside pages in the cache.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let own = size_of::<Meta>() + size_of::<Routing>();
        let lists = size_of_val(&*self.meta.firsts) + size_of_val(&*self.meta.extents);
        self.meta.pages.memory_bytes() + self.described.memory_bytes() + (own + lists) as u64
    }

    /// Returns the bytes that it takes of its extents.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.extents().map(|(_, live)| live).sum()
    }

    #[cfg(test)]
    pub(super) fn page_of_test(&self, number: u64) -> NodePointer {
        self.page(number).expect("a filter has a page")
    }

    fn page(&self, number: u64) -> Result<NodePointer> {
        self.meta.pages.get(number).ok_or_else(|| {
            let expected = format!("a filter of {} pages", self.meta.pages.len());
            Error::corrupt(self.place(), expected, format!("page {number}"))
        })
    }
}
