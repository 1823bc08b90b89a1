//! Stitching: a merge adopts leaves of its inputs without reading them, by copying their index
//! entries.
//!
//! *Scope*: which leaves of an input can be adopted, and when that is cheaper than copying them.
//!
//! *Must not depend on*: levels, trunks; which runs are merged, the reference counts of their
//! extents.
//!
//! The VT-tree of Spillane 2012, chapter 6, with corrections to the printed algorithms: the
//! comparison with the threshold is strict, a leaf ends after its last key (or at the next leaf's
//! separator, if its keys are not known), and a merge that may adopt nothing always copies a leaf.
//!
//! Invariants:
//!
//! - **B1** No other input has a key between the first key and the end of an adopted leaf.
//! - **B2** An adopted leaf is full, follows the previous one on the device, and lies completely in
//!   the range of its source.
//! - **B3** No record of an adopted leaf is folded, filtered, expired or deleted by this merge.

mod input;
mod policy;
mod read_prediction;

pub(crate) use input::{StitchInput, StitchRules};
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) use policy::StitchView;
pub use policy::{FilterSource, SameScan, StitchPolicy};
pub(crate) use policy::{MOST_PERCENT, threshold};
