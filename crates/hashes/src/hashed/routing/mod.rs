//! Routing filters of the levels of a bundle of arrays, on the device: which runs of a level may
//! have a hash.
//!
//! *Knows*: prefixes and check characters of hashes; where a filter's pages are; how a filter is
//! written again with a further run.
//!
//! *Does not know*: which levels there are, when runs are merged, what is in a run beside hashes.
//!
//! *Read in this order*: `shape.rs`, this file, `format.rs`, `characters.rs`, `build.rs`, `ask.rs`,
//! `check.rs`.
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
mod characters;
mod check;
pub mod format;
mod shape;
#[cfg(test)]
mod tests;

pub use ask::Candidates;
pub use build::Builder;
pub use shape::Shape;

use super::lists::{self, Listing, Stored};
use alluvium_storage::{Error, Result};

/// What a filter consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it says, of which bits of a hash.
    pub shape: Shape,
    /// How many runs it may name: those of its level.
    pub runs: u16,
    /// Prefixes that have a run, or sketches.
    pub entries: u64,
    pub(super) listing: Listing,
}

/// The filter of a level.
pub type Routing = Stored<Meta>;
/// A filter that is written, and not yet part of a structure.
pub type Written = lists::Written<Meta>;

impl Stored<Meta> {
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
}
