//! What a tree looks like and how much of it lies in a range, for people and for other layers.
//!
//! *Knows*: how a version is drawn and outlined; what the parts of a range weigh; how many
//! different keys maplets have.
//!
//! *Does not know*: how anything changes; no leaf of a run is read here.
//!
//! *Read in this order*: `draw.rs`, `outline.rs`, `places.rs`, `estimate.rs`.

mod draw;
mod estimate;
mod outline;
mod places;

pub use estimate::Holdings;
pub(super) use estimate::{approximate_len, distinct_keys, holdings, size_on_disk, weigh};
pub use outline::{Outline, OutlineBundle, OutlineLayer, OutlineNode, OutlinePivot, OutlineRun};
pub(super) use places::places;
