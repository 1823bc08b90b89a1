//! Reading a tree, with or without buffers in its nodes.
//!
//! *Knows*: how messages on the way to a leaf and the leaf's pairs are one state.
//!
//! *Does not know*: who writes, and when messages move.
//!
//! *Read in this order*: `lookup.rs`, `scan.rs`, `check.rs`.
//!
//! - **PR1** A reader latches a child before it leaves the parent. So no message passes it: a
//!   writer that moves messages holds the node that they come from until they have arrived.
//! - **PR2** Reading changes no byte of a page.

mod check;
mod lookup;
mod scan;

pub use check::Examined;
pub use scan::{Bounds, Scan};
