//! Reading a tree, with or without buffers in its nodes.
//!
//! *Knows*: how messages on the way to a leaf and the leaf's pairs are one state.
//!
//! *Does not know*: who writes, and when messages move.
//!
//! *Read in this order*: `descent.rs`, `lookup.rs`, `scan.rs`, `check.rs`.
//!
//! - **PR1** A reader latches a child before it leaves the parent, or sees behind the child's latch
//!   that no writer has had the parent since. So no message passes it: a writer that moves messages
//!   holds the node that they come from until they have arrived.
//! - **PR2** Reading changes no byte of a page.

mod check;
mod descent;
mod lookup;
mod scan;

pub use check::{Examined, LevelFigures};
pub use descent::Coupling;
pub use scan::{Bounds, Scan};
