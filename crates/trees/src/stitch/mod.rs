//! Stitching: a merge takes leaves of its inputs over unread, by copying their index entries.
//!
//! *Knows*: which leaves of an input can be taken over, and when that is cheaper than copying them.
//!
//! *Does not know*: levels, trunks; which runs are merged, who counts their extents.
//!
//! *Read in this order*: `policy.rs` (when), `input.rs` (a run that is read only where needed),
//! `foresight.rs` (how much of it is read together); `crate::run::adopt` has the mechanics.
//!
//! The VT-tree of Spillane 2012, chapter 6. What the printed algorithms get wrong is mended: the
//! comparison with the threshold is strict, a leaf ends behind its last key (or at the next leaf's
//! separator, where its keys are not known), and a merge that may take nothing over always copies a
//! leaf.
//!
//! Invariants:
//!
//! - **B1** No other input has a key between the first and the bound of a leaf that is taken over.
//! - **B2** A leaf that is taken over is full, behind the one before on the device, and wholly in
//!   the range of its source.
//! - **B3** No record of it is folded, filtered, expired or deleted by this merge.

mod foresight;
mod input;
mod policy;

pub(crate) use input::{Rules, Stitched};
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) use policy::StitchView;
pub use policy::{Filters, SameScan, Stitching};
pub(crate) use policy::{MOST_PERCENT, threshold};
