//! Reads from a tree, whether or not its nodes have buffers.
//!
//! *Scope*: how the messages on the path to a leaf are combined with the leaf's pairs into one
//! state.
//!
//! *Must not depend on*: who writes, and when messages move.
//!
//! - **PR1** A reader latches a child before it releases the parent. With the feature `couplings`,
//!   it may instead latch the child or read the child's version, and then validate that no writer
//!   has changed the parent. In both cases a reader misses no message, because a writer that moves
//!   messages keeps their source node latched until the child contains them.
//! - **PR2** A read never changes the bytes of a page.

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
