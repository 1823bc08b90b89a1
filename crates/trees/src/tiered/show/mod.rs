//! What a tree looks like and what it is about to cost, for people and for other layers.
//!
//! *Knows*: how a version is drawn and outlined; how much of what there is lies in a range.
//!
//! *Does not know*: how anything changes; no leaf of a run is read here.
//!
//! *Read in this order*: `draw.rs`, `outline.rs`, `estimate.rs`.

mod draw;
mod estimate;
mod outline;

pub use estimate::{Debt, Memory};
pub(super) use estimate::{Totals, compaction_bytes};
pub use outline::{Outline, OutlineBundle, OutlineLayer, OutlineNode, OutlinePivot, OutlineRun, Underway};
