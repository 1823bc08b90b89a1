//! Routing filters on the device. Each level of a bundle of arrays has one, which returns the runs
//! of the level that may contain a hash.
//!
//! *Scope*: how a hash is divided into a prefix and a check digit; where the pages of a filter are
//! stored; how a filter is rewritten to include another run.
//!
//! *Must not depend on*: which levels exist, when runs are merged, what a run contains besides
//! hashes.
//!
//! Source: Conway, "Understanding Dictionaries at the Intersection of Theory and Practice" (2020),
//! §2.3 and §2.4. A *check digit*, the paper's check character, is a digit of the hash in base λ
//! outside the prefix. A filter is read through the page cache, so it takes up memory only while it
//! is in use. Each merge that adds a run to a level rewrites the level's filter.
//!
//! Invariants (U1 to U3, about the structure, are in `hashed/mod.rs`):
//!
//! - **U4** A filter of latest runs maps each prefix to the newest run of the level that contains
//!   it. The records in that run with this prefix name the previous run that contains it, and so
//!   on, until a record names no run.
//! - **U5** A filter of sketches has exactly one sketch for each combination of run, prefix and
//!   check digit in the level. Sketches are ordered by prefix, and those with the same prefix by
//!   run.
//! - **U6** A run's records with a given prefix are all within one range of leaves. It extends from
//!   the leaves in which the index locates the first hash with the prefix to those in which it
//!   locates the last.

mod ask;
mod build;
mod characters;
mod check;
pub mod format;
mod shape;
#[cfg(test)]
mod tests;

pub use ask::CandidateRuns;
pub use build::RoutingFilterBuilder;
pub use shape::RoutingFilterShape;

use super::lists::{self, PageListing, StoredList};
use alluvium_storage::{Error, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingFilterDescription {
    /// Kind of the filter, and the bits of a hash that it uses.
    pub shape: RoutingFilterShape,
    /// Number of runs in the level.
    pub runs: u16,
    /// In a filter of latest runs, the number of prefixes that occur in a run. In a filter of
    /// sketches, the number of sketches.
    pub entries: u64,
    pub(super) listing: PageListing,
}

/// The routing filter of a level.
pub type RoutingFilter = StoredList<RoutingFilterDescription>;
/// A routing filter that has been written but is not part of a structure yet.
pub type WrittenRoutingFilter = lists::WrittenList<RoutingFilterDescription>;

impl StoredList<RoutingFilterDescription> {
    /// Checks that the filter belongs to a level with `runs` runs, in a part whose hashes share
    /// their first `skipped_bits` bits. Returns the filter.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the filter belongs to another level or part.
    pub fn required(self, runs: usize, skipped_bits: u8) -> Result<RoutingFilter> {
        let found = (usize::from(self.meta.runs), self.meta.shape.skipped_bits);
        match found == (runs, skipped_bits) {
            true => Ok(self),
            false => {
                let expected = format!("a filter of {runs} runs, of hashes behind bit {skipped_bits}");
                Err(Error::corrupt(self.place(), expected, format!("{found:?}")))
            }
        }
    }

    #[must_use]
    pub fn shape(&self) -> RoutingFilterShape {
        self.meta.shape
    }

    /// Returns the number of runs in the filter's level.
    #[must_use]
    pub fn runs(&self) -> u16 {
        self.meta.runs
    }
}
