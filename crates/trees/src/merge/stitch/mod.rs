//! Stitching: a merge adopts leaves of its inputs without reading them, by copying their index
//! entries.
//!
//! *Scope*: which leaves of an input can be adopted, and when adopting them is cheaper than copying
//! them.
//!
//! *Must not depend on*: levels, trunks; which runs are merged, the reference counts of their
//! extents.
//!
//! This is the VT-tree (Spillane 2012, chapter 6). It corrects the printed algorithms in three
//! points:
//!
//! - A sequence of leaves is adopted only if their number exceeds the threshold, not if it equals
//!   it.
//! - A leaf ends after its last key or, if its keys are not known, at the separator of the next
//!   leaf.
//! - When no leaf can be adopted, the merge always copies one, so that it makes progress.
//!
//! Invariants:
//!
//! - **B1** No other input has a key between the first key and the end of an adopted leaf.
//! - **B2** An adopted leaf is full, follows the previous adopted leaf on the device, and is
//!   completely within the key range of its source.
//! - **B3** The merge need not fold, filter, expire or delete any record of an adopted leaf. In
//!   particular, every range delete that touches the leaf, of any input, is older than all records
//!   of the leaf.
//! - **B4** A leaf is dropped unread only if every key between its bounds is covered by a range
//!   delete that every reader sees and that is newer than all records of the leaf.
//!
//! A record whose sequence number was replaced by 0 is older than every range delete that covers
//! its key: all range deletes that every reader saw were applied and dropped when the number was
//! replaced (G4), and later ones are newer. The records of an adopted leaf do not change, so their
//! sequence numbers order them relative to the new run's range deletes as they did before the
//! merge.

mod input;
mod leaf_coverage;
mod policy;
mod read_prediction;

pub(crate) use input::{StitchInput, StitchRules};
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) use policy::StitchView;
pub use policy::{FilterSource, SameScan, StitchPolicy};
pub(crate) use policy::{MOST_PERCENT, threshold};
