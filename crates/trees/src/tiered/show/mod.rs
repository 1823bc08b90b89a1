//! The shape of a tree and the amount of data in a key range, for display and for other layers.
//!
//! *Scope*: how a version is drawn and outlined; the weight of the parts in a key range; the number
//! of distinct keys, as estimated from maplets.
//!
//! *Must not depend on*: how anything changes. No leaf of a run is read here.

mod draw;
mod estimate;
mod outline;
mod places;

pub use estimate::RangeHoldings;
pub(super) use estimate::{approximate_len, distinct_keys, holdings, size_on_disk, weigh};
pub use outline::{Outline, OutlineBundle, OutlineLayer, OutlineNode, OutlinePivot, OutlineRun};
pub(super) use places::places;
