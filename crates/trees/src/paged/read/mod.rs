//! Reading a tree, with or without buffers in its nodes.
//!
//! *Knows*: how messages on the way to a leaf and the leaf's pairs are one state.
//!
//! *Does not know*: who writes, and when messages move.
//!
//! *Read in this order*: `descent.rs` (`couplings.rs` in its place with that feature), `lookup.rs`,
//! `scan.rs`, `check.rs`.
//!
//! - **PR1** A reader latches a child before it leaves the parent, or sees behind the child's
//!   latch, or its version, that no writer has had the parent since. So no message passes it: a
//!   writer that moves messages holds the node that they come from until they have arrived.
//! - **PR2** Reading changes no byte of a page.

mod check;
#[cfg(feature = "couplings")]
mod couplings;
#[cfg(not(feature = "couplings"))]
mod descent;
mod lookup;
mod scan;

pub use check::{Examined, LevelFigures};
#[cfg(feature = "couplings")]
pub use couplings::Coupling;
#[cfg(not(feature = "couplings"))]
pub(in crate::paged) use descent::Coupling;
pub use scan::{Bounds, Scan};
