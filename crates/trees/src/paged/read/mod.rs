//! Reading a tree, with or without buffers in its nodes.
//!
//! *Scope*: how messages on the way to a leaf and the leaf's pairs form one state.
//!
//! *Must not depend on*: who writes, and when messages move.
//!
//! - **PR1** A reader latches a child before it releases the parent. With `couplings` it may
//!   instead validate, after it has latched the child or read its version, that no writer has
//!   changed the parent. So a reader misses no message: a writer that moves messages holds their
//!   source node until they have arrived.
//! - **PR2** Reading changes no byte of a page.

mod check;
#[cfg(feature = "couplings")]
mod couplings;
#[cfg(not(feature = "couplings"))]
mod descent;
mod lookup;
mod scan;

pub use check::{LevelFigures, TreeWalkReport};
#[cfg(feature = "couplings")]
pub use couplings::LatchCoupling;
#[cfg(not(feature = "couplings"))]
pub(in crate::paged) use descent::LatchCoupling;
pub use scan::{PagedTreeScan, ScanBounds};
