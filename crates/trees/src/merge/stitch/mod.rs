//! Stitching: a merge adopts leaves of its inputs without reading them, by copying their index
//! entries.
//!
//! *Scope*: which leaves of an input can be adopted, and when adopting them is cheaper than copying
//! them.
//!
//! *Must not depend on*: levels, trunks; which runs are merged, the reference counts of their
//! extents.
//!
//! This is the VT-tree (Spillane 2012, chapter 6) with three corrections to the printed algorithms:
//!
//! - The number of leaves must exceed the threshold, not only reach it.
//! - A leaf ends after its last key, or at the separator of the next leaf if its keys are not
//!   known.
//! - A merge that cannot adopt any leaf always copies a leaf, so that it makes progress.
//!
//! Invariants:
//!
//! - **B1** No other input has a key between the first key and the end of an adopted leaf.
//! - **B2** An adopted leaf is full, follows the previous adopted leaf on the device, and is
//!   completely within the key range of its source.
//! - **B3** The merge need not fold, filter, expire or delete any record of an adopted leaf. In
//!   particular, every range delete of any input that touches the leaf is older than all records of
//!   the leaf.
//! - **B4** A leaf is dropped without being read only if every key between its bounds is covered by
//!   a range delete that every reader sees and that is newer than all records of the leaf.
//!
//! A record whose sequence number was replaced by 0 is older than every range delete that covers
//! its key: all range deletes that every reader saw were applied and dropped when the number was
//! replaced (G4), and later ones are newer. An adopted leaf keeps its records unchanged, so
//! comparisons of sequence numbers order its records and the range deletes of the new run in the
//! same way as before the merge.

mod input;
mod leaf_coverage;
mod policy;
mod read_prediction;

pub(crate) use input::{StitchInput, StitchRules};
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) use policy::StitchView;
pub use policy::{FilterSource, SameScan, StitchPolicy};
pub(crate) use policy::{MOST_PERCENT, threshold};
