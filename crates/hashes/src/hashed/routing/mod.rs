//! Routing filters of the levels of a bundle of arrays, on the device: which runs of a level may
//! contain a hash.
//!
//! *Scope*: prefixes and check characters of hashes; where a filter's pages are stored; how a
//! filter is rewritten with an additional run.
//!
//! *Must not depend on*: which levels exist, when runs are merged, the contents of a run except
//! hashes.
//!
//! Conway, "Understanding Dictionaries at the Intersection of Theory and Practice" (2020), §2.3 and
//! §2.4. A filter is read through the page cache and occupies memory only while it is used. It is
//! rewritten for each run added to its level, by the merge that writes the run.
//!
//! Invariants (U1 to U3 are those of the structure, in `hashed/mod.rs`):
//!
//! - **U4** A filter of latest runs maps a prefix to the newest run of its level that contains it.
//!   A record names the previous run with its prefix; the chain ends at a record that names none.
//! - **U5** A filter of sketches has one sketch for each combination of run, prefix and check
//!   character that occurs, and no others, ordered by prefix, then by run.
//! - **U6** All records of a run with a prefix are in the leaves in which its index locates the
//!   first and the last hash with that prefix, or between them.

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
    /// Kind of filter, and the bits of a hash that it uses.
    pub shape: RoutingFilterShape,
    /// Number of runs of its level.
    pub runs: u16,
    /// Number of prefixes that have a run, or of sketches.
    pub entries: u64,
    pub(super) listing: PageListing,
}

/// The filter of a level.
pub type RoutingFilter = StoredList<RoutingFilterDescription>;
/// A filter that is written but not yet part of a structure.
pub type WrittenRoutingFilter = lists::WrittenList<RoutingFilterDescription>;

impl StoredList<RoutingFilterDescription> {
    /// Checks that the filter is that of a level of `runs` runs, in a part whose hashes have
    /// `skipped_bits` common first bits.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not.
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

    /// Returns the number of runs of its level.
    #[must_use]
    pub fn runs(&self) -> u16 {
        self.meta.runs
    }
}
